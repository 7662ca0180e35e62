"""Checks of the document's root sections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

from noetl.dsl.diagnostics import did_you_mean, nearest
from noetl.dsl.grammar.earlier_forms import (
    DIALECTS,
    KEYCHAIN,
    KEYCHAIN_FIELDS,
    accepted,
)
from noetl.dsl.json_schema import find_problems, locate_flaws
from noetl.dsl.labels import find_label_problems
from noetl.dsl.node import Location, Node, Way, follow, shorten
from noetl.dsl.parse import Draft
from noetl.dsl.playbook_inputs import (
    declared_inputs,
    schema_of,
    without_secret_marks,
)
from noetl.dsl.rules.registry import Found, rule
from noetl.dsl.secret_patterns import SECRET_KEY, looks_secret
from noetl.templates import is_template
from noetl.types import JSON

_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\Z")


@rule("metadata-path", "ROOT-04")
def path_is_relative(draft: Draft) -> Iterator[Found]:
    """`metadata.path` is a relative path of plain names, such as `sales/orders`."""
    metadata = draft.playbook.at.get("metadata")
    path = draft.playbook.path
    if metadata is None or not path:
        return
    if len(path) > 255 or not _PATH.match(path):
        message = f"'{shorten(path, 60)}' is not a playbook path"
        hint = "use names of letters, digits, '_', '-', '.' joined by '/'; no '..'"
        yield metadata["path"], message, hint


@rule("metadata-name", "VAL-07")
def name_is_given(draft: Draft) -> Iterator[Found]:
    """`metadata.name` and `metadata.path` are not empty."""
    metadata = draft.playbook.at.get("metadata")
    for key in ("name", "path"):
        if metadata is not None and key in metadata:
            at = metadata[key]
            if isinstance(at.node.value, str) and not at.node.value.strip():
                yield at, f"'{key}' is empty", "write a name that is not empty"


@rule("keychain-duplicate", "VAL-23")
def keychain_names_are_unique(draft: Draft) -> Iterator[Found]:
    """Two keychain entries do not share a name."""
    seen: dict[str, int] = {}
    for entry in draft.playbook.keychain:
        if entry.name in seen:
            message = f"keychain entry '{entry.name}' stands twice"
            yield entry.at["name"], message, f"the first is at line {seen[entry.name]}"
        seen.setdefault(entry.name, entry.at.mark[0])


@rule("keychain-kind", "KEY-02", "warning")
def keychain_kinds_are_known(draft: Draft) -> Iterator[Found]:
    """A keychain kind is built in, or an enabled plug-in brings it."""
    known = draft.kinds.keychain
    for entry in draft.playbook.keychain:
        if entry.kind not in known:
            message = f"unknown keychain kind '{entry.kind}'"
            yield entry.at["kind"], message, partial(_provider, draft, entry.kind)


def _provider(draft: Draft, kind: str) -> str | None:
    if kind in KEYCHAIN:
        return accepted(KEYCHAIN[kind])
    elsewhere = draft.kinds.elsewhere("secrets", kind)
    return elsewhere or did_you_mean(kind, draft.kinds.keychain)


@rule("keychain-field", "KEY-01", "warning")
def keychain_fields_are_known(draft: Draft) -> Iterator[Found]:
    """A field of a keychain entry is one that its kind reads."""
    for entry in draft.playbook.keychain:
        kind = draft.kinds.keychain.get(entry.kind)
        if kind is None or kind.open:
            continue
        for key in entry.at.child_keys():
            if key not in ("name", "kind", *kind.fields):
                message = f"keychain kind {entry.kind} does not read '{shorten(key)}'"
                hint = did_you_mean(key, kind.fields)
                if key in KEYCHAIN_FIELDS:
                    hint = accepted(KEYCHAIN_FIELDS[key])
                yield entry.at.key(key), message, hint


@rule("executor-profile", "EXE-02", "warning")
def profile_is_known(draft: Draft) -> Iterator[Found]:
    """`executor.profile` is `local` or `distributed`."""
    profile = draft.playbook.executor.get("profile")
    if profile is not None and profile not in ("local", "distributed"):
        at = draft.playbook.at["executor"]["profile"]
        hint = did_you_mean(profile, ("local", "distributed"))
        yield at, f"unknown profile '{profile}': the default is used", hint


@rule("extension-name", "S-01", "warning")
def extensions_mean_something(draft: Draft) -> Iterator[Found]:
    """An extension names a dialect, or a root key that this playbook has."""
    at: Location | None = draft.playbook.at
    for key in ("executor", "spec", "extensions"):
        at = at.get(key) if at is not None else None
    for item in at.children() if at is not None else ():
        name = item.node.value
        if isinstance(name, str) and name not in (*DIALECTS, *draft.playbook.extras):
            match = nearest(name, DIALECTS)
            hint = (
                f"did you mean '{match}'?" if match else f"known: {', '.join(DIALECTS)}"
            )
            yield item, f"extension '{name}' enables nothing here", hint


@rule("workload-template", "S-34", "hint")
def workload_is_data(draft: Draft) -> Iterator[Found]:
    """Text in `workload` is data: it is passed on, never rendered."""
    workload = draft.playbook.at.get("workload")
    for at in _leaves(workload):
        value = at.node.value
        if isinstance(value, str) and is_template(value):
            message = "a template in 'workload' is not rendered: it stays text"
            yield at, message, "render it where it is used, in a task or an arc"


@rule("inputs-schema", "S-72")
def inputs_are_a_schema(draft: Draft) -> Iterator[Found]:
    """`metadata.inputs` is a JSON Schema 2020-12 of type `object`, within the bounds
    of the schema of `wait`."""
    at, schema = _inputs(draft)
    if at is None or schema is None:
        return
    if schema.get("type", "object") != "object":
        message = "'inputs': 'type' must be object: the workload is a mapping"
        yield at["type"], message, "write type: object"
    for path, flaw in locate_flaws(without_secret_marks(schema)):
        yield _find(at, path), f"'inputs': {flaw}", None
    for name, each in declared_inputs(draft.playbook).items():
        if not isinstance(each.get("secret", True), bool):
            message = f"'inputs': 'secret' of '{shorten(name)}' must be true or false"
            yield at["properties"][name]["secret"], message, None


@rule("inputs-default", "S-72", "warning")
def defaults_fit_their_inputs(draft: Draft) -> Iterator[Found]:
    """A default of an input fits its schema; one of the schema is for an input that
    `workload` does not have; a required input is declared."""
    at, schema = _inputs(draft)
    if at is None or schema is None or locate_flaws(without_secret_marks(schema)):
        return
    declared, workload = declared_inputs(draft.playbook), draft.playbook.workload
    parts = {key: schema[key] for key in _DEFINING if key in schema}
    for name, each in declared.items():
        here = at["properties"][name]
        if "default" in each and name in workload:
            message = f"the default of '{shorten(name)}' has no effect"
            yield here["default"], message, "'workload' has a value: remove one of both"
        elif "default" in each:
            for problem in find_problems(parts, {name: each["default"]}):
                yield here["default"], f"the default does not fit: {problem}", None
        if name in workload:
            for problem in find_problems(parts, {name: workload[name]}):
                place = draft.playbook.at["workload"][name]
                yield (
                    place,
                    f"the value does not fit 'metadata.inputs': {problem}",
                    None,
                )
    for item in at["required"].children() if "required" in at else ():
        name = item.node.value
        if name not in declared and name not in workload:
            message = f"'{shorten(name)}' is required, and not in 'properties'"
            yield item, message, partial(did_you_mean, name, declared)


@rule("labels", "S-72")
def labels_are_texts(draft: Draft) -> Iterator[Found]:
    """`metadata.labels` are at most 32 texts by name, without templates."""
    metadata = draft.playbook.at.get("metadata")
    at = metadata.get("labels") if metadata is not None else None
    labels = draft.playbook.labels
    if at is None or not isinstance(labels, dict):
        return
    for name, problem in find_label_problems(labels):
        yield at[name] if name else at, problem, None
    for name, value in labels.items():
        if isinstance(value, str) and is_template(value):
            message = f"the label '{shorten(name)}' is a template, and would stay text"
            yield at[name], message, "give it with the request: --label name=value"


_DEFINING = ("properties", "$defs", "definitions")


def _inputs(draft: Draft) -> tuple[Location | None, JSON]:
    """Return the location of `metadata.inputs`, and the schema if it is a mapping."""
    metadata = draft.playbook.at.get("metadata")
    at = metadata.get("inputs") if metadata is not None else None
    return at, schema_of(draft.playbook)


def _find(at: Location, path: Iterable[str | int]) -> Location:
    """Return the location of the last key of a path that exists."""
    for step in path:
        if isinstance(step, str) and step in at:
            at = at.key(step)
        elif isinstance(step, int) and at.node.is_sequence:
            at = at[step]
        else:
            break
    return at


@rule("secret-literal", "WARN-05", "warning")
def secrets_are_not_written_down(draft: Draft) -> Iterator[Found]:
    """A literal that looks like a secret belongs into the keychain."""
    for at in _suspects(draft.playbook.at):
        if looks_secret(at.node.value) or _is_free_text(at):
            message = "this literal looks like a secret (***)"
            hint = "declare it in 'keychain' and read it as {{ keychain.<name> }}"
            yield at, message, hint


def _suspects(root: Location) -> Iterator[Location]:
    """Yield literals that look like a secret, or whose key does.

    Every value of the document is visited, so a location is built only for a finding.
    """
    stack: list[tuple[Node, Way]] = [(root.node, ())]
    while stack:
        node, way = stack.pop()
        value = node.value
        if type(value) is dict:
            stack.extend([(child, (way, key)) for key, child in value.items()])
        elif type(value) is list:
            stack.extend([(child, (way, index)) for index, child in enumerate(value)])
        elif type(value) is str and len(value) >= 6 and not is_template(value):
            key = way[1] if way else ""
            named = type(key) is str and SECRET_KEY.search(key) is not None
            if named or looks_secret(value):
                yield follow(root, way)


def _is_free_text(at: Location) -> bool:
    """Return whether a value is data: only data is searched by key name.

    For example, `auth: pg_main` names a credential and is not data.
    """
    path = at.path
    return path[0] in ("workload", "keychain") or "headers" in path or "env" in path


def _leaves(at: Location | None) -> Iterator[Location]:
    stack = [at] if at is not None else []
    while stack:
        here = stack.pop()
        if type(here.node.value) in (dict, list):
            stack.extend(here.children())
        else:
            yield here
