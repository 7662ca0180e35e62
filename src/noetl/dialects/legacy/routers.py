"""Routing: ``next`` as a recorded action, and the arcs of a step that grant it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.dialects.legacy.case import Target, Wish, read_wish
from noetl.dialects.legacy.nodes import changed, make, note_use
from noetl.dialects.legacy.pipeline import END, MARK, Pipeline, Rule, Task
from noetl.dialects.legacy.retries import seconds_of
from noetl.dialects.legacy.symbols import Book, Spelling
from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.steps import ARC, NEXT_SPEC, ROUTER
from noetl.dsl.node import Location, Node
from noetl.templates import is_template
from noetl.types import JSON


class Wished(msgspec.Struct):
    """Routing request with its label, its branch and its policy."""

    wish: Wish
    label: str
    branch: str
    policy: str

    @property
    def first(self) -> str:
        return self.label


def wish_body(wished: Wished, spelling: Spelling, result: str) -> dict[str, JSON]:
    """Return the task that records a request; it keeps the step's result so far."""
    wish = wished.wish
    targets: list[JSON] = [
        {
            "step": spelling.tree(target.step),
            "with": {name: spelling.tree(node) for name, node in target.args.items()},
        }
        for target in wish.targets
    ]
    note: dict[str, JSON] = {
        "label": wished.label,
        "branch": wished.branch,
        "to": targets,
        "policy": wished.policy,
        "priority": wish.priority,
        "delay": wish.delay,
    }
    return {
        "kind": "noop",
        "result": f"{{{{ {result} | default(none) }}}}",
        "note": {"next": note},
    }


def build_route(
    pipeline: Pipeline,
    label: str,
    wished: list[Wished],
    unasked: str | None,
    like: Node,
) -> list[Task]:
    """Add the end of an epoch: the winning request, and its delay (C-43).

    ``unasked`` is the target of the step without any request.
    """
    ranked = sorted(wished, key=lambda each: -each.wish.priority)
    winner = "none"
    for each in reversed(ranked):
        note = f"_outcomes.{each.label}.noop.note.next"
        winner = f"({note} if _outcomes.{each.label} else {winner})"
    body: dict[str, JSON] = {
        "kind": "noop",
        "result": "{{ _prev }}",
        "note": {"route": f"{{{{ {winner} }}}}"},
    }
    rules = [Rule("not outcome.noop.note.route", {"go": unasked})]
    tasks: list[Task] = []
    if any(each.wish.delay for each in wished):
        wait, end = (
            pipeline.label(f"route{MARK}wait"),
            pipeline.label(f"route{MARK}end"),
        )
        rules.append(Rule("outcome.noop.note.route.delay > 0", {"go": wait}))
        delay = f"{{{{ _outcomes.{label}.noop.note.route.delay }}}}"
        waiting = make({"kind": "wait", "for": delay}, like)
        result = f"{{{{ _outcomes.{label}.result }}}}"
        ending = make({"kind": "noop", "result": result}, like)
        tasks = [
            Task(wait, waiting, [Rule(None, {"go": end})]),
            Task(end, ending, [Rule(None, {"go": END})]),
        ]
    rules.append(Rule(None, {"go": END}))
    return [Task(label, make(body, like), rules), *tasks]


def arcs_of(wished: list[Wished], route: str | None, book: Book) -> Iterator[Node]:
    """Yield an arc for each step that a request may lead to."""
    for each in wished:
        note = f"_outcomes.{each.label}.noop.note.next"
        granted = f"_outcomes.{each.label}"
        if route is not None:
            granted = f"_outcomes.{route}.noop.note.route.label == '{each.label}'"
        for number, target in enumerate(each.wish.targets):
            told = f"{note}.to[{number}]"
            args: dict[str, JSON] = {
                name: f"{{{{ {told}.with.{name} }}}}" for name in target.args
            }
            for step, guard in _candidates(target, f"{told}.step", book):
                when = f"event.name == 'step.done' and {granted}{guard}"
                arc: dict[str, JSON] = {"step": step, "when": f"{{{{ {when} }}}}"}
                if args:
                    arc["args"] = args
                yield make(arc, target.step)


def _candidates(target: Target, told: str, book: Book) -> Iterator[tuple[JSON, str]]:
    """Yield the steps that a target can name, each with its extra condition."""
    text = target.step.value
    if not is_template(text):
        yield target.step, ""
        return
    for step in named_in(text, book):
        yield step, f" and {told} == '{step}'"


def named_in(text: str, book: Book) -> list[str]:
    """Return the steps that a template names; every step if it names none."""
    spelled = [
        name
        for name in sorted(book.steps)
        if f"'{name}'" in text or f'"{name}"' in text
    ]
    return spelled or sorted(book.steps)


_REPLACEMENT = "write next: {arcs: [{step: …}]}"


def is_old(router: Location) -> bool:
    """Return whether ``next`` is a list, a name, or a mapping with ``to``."""
    node = router.node
    named = isinstance(node.value, str)
    return node.is_sequence or named or ("to" in router and "arcs" not in router)


def read_old(router: Location, report: Report) -> Wish | None:
    if not is_old(router):
        return None
    if "to" in router:
        note_use(report, router.key("to"), "next.to", _REPLACEMENT)
    else:
        note_use(report, router, "next as a list", _REPLACEMENT)
    return read_wish(router, report)


def old_arcs(wish: Wish, spelling: Spelling) -> Node:
    """Return the arcs of an older ``next``; several targets always fork (C-32)."""
    told = spelling.with_names(result="event.payload.result")
    arcs: list[JSON] = []
    for target in wish.targets:
        args = {name: told.tree(node) for name, node in target.args.items()}
        text = target.step.value
        guard = None if target.when is None else told.expression(target.when.value)
        steps: list[tuple[JSON, str | None]] = [(target.step, guard)]
        if isinstance(text, str) and is_template(text):
            named = f"({told.expression(text)})"
            steps = [
                (step, f"{named} == '{step}'" + (f" and ({guard})" if guard else ""))
                for step in named_in(text, spelling.book)
            ]
        for step, when in steps:
            arc: dict[str, JSON] = {"step": step}
            if when is not None:
                arc["when"] = f"{{{{ {when} }}}}"
            if args:
                arc["args"] = args
            arcs.append(make(arc, target.step))
    return make({"spec": {"mode": "inclusive"}, "arcs": arcs}, wish.at.node)


def modern(router: Location, report: Report) -> tuple[Node, float]:
    """Return a router of arcs without older keys, and the delay of its transition."""
    fresh: dict[str, JSON] = {}
    for key in ("policy", "priority"):
        if key in router and not isinstance(router[key].node.value, dict):
            note_use(report, router.key(key), key, ROUTER.retired[key].replacement)
    spec, arcs = router.get("spec"), router.get("arcs")
    delay = 0.0
    if spec is not None and "delay" in spec:
        note_use(
            report, spec.key("delay"), "delay", NEXT_SPEC.retired["delay"].replacement
        )
        delay = seconds_of(spec["delay"], report, 0.0)
        fresh["spec"] = changed(spec.node, {}, frozenset({"delay"}))
    if arcs is not None and arcs.node.is_sequence:
        fresh["arcs"] = make([_arc(arc, report) for arc in arcs.children()], arcs.node)
    gone = frozenset({"policy", "priority"})
    return changed(router.node, fresh, gone), delay


def _arc(arc: Location, report: Report) -> Node:
    if "with" not in arc:
        return arc.node
    note_use(report, arc.key("with"), "with", ARC.retired["with"].replacement)
    found = changed(arc.node, {"args": arc["with"].node}, frozenset({"with"}))
    found.key_marks["args"] = arc.node.key_marks["with"]
    return found


def delayed(tool: Node | None, seconds: float, like: Node) -> Node:
    """Return the pipeline with a wait at its end; its result is unchanged."""
    entries = [] if tool is None else tool.items if tool.is_sequence else [tool]
    hold: JSON = {f"delay{MARK}hold": {"kind": "noop", "result": "{{ _prev }}"}}
    wait: JSON = {f"delay{MARK}wait": {"kind": "wait", "for": seconds}}
    result = f"{{{{ _outcomes.delay{MARK}hold.result }}}}"
    end: JSON = {f"delay{MARK}end": {"kind": "noop", "result": result}}
    return make([*entries, hold, wait, end], like)


def beside(
    router: Node | None, wished: list[Wished], route: str | None, book: Book, like: Node
) -> Node | None:
    """Return the router, whose own arcs count only without a granted request (S-57)."""
    arcs: list[JSON] = list(arcs_of(wished, route, book))
    if not arcs:
        return router
    forks = any(len(each.wish.targets) > 1 for each in wished)
    if router is None:
        mode = "inclusive" if forks else "exclusive"
        return make({"spec": {"mode": mode}, "arcs": arcs}, like)
    own = router.entries["arcs"].items if "arcs" in router.entries else []
    spec = router.entries.get("spec")
    given = spec.entries.get("mode") if spec is not None else None
    inclusive = given is not None and given.value == "inclusive"
    if not (forks or inclusive):
        return changed(router, {"arcs": [*arcs, *own]})
    granted = " or ".join(f"_outcomes.{each.label}" for each in wished)
    refused = f"not ({granted})"
    before: list[str] = []
    for arc in own:
        when = arc.entries.get("when")
        guard = "event.name == 'step.done'"
        if when is not None:
            guard = Spelling(book, "", {}).expression(when.value)
        parts = [refused, f"({guard})"]
        if not inclusive:
            parts += [f"not ({other})" for other in before]
            before.append(guard)
        arcs.append(changed(arc, {"when": f"{{{{ {' and '.join(parts)} }}}}"}))
    base = make({}, router) if spec is None else spec
    return changed(router, {"spec": changed(base, {"mode": "inclusive"}), "arcs": arcs})


def with_results(router: Node | None, step: str) -> Node | None:
    """Pass a loop's results on by its arcs, for templates with ``<step>.data``."""
    if router is None or "arcs" not in router.entries:
        return router
    data = "{{ event.payload.results | default(none) }}"
    arcs: list[JSON] = []
    for arc in router.entries["arcs"].items:
        args = arc.entries.get("args") or make({}, arc)
        arcs.append(changed(arc, {"args": changed(args, {step: {"data": data}})}))
    return changed(router, {"arcs": arcs})
