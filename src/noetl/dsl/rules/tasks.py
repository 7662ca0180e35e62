"""Checks of labels, credentials and queries."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from functools import partial

from noetl.dsl.diagnostics import nearest
from noetl.dsl.grammar.earlier_forms import INPUTS, accepted, accepts_older_forms
from noetl.dsl.json_schema import find_flaws
from noetl.dsl.model import Task
from noetl.dsl.node import Location, Node, shorten
from noetl.dsl.parse import Draft
from noetl.dsl.rules.registry import Found, rule
from noetl.dsl.rules.steps import IDENTIFIER
from noetl.dsl.times import find_zone, parse_duration, parse_time
from noetl.templates import is_template
from noetl.types import JSON

MAX_TASKS = 200


@rule("too-many-tasks", "S-70")
def pipelines_are_short(draft: Draft) -> Iterator[Found]:
    """A pipeline has at most 200 tasks."""
    for step in draft.playbook.workflow:
        if len(step.tasks) > MAX_TASKS:
            message = f"{len(step.tasks)} tasks; a pipeline has at most {MAX_TASKS}"
            yield step.at["tool"], message, "split the step"


@rule("task-label", "S-51")
def labels_are_identifiers(draft: Draft) -> Iterator[Found]:
    """A label is a letter or `_`, then letters, digits and `_`; no leading `__`."""
    for step in draft.playbook.workflow:
        for task in step.tasks:
            if not IDENTIFIER.match(task.label):
                message = f"'{shorten(task.label)}' is not a task label"
                hint = "letters, digits and '_', at most 64, no leading '__'"
                yield task.label_at, message, hint


@rule("duplicate-label", "VAL-12")
def labels_are_unique(draft: Draft) -> Iterator[Found]:
    """Two tasks of a pipeline do not share a label."""
    for step in draft.playbook.workflow:
        seen: dict[str, int] = {}
        for task in step.tasks:
            if task.label in seen:
                line = seen[task.label]
                message = f"label '{shorten(task.label)}' stands twice in this pipeline"
                yield task.label_at, message, f"the first is at line {line}"
            seen.setdefault(task.label, task.label_at.mark[0])


@rule("task-auth", "S-67")
def credentials_are_declared(draft: Draft) -> Iterator[Found]:
    """`auth: name` names an entry of the keychain."""
    names = {entry.name for entry in draft.playbook.keychain}
    for at in _inputs_named(draft, "auth"):
        value = at.node.value
        if isinstance(value, str) and not is_template(value) and value not in names:
            message = f"auth '{shorten(value)}' is not declared in 'keychain'"
            yield at, message, partial(_nearest_entry, value, names)


def _nearest_entry(name: str, names: Collection[str]) -> str:
    declared = accepted(f"keychain: [{{name: {shorten(name)}, kind: …}}]")
    match = nearest(name, names)
    return f"did you mean '{match}'?" if match else declared


@rule("credential-field", "S-67", "warning")
def credentials_have_known_fields(draft: Draft) -> Iterator[Found]:
    """A credential of `postgres` has `host`, `port`, `user`, `password`, `database`."""
    if accepts_older_forms(draft.playbook.extensions):
        return
    for at in _inputs_named(draft, "auth"):
        for key in at.child_keys():
            if key in INPUTS["postgres"] and key.startswith("db_"):
                message = f"nothing reads '{key}' of a credential"
                yield at.key(key), message, accepted(INPUTS["postgres"][key])
        if "credential" in at:
            message = "nothing reads 'credential' of a credential"
            yield at.key("credential"), message, accepted("auth: name")


def _inputs_named(draft: Draft, name: str) -> Iterator[Location]:
    for step in draft.playbook.workflow:
        for task in step.tasks:
            at = task.at.get(name)
            if at is not None and name in draft.kinds[task.kind].inputs:
                yield at
    workbook = draft.playbook.at.get("workbook")
    for template in workbook.children() if workbook is not None else ():
        at, named = template.get(name), template.get("kind")
        if at is not None and named is not None and type(named.node.value) is str:
            kind = draft.kinds.get(named.node.value)
            if kind is not None and name in kind.inputs:
                yield at


@rule("query-interpolation", "PIPE-13", "warning")
def sql_binds_its_values(draft: Draft) -> Iterator[Found]:
    """Values go into SQL by `params`, not by a template in the text."""
    hint = "pass the value in 'params' and refer to it by $1 or :name"
    yield from _interpolated(draft, "sql", "a template inside SQL", hint)


@rule("shell-interpolation", "PIPE-20", "warning")
def shell_gets_its_values_apart(draft: Draft) -> Iterator[Found]:
    """Values go into a shell by `env` or `stdin`, or as argv, not by a template."""
    hint = "pass the value by 'env' or 'stdin', or write 'command' as a list"
    yield from _interpolated(draft, "shell", "a template inside shell text", hint)


def _interpolated(draft: Draft, query: str, what: str, hint: str) -> Iterator[Found]:
    for step in draft.playbook.workflow:
        for task in step.tasks:
            for key, declared in draft.kinds[task.kind].inputs.items():
                at = task.at.get(key) if declared.query == query else None
                if at is None or not isinstance(at.node.value, str):
                    continue
                text = at.node.value.strip()
                whole = text.startswith("{{") and text.endswith("}}")
                if is_template(text) and not (whole and text.count("{{") == 1):
                    yield at, f"{what}: a hostile value could change its meaning", hint


_SINGLE_BRACES = re.compile(
    r"(?<![{$%])\{\s*(?:workload|ctx|args|iter|keychain|event|outcome|_prev)"
    r"(?:\.\w+|\[[^\]{}]*\])+\s*(?:\|[^{}]*)?\}(?!\})"
)


@rule("single-braces", "VAL-22", "warning")
def templates_have_two_braces(draft: Draft) -> Iterator[Found]:
    """A template is `{{ ctx.x }}`; `{ ctx.x }` with single braces is plain text."""
    for step in draft.playbook.workflow:
        literal = {
            (task.at.node, key)
            for task in step.tasks
            for key, declared in draft.kinds[task.kind].inputs.items()
            if declared.literal
        }
        for at in _texts(step.at, literal):
            if match := _SINGLE_BRACES.search(at.node.value):
                found = match.group()
                message = f"'{shorten(found)}' has single braces: it is not rendered"
                yield at, message, f'write "{{{shorten(found)}}}"'


def _texts(at: Location, literal: Collection[tuple[Node, str]]) -> Iterator[Location]:
    """Yield the texts below a location that may hold a template."""
    if isinstance(at.node.value, str):
        if "{" in at.node.value:
            yield at
        return
    for child in at.children():
        if child.part != "desc" and (at.node, child.part) not in literal:
            yield from _texts(child, literal)


NEEDS: Mapping[str, str] = {
    "zone": "at",
    "timeout": "signal",
    "schema": "signal",
    "roles": "signal",
}


@rule("wait-time", "S-68")
def times_are_times(draft: Draft) -> Iterator[Found]:
    """`for` and `timeout` are durations, `until` a moment, `at` a time of day and
    `zone` a time zone, where they are written out."""
    for task in _waits(draft):
        for name, check in _TIMES.items():
            value = task.inputs.get(name)
            if value is None or not value.literal:
                continue
            try:
                check(value.render({}))
            except (ValueError, OverflowError) as error:
                yield _place(task, name), f"'{name}': {error}", _HINTS.get(name)


@rule("wait-schema", "S-54")
def forms_are_schemas(draft: Draft) -> Iterator[Found]:
    """The `schema` of a signal is JSON Schema 2020-12, within the bounds of `wait`."""
    for task in _waits(draft):
        value = task.inputs.get("schema")
        schema = value.render({}) if value is not None and value.literal else None
        if isinstance(schema, dict):
            for flaw in find_flaws(schema):
                yield _place(task, "schema"), f"'schema': {flaw}", None


@rule("wait-inputs", "S-50")
def inputs_go_together(draft: Draft) -> Iterator[Found]:
    """`zone` goes with `at`; `timeout`, `schema` and `roles` with `signal`."""
    for task in _waits(draft):
        for name, needed in NEEDS.items():
            if name in task.inputs and needed not in task.inputs:
                message = f"'{name}' has no effect without '{needed}'"
                yield _place(task, name), message, f"add {needed}: …, or remove it"


def _waits(draft: Draft) -> Iterator[Task]:
    for step in draft.playbook.workflow:
        yield from (task for task in step.tasks if task.kind == "wait")


def _place(task: Task, name: str) -> Location:
    """Return the location of an input; for a workbook template, that of its use."""
    return task.at.get(name) or task.at


def _moment(value: JSON) -> None:
    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"'{shorten(str(value), 40)}' is not a moment") from None


_TIMES: Mapping[str, Callable[[JSON], object]] = {
    "for": parse_duration,
    "timeout": parse_duration,
    "until": _moment,
    "at": lambda value: parse_time(str(value)),
    "zone": lambda value: find_zone(str(value)),
}
_HINTS = {
    "for": "write 30s, 5m, 2h or 1d",
    "timeout": "write 30s, 5m, 2h or 1d",
    "until": 'write "2026-12-24T18:00:00Z"; a time of day goes into at: "09:00"',
}
