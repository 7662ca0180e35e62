"""A step's own ``next``, and the arcs of the wishes before it."""

from __future__ import annotations

from noetl.dialects.legacy.actions import Wish, read_wish
from noetl.dialects.legacy.book import Book
from noetl.dialects.legacy.nodes import changed, make
from noetl.dialects.legacy.pipeline import MARK
from noetl.dialects.legacy.retries import seconds_of
from noetl.dialects.legacy.spelling import Spelling
from noetl.dialects.legacy.warnings import note_use
from noetl.dialects.legacy.wishes import Wished, arcs_of, named_in
from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.steps import ARC, NEXT_SPEC, ROUTER
from noetl.dsl.node import Node
from noetl.dsl.place import Place
from noetl.templates import is_template
from noetl.types import JSON

_REPLACEMENT = "write next: {arcs: [{step: …}]}"


def is_old(router: Place) -> bool:
    """A list, a name, or a mapping with ``to``: not a router of arcs."""
    node = router.node
    named = isinstance(node.value, str)
    return node.is_sequence or named or ("to" in router and "arcs" not in router)


def read_old(router: Place, report: Report) -> Wish | None:
    if not is_old(router):
        return None
    if "to" in router:
        note_use(report, router.key("to"), "next.to", _REPLACEMENT)
    else:
        note_use(report, router, "next as a list", _REPLACEMENT)
    return read_wish(router, report)


def old_arcs(wish: Wish, spelling: Spelling) -> Node:
    """Several targets always fork (C-32)."""
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


def modern(router: Place, report: Report) -> tuple[Node, float]:
    """A router of arcs with older keys on it, and how long its transition waits."""
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


def _arc(arc: Place, report: Report) -> Node:
    if "with" not in arc:
        return arc.node
    note_use(report, arc.key("with"), "with", ARC.retired["with"].replacement)
    found = changed(arc.node, {"args": arc["with"].node}, frozenset({"with"}))
    found.key_marks["args"] = arc.node.key_marks["with"]
    return found


def delayed(tool: Node | None, seconds: float, like: Node) -> Node:
    """The pipeline with a wait at its end; what it came to stays its result."""
    entries = [] if tool is None else tool.items if tool.is_sequence else [tool]
    hold: JSON = {f"delay{MARK}hold": {"kind": "noop", "result": "{{ _prev }}"}}
    wait: JSON = {f"delay{MARK}wait": {"kind": "wait", "for": seconds}}
    result = f"{{{{ _outcomes.delay{MARK}hold.result }}}}"
    end: JSON = {f"delay{MARK}end": {"kind": "noop", "result": result}}
    return make([*entries, hold, wait, end], like)


def beside(
    router: Node | None, wished: list[Wished], route: str | None, book: Book, like: Node
) -> Node | None:
    """The step's own router counts only if no wish was granted (S-57)."""
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
    """The arcs of a loop take its results along, for who reads ``<step>.data``."""
    if router is None or "arcs" not in router.entries:
        return router
    data = "{{ event.payload.results | default(none) }}"
    arcs: list[JSON] = []
    for arc in router.entries["arcs"].items:
        args = arc.entries.get("args") or make({}, arc)
        arcs.append(changed(arc, {"args": changed(args, {step: {"data": data}})}))
    return changed(router, {"arcs": arcs})
