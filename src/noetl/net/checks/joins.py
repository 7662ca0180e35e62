"""Joins that can never fill, and sources that can never help them to."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.dsl.model import Join
from noetl.net.checks.capacity import count_deliveries, explore_before
from noetl.net.finding import Finding, found, listed
from noetl.net.flow import Flow
from noetl.net.walks import explore, trace


def find_broken_joins(flow: Flow) -> Iterator[Finding]:
    """A join must be able to get the tokens that it waits for (S-04)."""
    for name in flow.reachable:
        join = flow.net.steps[name].join
        if join is None:
            continue
        if name == flow.net.entry:
            yield _warn_of_entry(join, name)
            continue
        able = _find_deliverers(flow, name)
        yield from _check_count(flow, join, name, able)
        if join.sources is not None and able:
            yield from _check_sources(flow, join, name, able)


def _warn_of_entry(join: Join, name: str) -> Finding:
    return found(
        "warning",
        "S-04",
        "join-at-entry",
        join.at,
        f"the first token comes from no step, so the join of '{name}' has nothing to "
        "wait for",
        hint="begin with a step that has no join",
        witness=(name,),
    )


def _find_deliverers(flow: Flow, name: str) -> list[str]:
    """The sources that can send a token before the join has fired once."""
    before = explore_before(flow, name)
    return [
        source
        for source in flow.net.sources(name)
        if source in before and source != name and name in flow.targets(source)
    ]


def _check_count(
    flow: Flow, join: Join, name: str, able: list[str]
) -> Iterator[Finding]:
    need = join.need if isinstance(join.need, int) else 1
    if not able:
        yield _never_fills(flow, join, name, _explain_silence(flow, name))
    elif need > len(able):
        who = f"only {listed(able)} can send one"
        if len(able) < len(flow.net.sources(name)):
            who += " before it has fired"
        yield _never_fills(flow, join, name, f"it waits for {need} tokens, but {who}")
    elif need > 1:
        most, chooser = count_deliveries(flow, name, able)
        if need > most:
            why = f"it waits for {need} tokens, but at most {most} can arrive"
            if chooser:
                why += f": '{chooser}' sends each token only one way"
            yield _never_fills(flow, join, name, why, chooser)


def _explain_silence(flow: Flow, name: str) -> str:
    sources = flow.net.sources(name)
    if sources == (name,):
        return "it waits only for itself"
    if all(source not in flow.net.predecessors(name) for source in sources):
        return f"{listed(sources)} sends it no token: there is no arc"
    if any(source in flow.parents for source in sources):
        return f"{listed(sources)} can send one only after the join has fired"
    return f"no token ever reaches {listed(sources)}"


def _never_fills(
    flow: Flow, join: Join, name: str, why: str, chooser: str | None = None
) -> Finding:
    witness = flow.path_to(name)
    if chooser is not None:
        onward = trace(explore([chooser], flow.targets), name)
        witness = (*flow.path_to(chooser), *onward[1:])
    return found(
        "error",
        "S-04",
        "join-never-fills",
        join.at,
        f"the join of '{name}' can never fill: {why}; the execution ends in error "
        "join.unreachable",
        hint="list under 'from' the steps that have an arc here, and wait for no more "
        "than can arrive (mode: all never waits for a branch that was not taken)",
        witness=witness,
    )


def _check_sources(
    flow: Flow, join: Join, name: str, able: list[str]
) -> Iterator[Finding]:
    listed_sources = flow.net.sources(name)
    for source in listed_sources:
        why = None if source in able else _explain_source(flow, name, source)
        if why is not None:
            yield found(
                "warning",
                "S-04",
                "join-source-silent",
                join.at,
                f"the join of '{name}' names '{source}', {why}",
                hint=f"add an arc from '{source}' to '{name}', or do not name it",
                witness=flow.path_to(name),
            )
    for stranger in flow.net.predecessors(name):
        if (
            stranger not in listed_sources
            and stranger in flow.parents
            and name in flow.targets(stranger)
        ):
            yield found(
                "warning",
                "S-04",
                "join-stranger",
                join.at,
                f"'{stranger}' has an arc to '{name}', whose join does not wait for it",
                hint=f"add '{stranger}' to 'from', or lead its arc elsewhere",
                witness=(*flow.path_to(stranger), name),
            )


def _explain_source(flow: Flow, name: str, source: str) -> str | None:
    """Why a source never delivers; None if it may, once the join has fired."""
    if source not in flow.net.predecessors(name):
        return "which has no arc to it"
    if source not in flow.parents:
        return "which no token ever reaches"
    if name not in flow.targets(source):
        return "whose arc to it never fires"
    return None
