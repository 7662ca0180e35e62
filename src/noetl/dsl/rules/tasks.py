"""Checks of tasks: labels, credentials, queries, and the code of `python`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from functools import partial

from noetl.dsl.diagnostics import nearest
from noetl.dsl.grammar.earlier_forms import INPUTS, accepted, accepts_older_forms
from noetl.dsl.json_schema import find_flaws
from noetl.dsl.model import Task
from noetl.dsl.node import Location, Node, Way, follow, shorten
from noetl.dsl.parse import Draft
from noetl.dsl.python_source import CodeBlock
from noetl.dsl.rules.registry import Found, rule
from noetl.dsl.rules.steps import IDENTIFIER
from noetl.dsl.times import find_zone, parse_duration, parse_time
from noetl.templates import is_template
from noetl.types import JSON

MAX_TASKS = 200
_NAMESPACE_IN_CODE = re.compile(r"\{\{\s*(workload|ctx|args|iter|keychain|_prev)\b")
_BY_NAME = accepted("args by their names, or main(a, b, …)")


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
        for way, text in _texts(step.at.node, literal):
            if match := _SINGLE_BRACES.search(text):
                found = match.group()
                message = f"'{shorten(found)}' has single braces: it is not rendered"
                yield follow(step.at, way), message, f'write "{{{shorten(found)}}}"'


def _texts(
    root: Node, literal: Collection[tuple[Node, JSON]]
) -> Iterator[tuple[Way, str]]:
    """Yield the texts below a node that may hold a template, with the way to each."""
    stack: list[tuple[Node, Way]] = [(root, ())]
    while stack:
        node, way = stack.pop()
        value = node.value
        if type(value) is dict:
            for key, child in reversed(value.items()):
                if key != "desc" and (node, key) not in literal:
                    stack.append((child, (way, key)))
        elif type(value) is list:
            stack += [(child, (way, n)) for n, child in reversed([*enumerate(value)])]
        elif type(value) is str and "{" in value:
            yield way, value


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


@rule("code-syntax", "PIPE-15")
def code_can_be_compiled(draft: Draft) -> Iterator[Found]:
    """Python `code` can be compiled by the interpreter that runs NoETL."""
    for block in draft.codes:
        if block.facts is not None and (error := block.facts.error) is not None:
            at = block.place(error.line, error.column) if error.line else block.at
            where = ""
            if at is block.at and error.line and "\n" in block.text:
                where = f" (line {error.line} of the code)"
            message = f"not valid Python: {error.message}{where}"
            yield at, message, None


@rule("code-unchecked", "PIPE-15", "warning")
def code_is_checked(draft: Draft) -> Iterator[Found]:
    """The compiler needs at most one second and 256 MiB for all `code` of a file."""
    for block in draft.codes:
        if block.inspected and block.facts is None:
            message = "this code was not checked: compiling it exceeds the limits"
            hint = "move a part of it into a module beside the playbook"
            yield block.at, message, hint
            return


@rule("code-main", "PIPE-15")
def args_are_parameters_of_main(draft: Draft) -> Iterator[Found]:
    """`args` has every parameter of `main` that has no default."""
    for block in draft.codes:
        main = block.facts.main if block.facts is not None else None
        given = block.given()
        if main is None or given is None:
            continue
        for name, line, column in main.required:
            if name in given:
                continue
            at = block.place(line, column)
            if name == "input_data":
                yield at, "nothing gives 'input_data'", _BY_NAME
                continue
            message = f"main needs '{shorten(name)}', which is not in args"
            yield at, message, _given(name, given - main.names)


def _given(name: str, given: frozenset[str]) -> str:
    match = nearest(name, given)
    if match is not None:
        return f"args has '{shorten(match)}': use the same name"
    return f"add {shorten(name)} to args, or give the parameter a default"


@rule("code-result", "PIPE-15", "warning")
def code_has_a_result(draft: Draft) -> Iterator[Found]:
    """Python `code` defines `main` or assigns `result`."""
    for block in draft.codes:
        facts = block.facts
        if facts is None or facts.error is not None:
            continue
        if not facts.gives and facts.returns is None:
            message = "the code defines neither main nor result: its result is null"
            hint = "write def main(…): … return …, or result = …"
            yield block.at, message, hint


@rule("code-return", "PIPE-15")
def code_returns_from_functions(draft: Draft) -> Iterator[Found]:
    """Python `code` returns its value by `main(…)` or `result`, not by a bare `return`;
    arguments are separate names, not members of `input_data`."""
    if accepts_older_forms(draft.playbook.extensions):
        return
    for block in draft.codes:
        facts = block.facts
        if facts is None:
            continue
        if facts.returns is not None:
            hint = accepted("def main(…): … return …, or result = …")
            yield block.place(*facts.returns), "'return' is outside a function", hint
        if "input_data" in facts.unbound and not _gives_input_data(block):
            yield block.at, "nothing gives 'input_data'", _BY_NAME


def _gives_input_data(block: CodeBlock) -> bool:
    args = block.args
    return args is not None and (not args.node.is_mapping or "input_data" in args)


@rule("code-template", "S-34", "warning")
def code_is_not_a_template(draft: Draft) -> Iterator[Found]:
    """Python `code` is run as written; values reach it by `args`."""
    for block in draft.codes:
        found = _NAMESPACE_IN_CODE.search(block.text)
        if found is not None:
            before = block.text[: found.start()].split("\n")
            at = block.place(len(before), len(before[-1]) + 1)
            message = "'code' is not rendered: the template stays as it is"
            yield at, message, "pass the value by 'args'"
