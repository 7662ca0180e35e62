"""Dialect of specification 003: cases, chains, control actions, retries and polls."""

from __future__ import annotations

from noetl.dialects.legacy.case import note_async
from noetl.dialects.legacy.labels import Plan
from noetl.dialects.legacy.nodes import changed, make, note_use
from noetl.dialects.legacy.pipeline import MARK
from noetl.dialects.legacy.routers import (
    beside,
    delayed,
    modern,
    old_arcs,
    read_old,
    with_results,
)
from noetl.dialects.legacy.settings import read_settings, rewrite_loop
from noetl.dialects.legacy.steps import Front, spec_of
from noetl.dialects.legacy.symbols import Book, Spelling, is_legacy, read_book
from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.document import ROOT
from noetl.dsl.grammar.steps import STEP
from noetl.dsl.node import Location, Node
from noetl.types import JSON

_BLOCKS = ("case", "retry", "poll", "sink", "vars", "set_vars", "args", "when")
_REMOVED_KEYS = frozenset(_BLOCKS)


def rewrite(root: Node, report: Report, extensions: frozenset[str]) -> Node:
    """Return the document in canonical nodes; other values stay for the grammar."""
    at = Location(root)
    workflow = at.get("workflow")
    if workflow is None or not workflow.node.is_sequence:
        return root
    book = read_book(root)
    fresh: dict[str, JSON] = {
        "workflow": make(
            [_step(step, book, report) for step in workflow.children()], workflow.node
        )
    }
    gone = frozenset[str]()
    if "vars" in at:
        note_use(report, at.key("vars"), "vars", ROOT.retired["vars"].replacement)
        base = root.entries.get("workload") or make({}, root)
        fresh["workload"] = changed(base, {"vars": at["vars"].node})
        gone = frozenset({"vars"})
    return changed(root, fresh, gone)


def _step(step: Location, book: Book, report: Report) -> Node:
    name = step.get("step")
    if name is None or not isinstance(name.node.value, str):
        return step.node
    _note_blocks(step, report)
    if is_legacy(step):
        return _legacy(step, name.node.value, book, report)
    return _canonical(step, name.node.value, book, report)


def _note_blocks(step: Location, report: Report) -> None:
    for key in _BLOCKS:
        if key in step and key in STEP.retired:
            note_use(report, step.key(key), key, STEP.retired[key].replacement)
    spec, retry = step.get("spec"), step.get("retry")
    scope = retry.get("scope") if retry is not None else None
    mode = spec.get("eval_mode") if spec is not None else None
    waits = mode is not None and mode.node.value == "on_event"
    if scope is not None and scope.node.value == "step" and ("case" in step or waits):
        message = "'retry.scope: step' where the step reacts to events"
        hint = "retry the tool calls: scope: tool, or chain"
        report.warn("WARN-04", "retry-scope", scope, message, hint)


def _legacy(step: Location, name: str, book: Book, report: Report) -> Node:
    settings = read_settings(step, report)
    plan = Plan(step, name, book, settings, report)
    tool = Front(plan).tool()
    fresh = _common(step, spec_of(plan), report)
    if tool is None and "case" in step:
        tool = make({"kind": "noop"}, step.node)  # C-17: it counts as a body
    own, delay = _router(step, plan.spelling, report)
    router = beside(own, plan.wished, plan.route, book, step.node)
    return _finished(step, name, book, fresh, tool, router, delay)


def _finished(
    step: Location,
    name: str,
    book: Book,
    fresh: dict[str, JSON],
    tool: Node | None,
    router: Node | None,
    delay: float,
) -> Node:
    if name in book.looped and book.reads_data(name):
        router = with_results(router, name)
    if delay:
        tool = delayed(tool, delay, step.node)
    if tool is not None:
        fresh["tool"] = tool
    if router is not None:
        fresh["next"] = router
    return changed(step.node, fresh, _REMOVED_KEYS)


def _common(step: Location, spec: Node | None, report: Report) -> dict[str, JSON]:
    """Rewrite the common parts of a step: a gate, and a loop by older names."""
    fresh: dict[str, JSON] = {}
    if "when" in step:
        base = make({}, step.node) if spec is None else spec
        policy = base.entries.get("policy") or make({}, step.node)
        rules: list[JSON] = [
            {"when": step["when"].node, "then": {"allow": True}},
            {"else": {"then": {"allow": False}}},
        ]
        gated = changed(policy, {"admit": {"rules": rules}})
        spec = changed(base, {"policy": gated})
    if spec is not None:
        fresh["spec"] = spec
    loop = step.get("loop")
    if loop is not None and loop.node.is_mapping:
        fresh["loop"] = rewrite_loop(loop, report)
    return fresh


def _router(
    step: Location, spelling: Spelling, report: Report
) -> tuple[Node | None, float]:
    """Return the step's own router, and the delay of its transition."""
    at = step.get("next")
    if at is None:
        return None, 0.0
    old = read_old(at, report)
    if old is not None:
        return old_arcs(old, spelling), old.delay
    if not at.node.is_mapping:
        return at.node, 0.0
    router, delay = modern(at, report)
    mode = _next_mode(step)
    if mode is not None:
        spec = router.entries.get("spec") or make({}, router)
        router = changed(router, {"spec": changed(spec, {"mode": mode})})
    return spelling.tree(router), delay


def _next_mode(step: Location) -> Node | None:
    spec = step.get("spec")
    at = spec.get("next_mode") if spec is not None else None
    return None if at is None else at.node


def _canonical(step: Location, name: str, book: Book, report: Report) -> Node:
    """Rewrite a canonical step: only names of other steps are replaced."""
    spelling = Spelling(book, name, {})
    settings = read_settings(step, report)
    spec = step.get("spec")
    kept = None if spec is None else changed(spec.node, {}, settings.gone)
    fresh = _common(step, kept, report)
    at = step.get("tool")
    tool = None if at is None else _spelled(at, spelling, report)
    if tool is not None and book.reads_data(name) and name not in book.looped:
        tool = _published(tool, name)
    router, delay = _router(step, spelling, report)
    return _finished(step, name, book, fresh, tool, router, delay)


def _spelled(at: Location, spelling: Spelling, report: Report) -> Node:
    """Replace names in a pipeline of any shape; python code belongs to a task."""
    node = at.node
    if "kind" in node.entries:
        note_async(at, report)
        task = spelling.tool(node)
        spec = task.entries.get("spec")
        if spec is not None and "async" in spec.entries:
            task.value["spec"] = changed(spec, {}, frozenset({"async"}))
        return task
    inside = [_spelled(child, spelling, report) for child in at.children()]
    if node.is_sequence:
        return make(inside, node)
    if node.is_mapping:
        return changed(node, dict(zip(node.entries, inside, strict=True)))
    return node


def _published(tool: Node, name: str) -> Node:
    """Store the pipeline's result in ``ctx``, for templates with ``<step>.data``."""
    entries = tool.items if tool.is_sequence else [tool]
    rule = {"then": {"do": "break", "set_ctx": {name: {"data": "{{ _prev }}"}}}}
    last: JSON = {
        f"data{MARK}publish": {
            "kind": "noop",
            "result": "{{ _prev }}",
            "spec": {"policy": {"rules": [{"else": rule}]}},
        }
    }
    return make([*entries, last], tool)
