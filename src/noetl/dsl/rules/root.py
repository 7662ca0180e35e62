"""Checks of the document's root sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from noetl.dsl.diagnostics import did_you_mean, nearest
from noetl.dsl.grammar.dialects import DIALECTS, accepted
from noetl.dsl.grammar.older import KEYCHAIN, KEYCHAIN_FIELDS
from noetl.dsl.node import Node, shorten
from noetl.dsl.parse import Draft
from noetl.dsl.place import Place
from noetl.dsl.rules.registry import Found, rule
from noetl.dsl.secrets import SECRET_KEY, looks_secret
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
                yield at, f"'{key}' is empty", "give the playbook a name of its own"


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
    at: Place | None = draft.playbook.at
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


@rule("secret-literal", "WARN-05", "warning")
def secrets_are_not_written_down(draft: Draft) -> Iterator[Found]:
    """A literal that looks like a secret belongs into the keychain."""
    for at in _suspects(draft.playbook.at):
        if looks_secret(at.node.value) or _is_free_text(at):
            message = "this literal looks like a secret (***)"
            hint = "declare it in 'keychain' and read it as {{ keychain.<name> }}"
            yield at, message, hint


def _suspects(root: Place) -> Iterator[Place]:
    """Literals that look like a secret, or whose key does.

    Every value of the document passes by, so no place is made before one is needed.
    """
    stack: list[tuple[Node, tuple[JSON, ...]]] = [(root.node, ())]
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
                yield _walk(root, way)


def _walk(root: Place, way: tuple[JSON, ...]) -> Place:
    return _walk(root, way[0])[way[1]] if way else root


def _is_free_text(at: Place) -> bool:
    """Only data is searched by key name: `auth: pg_main` names a credential."""
    path = at.path
    return path[0] in ("workload", "keychain") or "headers" in path or "env" in path


def _leaves(at: Place | None) -> Iterator[Place]:
    stack = [at] if at is not None else []
    while stack:
        here = stack.pop()
        if type(here.node.value) in (dict, list):
            stack.extend(here.children())
        else:
            yield here
