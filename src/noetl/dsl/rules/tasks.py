"""Checks of labels, credentials and queries."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from noetl.dsl.diagnostics import nearest
from noetl.dsl.grammar.dialects import accepted, accepts_older_forms
from noetl.dsl.grammar.older import INPUTS
from noetl.dsl.node import shorten
from noetl.dsl.parse import Draft
from noetl.dsl.place import Place
from noetl.dsl.rules.loops import IDENTIFIER
from noetl.dsl.rules.registry import Found, rule
from noetl.templates import is_template

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


def _inputs_named(draft: Draft, name: str) -> Iterator[Place]:
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
