"""Checks of the names that templates read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import partial

from noetl.dsl.diagnostics import did_you_mean, nearest
from noetl.dsl.grammar.earlier_forms import (
    EVENTS,
    accepted,
    accepts_older_forms,
    or_enabled,
)
from noetl.dsl.grammar.earlier_forms import NAMES as OLDER
from noetl.dsl.node import shorten
from noetl.dsl.parse import Draft
from noetl.dsl.parse.context import TemplateUse
from noetl.dsl.rules.registry import Found, rule
from noetl.dsl.template_scopes import NAMESPACES, Names, offered
from noetl.errors import TemplateError
from noetl.templates.syntax import Node

_LOOKED_UP = 25  # searches for similar names; each one is slow
_CLOCKS = {"now", "utcnow", "today", "random", "uuid", "uuid4"}


@rule("template-scope", "C-38")
def names_exist_in_their_scope(draft: Draft) -> Iterator[Found]:
    """A template reads only the namespaces of its location: `outcome` in task policies,
    `event` in arcs and admission, `iter` in loops, pipeline locals in pipelines."""
    for use in draft.uses:
        available = offered(use.site, use.depth)
        for reference in use.template.references:
            name = reference.path[0]
            if name not in NAMESPACES or name in available:
                continue
            if name == "iter" and reference.path[1:2] == ("parent",):
                continue  # a child playbook sees the iteration that called it
            message = f"'{name}' is not available {_where(use)}"
            hint = f"available: {', '.join(sorted(available))}"
            yield use.at, message, _instead(name, use) or hint


def _where(use: TemplateUse) -> str:
    places = {
        "input": "in a task's inputs",
        "guard": "in the guard of a task",
        "policy": "in a task policy",
        "arc": "in an arc",
        "admit": "in admission",
        "loop": "in 'loop.in'",
        "keychain": "in a keychain entry",
        "place": "in a concurrency key",
    }
    return places[use.site]


def _instead(name: str, use: TemplateUse) -> str | None:
    if name == "outcome" and use.site == "arc":
        return "did you mean 'event'? e.g. event.name, event.payload.result"
    if name == "outcome" and use.site == "input":
        return "did you mean '_prev', the previous task's result?"
    if name == "event" and use.site == "policy":
        return "did you mean 'outcome'?"
    if name == "iter" and use.site in ("input", "policy"):
        return "the step has no loop; did you mean 'ctx' or 'args'?"
    return None


@rule("outcome-label", "TPL-05")
def outcomes_are_of_tasks_of_the_step(draft: Draft) -> Iterator[Found]:
    """`_outcomes.<label>` reads a task of the same step; a loop's arcs have none."""
    for use in draft.uses:
        for reference in use.template.references:
            if reference.path[0] != "_outcomes":
                continue
            step = draft.playbook.steps.get(use.step)
            if step is None:
                continue
            if use.site == "arc" and step.loop is not None:
                message = "'_outcomes' is not available in arcs of a loop"
                yield use.at, message, "read event.payload.results"
                continue
            labels = {task.label for task in step.tasks}
            for label in reference.path[1:2]:
                if label not in labels:
                    message = f"step '{step.name}' has no task '{shorten(label)}'"
                    yield use.at, message, partial(did_you_mean, label, labels)


@rule("unknown-name", "C-34", "warning")
def names_are_defined_somewhere(draft: Draft) -> Iterator[Found]:
    """A bare name is a key of args, ctx, iter or workload that something in the
    playbook defines."""
    names = Names(draft)
    older = accepts_older_forms(draft.playbook.extensions)
    for use in draft.uses:
        for reference in use.template.references:
            name = reference.path[0]
            if name in NAMESPACES or reference.guarded or names.defines(use.step, name):
                continue
            hint = partial(_nearest_name, name, names, use, older)
            yield use.at, f"nothing defines '{shorten(name)}'", hint


def _nearest_name(name: str, names: Names, use: TemplateUse, older: bool) -> str:
    if name in _CLOCKS:
        return "time and chance are not available; use execution.started_at"
    if older and name in names.steps:
        return "that step has no result which its arcs could hand on"
    if name in OLDER and not older:
        return accepted(OLDER[name])
    if name == "vars":
        return or_enabled("read ctx.…, and write with set_ctx")
    if name == use.step and use.site == "arc" and not older:
        return accepted("event.payload.result")
    if name in names.steps and not older:
        on_arcs = f"args: {{{name}: '{{{{ event.payload.result }}}}'}}"
        return accepted(f"{on_arcs} on the arcs of that step, or set_ctx in it")
    known = names.flat(use.step) | offered(use.site, use.depth)
    match = nearest(name, known) or nearest(name, NAMESPACES)
    return f"did you mean '{match}'?" if match else "read it as workload.x, ctx.x, …"


_BOUNDARIES = ("step.done", "step.failed", "loop.done")
_EVENT_FIELDS = ("name", "event_type")
_LITERAL = re.compile(r"""["']([^"']*)["']""")
"""Quoted texts of a template. With nested quotes a match is only a part of the text:
then the template is parsed, which costs time and changes no finding."""


@rule("event-name", "S-75")
def events_exist(draft: Draft) -> Iterator[Found]:
    """Arcs and admission compare `event.name` with an event that a step ends with:
    `step.done`, `step.failed` or `loop.done`."""
    for use in draft.uses:
        if use.site not in ("arc", "admit"):
            continue
        if not any(r.path[0] == "event" for r in use.template.references):
            continue
        source = use.template.source
        if all(text in _BOUNDARIES for text in _LITERAL.findall(source)):
            continue
        for name in _compared_events(source):
            if name not in _BOUNDARIES:
                message = f"no step ends with the event '{shorten(name)}'"
                yield use.at, message, partial(_nearest_event, name)


def _nearest_event(name: str) -> str:
    if name in EVENTS:
        return accepted(f"'{EVENTS[name]}'")
    if match := nearest(name, _BOUNDARIES):
        return f"did you mean '{match}'?"
    return "event.name is step.done, step.failed or, of a loop, loop.done"


def _compared_events(source: str) -> Iterator[str]:
    """Yield the texts that a template compares with the name of its event."""
    from jinja2 import nodes

    from noetl.templates.parser import parse

    try:
        tree, _ = parse(source)
    except TemplateError:  # reported where it is compiled
        return
    for compared in tree.find_all(nodes.Compare):
        sides = [compared.expr, *(operand.expr for operand in compared.ops)]
        if any(_is_event_name(side) for side in sides):
            for side in sides:
                items = getattr(side, "items", [side])
                yield from (
                    item.value
                    for item in items
                    if isinstance(item, nodes.Const) and isinstance(item.value, str)
                )


def _is_event_name(node: Node) -> bool:
    """Return whether the node is ``event.name`` or ``event['name']``."""
    field = getattr(node, "attr", getattr(getattr(node, "arg", None), "value", None))
    owner = getattr(getattr(node, "node", None), "name", None)
    return owner == "event" and field in _EVENT_FIELDS


_MEMBERS: Mapping[tuple[str, ...], frozenset[str]] = {
    ("event",): frozenset(
        {
            "name",
            "event_type",
            "status",
            "entity_type",
            "entity",
            "entity_id",
            "step",
            "step_run_id",
            "timestamp",
            "payload",
            "data",
        }
    ),
    ("event", "payload"): frozenset(
        {
            "result",
            "error",
            "errors",
            "error_kinds",
            "total",
            "done",
            "failed",
            "skipped",
            "results",
            "spilled",
        }
    ),
    ("outcome",): frozenset(
        {"status", "result", "error", "meta", "http", "pg", "py", "playbook"}
    ),
}
"""Members of what the engine gives; those of results are the playbook's own."""


@rule("unknown-member", "S-75", "warning")
def members_are_given(draft: Draft) -> Iterator[Found]:
    """A template reads members that its event, its outcome or its iteration has."""
    if accepts_older_forms(draft.playbook.extensions):
        return
    names = Names(draft)
    for use in draft.uses:
        for reference in use.template.references:
            if reference.guarded:
                continue
            for owner, known in _known_members(names, use):
                key = reference.path[len(owner) : len(owner) + 1]
                if reference.path[: len(owner)] != owner or not key:
                    continue
                if key[0] not in known and key[0] not in draft.kinds:
                    message = f"nothing gives {'.'.join((*owner, shorten(key[0])))}"
                    yield use.at, message, partial(_nearest_member, key[0], known)


def _known_members(
    names: Names, use: TemplateUse
) -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
    """Yield what may be read at a location: its owner, and all its members."""
    if use.site in ("arc", "admit", "policy"):
        yield from _MEMBERS.items()
    if use.depth > 0:
        yield ("iter",), names.iterated(use.step)


def _nearest_member(name: str, known: Collection[str]) -> str:
    match = nearest(name, known)
    return f"did you mean '{match}'?" if match else f"known: {', '.join(sorted(known))}"


@rule("unknown-key", "C-34", "warning")
def keys_are_defined_somewhere(draft: Draft) -> Iterator[Found]:
    """A key of ctx is set by something in the playbook; a key of workload is not a
    misspelled one."""
    names = Names(draft)
    similar = 0
    for use in draft.uses:
        for reference in use.template.references:
            if len(reference.path) < 2 or reference.guarded:
                continue
            namespace, key = reference.path[:2]
            known = names.keys(namespace)
            if namespace not in ("ctx", "workload") or key in known:
                continue
            message = f"nothing in this playbook defines {namespace}.{shorten(key)}"
            if namespace == "ctx" and "ctx" in offered(use.site, use.depth):
                yield use.at, message, partial(_nearest_of_ctx, key, known)
            elif known and similar < _LOOKED_UP:  # a request may bring other keys
                similar += 1
                match = nearest(key, known)
                if match is not None:
                    yield use.at, message, f"did you mean {namespace}.{match}?"


def _nearest_of_ctx(key: str, known: Collection[str]) -> str:
    match = nearest(key, known)
    if match is not None:
        return f"did you mean ctx.{match}?"
    return "write it with set_ctx, or read it with default(…)"


@rule("keychain-name", "C-34", "warning")
def keychain_names_are_declared(draft: Draft) -> Iterator[Found]:
    """`keychain.<name>` reads an entry that the playbook declares."""
    names = {entry.name for entry in draft.playbook.keychain}
    for use in draft.uses:
        for reference in use.template.references:
            if reference.path[0] != "keychain" or len(reference.path) < 2:
                continue
            name = reference.path[1]
            if name not in names:
                hint = partial(_nearest_entry, name, names)
                yield use.at, f"keychain has no entry '{shorten(name)}'", hint


def _nearest_entry(name: str, names: Collection[str]) -> str:
    match = nearest(name, names)
    return f"did you mean '{match}'?" if match else "declare it in 'keychain'"


@rule("recorded-secret", "S-67")
def secrets_are_not_recorded(draft: Draft) -> Iterator[Found]:
    """`keychain` is not read where the value would be written into the log:
    `set_ctx`, `set_iter`, arc `args`, `loop.in`, inputs of `playbook` and `wait`."""
    for use in draft.uses:
        if use.recorded and any(
            r.path[0] == "keychain" for r in use.template.references
        ):
            message = "a secret would be recorded here"
            yield (
                use.at,
                message,
                "read keychain in a task's input, or name it by 'auth'",
            )


@rule("text-guard", "S-29", "warning")
def guards_yield_truth(draft: Draft) -> Iterator[Found]:
    """A guard yields a boolean; constant text is always true or always false."""
    for use in draft.uses:
        if use.guard and not use.template.references:
            try:
                value = use.template.evaluate({})
            except TemplateError as error:
                hint = "a guard that fails stops the flow; correct the expression"
                yield use.at, f"this guard always fails: {error.message}", hint
                continue
            if isinstance(value, str):
                truth = str(use.template.holds({})).lower()
                message = f"this guard is the constant text '{shorten(value)}': {truth}"
                yield use.at, message, "compare something: {{ a == b }}"
