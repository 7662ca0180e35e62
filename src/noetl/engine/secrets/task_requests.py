"""Secrets that a task may request from a server: those that its playbook names.

A worker names the task for which it requests a secret. The server itself evaluates
literals of the playbook and templates that read ``workload`` alone. A name that depends
on results comes from the worker, so it can only choose between secrets of the
playbook's keychain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from noetl.dsl.model import Task
from noetl.errors import SecretError, TemplateError
from noetl.templates import Reference, Value
from noetl.types import JSON

FIXED = frozenset({"workload", "execution_id", "execution"})
"""Namespaces whose values are fixed before a worker takes part."""
COMPUTABLE = frozenset({"client_id", "client_secret", "scope", "audience"})
"""Fields of an OAuth2 credential that a task may compute: they name neither an address
nor a stored secret."""
_WHERE = ("name", "provider", "path")

Scope = Mapping[str, JSON]


class SecretName(msgspec.Struct, frozen=True):
    """The secret that a ``secrets`` task looks up."""

    name: str | None = None
    provider: str | None = None
    path: str | None = None


def secret_named(
    task: Task, entries: Collection[str], fixed: Scope, name: str | None
) -> SecretName:
    """Return the secret that the task looks up; ``name`` is the name that the worker
    sent.

    ``fixed`` has the values of ``FIXED``. Raises ``SecretError`` (``secret.denied``)
    for a secret that the playbook does not name.
    """
    if task.kind != "secrets":
        raise _denied(task, "it is not of the kind 'secrets'")
    said: dict[str, str | None] = {}
    for key in _WHERE:
        value = task.inputs.get(key)
        if value is None or value.written is None:
            continue
        if _is_fixed(value):
            said[key] = _text(task, key, _render(task, value, fixed))
        elif key != "name" or len(task.inputs.keys() & set(_WHERE)) > 1:
            message = f"its '{key}' is a template that reads {_read(value)}"
            raise _denied(task, f"{message}; write it literally, or from 'workload'")
        elif name not in entries:
            message = "its 'name' is a template that reads " + _read(value)
            raise _denied(task, f"{message}; declare the entry in 'keychain'")
        else:
            said[key] = name
    return SecretName(**said)


def credential_named(
    task: Task, keychain: Scope, fixed: Scope, given: Mapping[str, JSON]
) -> dict[str, JSON]:
    """Return the credential of a task with ``auth: {type: oauth2, …}``.

    ``given`` are the rendered fields that the worker sent. Raises ``SecretError``
    (``secret.denied``) if the playbook has no such credential there.
    """
    auth = task.inputs.get("auth")
    scope = {**fixed, "keychain": keychain}
    found: JSON = None
    if auth is not None and _is_fixed(auth, "keychain"):
        found = _render(task, auth, scope)
        if isinstance(found, str):
            found = keychain.get(found)
    elif auth is not None and isinstance(auth.written, dict):
        found = _composed(task, auth, scope, given)
    elif auth is not None:  # a template chose an entry
        found = next((each for each in keychain.values() if each == given), None)
    if not isinstance(found, dict) or found.get("type") != "oauth2":
        raise _denied(task, "its playbook gives it no 'auth' of the type 'oauth2'")
    return found


def entries_read(tasks: Sequence[Task], entries: Collection[str]) -> list[str]:
    """Return keychain entries that these tasks can read; all, if a name is computed."""
    used: set[str] = set()
    for task in tasks:
        for reference in references_of(task):
            if reference.path[0] == "keychain":
                if len(reference.path) == 1:
                    return list(entries)
                used.add(reference.path[1])
        auth = task.inputs.get("auth")
        if auth is not None and isinstance(auth.written, str):
            if not _is_fixed(auth, "keychain"):
                return list(entries)
            used.add(auth.written)
    return [name for name in entries if name in used]


def parts_read(tasks: Sequence[Task], name: str, value: JSON) -> list[JSON]:
    """Return the parts of a scope's ``name``, a mapping, that these tasks can read."""
    read = [reference for task in tasks for reference in references_of(task)]
    paths = {each.path[1:] for each in read if each.path[0] == name}
    if not isinstance(value, dict) or () in paths:
        return [value] if paths else []
    return [value[key] for key in dict.fromkeys(p[0] for p in paths) if key in value]


def references_of(task: Task) -> Iterator[Reference]:
    """Yield every name that the templates of a task read, rules and knobs included."""
    for value in task.inputs.values():
        yield from value.references
    yield from task.knobs.references
    for guard in task.guards.values():
        yield from guard.references
    for rule in task.rules or ():
        then = rule.then
        made = (rule.when, then.set_iter, then.set_ctx, then.error, then.delay)
        for each in made:
            if each is not None and not isinstance(each, float | int):
                yield from each.references


def _composed(
    task: Task, auth: Value, scope: Scope, given: Mapping[str, JSON]
) -> dict[str, JSON]:
    """Compose the credential; fields that the server can render are not taken from a
    worker."""
    found = dict(auth.written)
    for path, template in auth.templates:
        field = str(path[0])
        if all(r.path[0] in scope for r in template.references):
            found[field] = Value(auth.written[field]).render(scope)
        elif field not in COMPUTABLE or len(path) > 1:
            message = f"'auth.{field}' is a template that reads "
            message += ", ".join(map(str, template.references))
            raise _denied(task, f"{message}; only keychain and workload may choose it")
        else:
            found[field] = _text(task, f"auth.{field}", given.get(field))
    return found


def _is_fixed(value: Value, *more: str) -> bool:
    return all(r.path[0] in FIXED or r.path[0] in more for r in value.references)


def _render(task: Task, value: Value, scope: Scope) -> JSON:
    try:
        return value.render(scope)
    except TemplateError as error:
        message = f"task '{task.label}': {error.message}"
        raise SecretError("secret.wrong", message) from None


def _text(task: Task, key: str, value: JSON) -> str:
    if not isinstance(value, str) or not value:
        raise SecretError("secret.wrong", f"task '{task.label}': '{key}' must be text")
    return value


def _read(value: Value) -> str:
    return ", ".join(map(str, value.references))


def _denied(task: Task, why: str) -> SecretError:
    message = f"task '{task.label}' gets no secret from the server: {why}"
    return SecretError("secret.denied", message)
