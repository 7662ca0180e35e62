"""Parser of ``case``: branches in order, each with its chain of calls and routings."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.dialects.legacy.nodes import note_use
from noetl.dialects.legacy.retries import Poll, Retry, read_poll, read_retry, seconds_of
from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.reader import Reader
from noetl.dsl.grammar.records import (
    ANY,
    GUARD,
    MAPPING,
    TEXT,
    Field,
    Record,
    Shape,
    list_of,
    mapping_of,
    one_of,
)
from noetl.dsl.grammar.tasks import TASK_SPEC
from noetl.dsl.node import Location, Node, describe
from noetl.dsl.parse.tasks import RETIRED

POLICIES = ("end_step", "break_chain", "defer")
_OWN = frozenset({"retry", "poll", "args", "vars", "set_vars", "sink"})
ACTION = Record(
    "legacy_action",
    "a task of a chain",
    {
        "tool": Field(MAPPING, "LEG-CASE-17", "The tool.", "LEG-CASE-17"),
        **{
            key: Field(ANY, "LEG-CASE-17", "See the step's key of this name.")
            for key in sorted(_OWN)
        },
    },
)
NEXT = Record(
    "legacy_next",
    "'next'",
    {
        "to": Field(
            list_of(mapping_of("legacy_target")),
            "LEG-NEXT-11",
            "Targets.",
            "LEG-NEXT-11",
        ),
        "policy": Field(one_of(*POLICIES), "LEG-NEXT-12", "Instead of the step's."),
        "priority": Field(Shape(("integer",)), "LEG-NEXT-08", "The highest wins."),
        "spec": Field(MAPPING, "LEG-NEXT-13", "`delay`."),
    },
)
TARGET = Record(
    "legacy_target",
    "a target",
    {
        "step": Field(TEXT, "LEG-NEXT-11", "The step.", "LEG-NEXT-11"),
        "with": Field(MAPPING, "C-33", "The arguments of the token."),
        "args": Field(MAPPING, "C-33", "The arguments of the token."),
        "when": Field(ANY, "LEG-NEXT-11", "Its guard, on a step's own 'next'."),
    },
)


class Call(msgspec.Struct):
    """Tool call. ``retry`` is its own; None if it inherits one."""

    name: str
    tool: Location
    retry: Retry | None
    poll: Poll | None
    args: dict[str, Node]
    vars: dict[str, Node]
    sink: Location | None


class Target(msgspec.Struct):
    step: Node
    args: dict[str, Node]
    when: Node | None


class Wish(msgspec.Struct):
    """Routing request by ``next``: its targets, used if it wins."""

    at: Location
    targets: list[Target]
    policy: str | None
    priority: int
    delay: float


def read_chain(chain: Location, report: Report) -> Iterator[Call | Wish]:
    """Yield the actions of a then-list, in order."""
    entries = list(chain.children()) if chain.node.is_sequence else [chain]
    for entry in entries:
        if not entry.node.is_mapping:
            message = (
                f"a task of a chain must be a mapping, found {describe(entry.node)}"
            )
            hint = "write - name: {tool: {kind: …}}"
            report.error("LEG-CASE-16", "type", entry, message, hint)
            continue
        for name in entry.child_keys():
            if name == "next":
                yield read_wish(entry[name], report)
                continue
            call = read_call(name, entry[name], report)
            if call is not None:
                yield call


def read_call(name: str, at: Location, report: Report) -> Call | None:
    """Read a named task: its tool is below ``tool``, or in its place."""
    if not at.node.is_mapping:
        message = f"task '{name}' must be a mapping, found {describe(at.node)}"
        report.error("LEG-CASE-17", "type", at, message, "write tool: {kind: …}")
        return None
    if "kind" in at and "tool" not in at:
        return make_call(name, at, [at], report)
    parts = Reader(report).read(at, ACTION)
    if "tool" not in parts:
        return None
    return make_call(name, parts["tool"], [parts["tool"], at], report)


def make_call(
    name: str, tool: Location, owners: list[Location], report: Report
) -> Call:
    """Build a call; ``owners`` are the mappings that describe it, inner first."""
    found = {
        key: owner[key] for owner in reversed(owners) for key in _OWN if key in owner
    }
    for owner in owners:
        for key in RETIRED:
            if key in owner and key in _OWN:
                note_use(report, owner.key(key), key, RETIRED[key].replacement)
    note_async(tool, report)
    retry = tool.get("retry") or _short_retry(tool) or found.get("retry")
    args, variables = found.get("args"), found.get("vars") or found.get("set_vars")
    return Call(
        name,
        tool,
        None if retry is None else read_retry(retry, report),
        read_poll(found["poll"], report) if "poll" in found else None,
        {} if args is None else dict(args.node.entries),
        {} if variables is None else dict(variables.node.entries),
        found.get("sink"),
    )


def note_async(tool: Location, report: Report) -> None:
    spec = tool.get("spec")
    if spec is not None and "async" in spec:
        replacement = TASK_SPEC.retired["async"].replacement
        note_use(report, spec.key("async"), "async", replacement)


def _short_retry(tool: Location) -> Location | None:
    """Read ``tool.spec.retry: 3``, short for ``retry.max_attempts: 3`` (C-29)."""
    spec = tool.get("spec")
    short = spec.get("retry") if spec is not None else None
    return short if short is not None and type(short.node.value) is int else None


def read_wish(at: Location, report: Report) -> Wish:
    """Read ``next`` in any form: a mapping with ``to``, a list, one name."""
    if at.node.is_sequence or isinstance(at.node.value, str):
        return Wish(at, _targets(at, report), None, 0, 0.0)
    if not at.node.is_mapping:
        message = f"'next' must be a mapping with 'to', found {describe(at.node)}"
        report.error("LEG-NEXT-11", "type", at, message, "next: {to: [{step: …}]}")
        return Wish(at, [], None, 0, 0.0)
    parts = Reader(report).read(at, NEXT)
    spec = parts.get("spec")
    delay = spec.get("delay") if spec is not None else None
    return Wish(
        at,
        _targets(parts["to"], report) if "to" in parts else [],
        parts["policy"].node.value if "policy" in parts else None,
        parts["priority"].node.value if "priority" in parts else 0,
        seconds_of(delay, report, 0.0),
    )


def _targets(at: Location, report: Report) -> list[Target]:
    if isinstance(at.node.value, str):
        return [Target(at.node, {}, None)]
    targets: list[Target] = []
    for entry in at.children():
        if isinstance(entry.node.value, str):
            targets.append(Target(entry.node, {}, None))
        elif not entry.node.is_mapping:
            message = f"a target must be a mapping, found {describe(entry.node)}"
            report.error("LEG-NEXT-11", "type", entry, message, "write - step: name")
        else:
            parts = Reader(report).read(entry, TARGET)
            given = parts.get("with") or parts.get("args")
            guard = parts.get("when")
            if "step" in parts:
                targets.append(
                    Target(
                        parts["step"].node,
                        {} if given is None else dict(given.node.entries),
                        None if guard is None else guard.node,
                    )
                )
    return targets


BRANCH = Record(
    "legacy_branch",
    "a branch of 'case'",
    {
        "when": Field(GUARD, "LEG-CASE-01", "The condition."),
        "then": Field(ANY, "LEG-CASE-01", "The chain."),
        "else": Field(ANY, "LEG-CASE-07", "The chain if no condition holds."),
        "priority": Field(Shape(("integer",)), "LEG-CASE-06", "The highest first."),
        "retry": Field(ANY, "LEG-RETRY-05", "The chain's retry."),
        "spec": Field(MAPPING, "LEG-CASE-01", "Hints."),
    },
)
ELSE = "else"


class Branch(msgspec.Struct):
    """Branch of a case; ``when`` is None for the fallback."""

    name: str
    at: Location
    when: Node | None
    actions: list[Call | Wish]
    priority: int
    retry: Retry | None


def read_case(case: Location, by_priority: bool, report: Report) -> list[Branch]:
    """Return the branches in branch order (C-41), the fallback last."""
    if not case.node.is_sequence:
        message = f"'case' must be a list of branches, found {describe(case.node)}"
        hint = 'write - when: "{{ … }}" with a then: below it'
        report.error("LEG-CASE-01", "type", case, message, hint)
        return []
    branches = list(_branches(case, report))
    if by_priority:
        branches.sort(key=lambda branch: -branch.priority)
    return sorted(branches, key=lambda branch: branch.when is None)


def _branches(case: Location, report: Report) -> Iterator[Branch]:
    fallback: Location | None = None
    for number, at in enumerate(case.children()):
        if not at.node.is_mapping:
            message = f"a branch must be a mapping, found {describe(at.node)}"
            report.error("LEG-CASE-01", "type", at, message, 'write - when: "{{ … }}"')
            continue
        parts = Reader(report).read(at, BRANCH)
        if ("when" in at) == ("else" in at):
            message = "a branch has either 'when' with 'then', or 'else'"
            report.error("LEG-CASE-01", "branch", at, message, "keep one of them")
            continue
        if "else" in at:
            if fallback is not None:
                message = f"a second 'else'; the first is at line {fallback.mark[0]}"
                report.error("LEG-CASE-07", "branch", at.key("else"), message)
                continue
            fallback = at
        chain = parts.get("else") or parts.get("then")
        retry, priority = parts.get("retry"), parts.get("priority")
        if "when" in at and "when" not in parts:
            continue
        yield Branch(
            ELSE if "else" in at else f"case_{number}",
            at,
            parts["when"].node if "when" in parts else None,
            list(read_chain(chain, report)) if chain is not None else [],
            priority.node.value if priority is not None else 0,
            None if retry is None else read_retry(retry, report),
        )
