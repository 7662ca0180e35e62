"""``/api/keychain``: stored secrets for playbooks; values are never returned."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from noetl.access.secrets import (
    MAX_BINDINGS,
    check_declaration,
    default_bindings,
    may_manage,
    read_bindings,
)
from noetl.api.http.problems import Problem
from noetl.api.http.routes import Call, Nothing, Reply, Routes
from noetl.api.schemas.executions import Name, Strict, Text
from noetl.engine.times import rfc3339
from noetl.errors import AccessError
from noetl.ports.keychain import Bind, Change, KeyRotation, Record, SealingKey
from noetl.types import JSON

routes = Routes()

READ = "secrets:read"
WRITE = "secrets:write"
DECLARE = "secrets:declare"
ROTATE = "secrets:rotate"
MAX_KEYS = 16
_PROBLEMS = ("keychain.taken", "request.invalid")

Bindings = Annotated[list[Name], Meta(min_length=1, max_length=MAX_BINDINGS)]


class StoreSecret(Strict):
    """A secret to store. ``value`` is a text, or the fields of a credential.

    ``for`` are the paths of the playbooks that may use it, such as ``finance/*``; by
    default those of the replaced secret, or all paths where the caller may store
    secrets.
    """

    value: Text | dict[Name, JSON]
    kind: Name = "secret_manager"
    for_: Bindings | None = msgspec.field(default=None, name="for")


class DeclareSecret(Strict):
    """An entry of a kind that reads the host; ``fields`` locate the value and hold no
    secret."""

    kind: Name
    fields: dict[Name, str]
    for_: Bindings | None = msgspec.field(default=None, name="for")


class SecretLine(msgspec.Struct):
    """A secret without its value; ``declared`` are the fields of a declared entry.

    ``key`` is the id of the key that seals it; null in the keychain of a home.
    """

    name: str
    kind: str
    fields: list[str] | None
    updated_at: str
    for_: list[str] = msgspec.field(name="for")
    declared: dict[str, str] | None
    key: str | None


class SecretList(msgspec.Struct):
    keychain: list[SecretLine]


class KeyList(msgspec.Struct):
    """The keys that seal the keychain, the newest one first; only that one seals."""

    keys: list[SealingKey]


@routes.route("GET", "/api/keychain", permission=READ, answers={200: SecretList})
async def list_secrets(call: Call[Nothing, Nothing]) -> Reply:
    """List names, kinds, fields and bindings of stored secrets, without values.

    Only secrets whose bindings the caller may all see.
    """
    records = await call.site.keychain.list()
    lines = [
        _line(name, record)
        for name, record in records.items()
        if may_manage(call.principal, READ, record.bound)
    ]
    return Reply(200, {"keychain": lines})


@routes.route(
    "POST",
    "/api/keychain/{name}",
    permission=WRITE,
    body=StoreSecret,
    answers={200: SecretLine, 201: SecretLine},
    problems=_PROBLEMS,
)
async def store_secret(call: Call[StoreSecret, Nothing]) -> Reply:
    """Store a secret, sealed, or replace it (200). No answer ever holds its value."""
    value, kind = call.body.value, call.body.kind
    keep = call.site.keychain.set
    return await _keep(call, lambda name, *how: keep(name, value, kind, *how))


@routes.route(
    "POST",
    "/api/keychain/{name}/declaration",
    permission=DECLARE,
    body=DeclareSecret,
    answers={200: SecretLine, 201: SecretLine},
    problems=_PROBLEMS,
)
async def declare_secret(call: Call[DeclareSecret, Nothing]) -> Reply:
    """Declare an entry that reads the server's host or uses its credentials.

    Playbooks reach `env`, `file`, `vault` and the like only through such entries.
    """
    call.require(DECLARE, None)
    kind, fields = call.body.kind, call.body.fields
    check_declaration(kind, fields, call.site.keychain_kinds)
    keep = call.site.keychain.declare
    return await _keep(call, lambda name, *how: keep(name, kind, fields, *how))


@routes.route(
    "DELETE",
    "/api/keychain/{name}",
    permission=WRITE,
    answers={200: Nothing},
    problems=("keychain.unknown", "request.invalid"),
)
async def delete_secret(call: Call[Nothing, Nothing]) -> Reply:
    """Delete a secret. Running executions keep theirs."""
    name = _name(call.params["name"])

    def may(record: Record) -> bool:
        if not may_manage(call.principal, WRITE, record.bound):
            return False  # for this caller the secret does not exist
        _check_declared(call, record)
        return True

    if not await call.site.keychain.delete(name, may):
        raise Problem("keychain.unknown", f"the keychain has no '{name[:80]}'")
    return Reply(200, {})


@routes.route(
    "GET",
    "/api/keys",
    permission=ROTATE,
    answers={200: KeyList},
    problems=("keychain.one_key",),
)
async def list_keys(call: Call[Nothing, Nothing]) -> Reply:
    """List the keys that seal the keychain of these servers, never the keys
    themselves.

    After a rotation `uses` of the older ones sinks to 0, and they are removed.
    """
    return Reply(200, {"keys": [*map(_key, await _rotation(call).keys())]})


@routes.route(
    "POST",
    "/api/keys",
    permission=ROTATE,
    answers={201: SealingKey},
    problems=("keychain.one_key", "keychain.rotating"),
)
async def rotate_keys(call: Call[Nothing, Nothing]) -> Reply:
    """Make a new key, which seals from now on.

    Servers then seal with it what older keys seal, and remove those. Secrets can be
    used all the time.
    """
    rotation = _rotation(call)
    if len(await rotation.keys()) >= MAX_KEYS:
        message = f"there are {MAX_KEYS} keys already, and all of them are in use"
        raise Problem("keychain.rotating", message)
    made = await rotation.begin()
    call.trail.add(key_id=made.key_id)
    return Reply(201, _key(made))


def _rotation(call: Call[Nothing, Nothing]) -> KeyRotation:
    if call.site.rotation is None:
        message = "the keychain of this server is in its home, and one key seals it"
        raise Problem("keychain.one_key", message)
    return call.site.rotation


def _key(key: SealingKey) -> JSON:
    return msgspec.to_builtins(key)


async def _keep(
    call: Call[Any, Nothing], keep: Callable[[str, str, Bind], Awaitable[Change]]
) -> Reply:
    """Store an entry with ``keep``, which takes a name, the time and a binding."""
    name = _name(call.params["name"])
    call.trail.add(kind=call.body.kind)
    now, bind = rfc3339(time.time()), _binding(call, name, call.body.for_)
    return _changed(name, await keep(name, now, bind))


def _binding(call: Call[Any, Nothing], name: str, asked: list[str] | None) -> Bind:
    """Return a function that decides the bindings of a secret, given the replaced
    one."""

    def bind(before: Record | None) -> tuple[str, ...]:
        principal = call.principal
        if before is not None and not may_manage(principal, WRITE, before.bound):
            message = f"the name '{name[:80]}' is taken"
            hint = "choose another name, for example with your team's name in front"
            raise Problem("keychain.taken", message, hint=hint)
        if before is not None:
            _check_declared(call, before)
        if asked is not None:
            bound = read_bindings(asked)
        else:
            bound = before.bound if before else default_bindings(principal, WRITE)
        missing = [each for each in bound if not may_manage(principal, WRITE, [each])]
        if missing or not bound:
            place = f" for '{missing[0]}'" if missing else ""
            message = f"{principal.name} lacks the permission {WRITE}{place}"
            raise AccessError("auth.role", message)
        return bound

    return bind


def _check_declared(call: Call[Any, Nothing], record: Record) -> None:
    """Require the permission to declare if the entry is a declared one."""
    if record.declared is not None:
        call.require(DECLARE, None)


def _name(text: str) -> str:
    if len(text) > 255 or not text.isprintable():
        message = "a name must have 1 to 255 printable characters"
        raise Problem("request.invalid", message)
    return text


def _changed(name: str, change: Change) -> Reply:
    return Reply(200 if change.replaced else 201, _line(name, change.record))


def _line(name: str, record: Record) -> JSON:
    return {
        "name": name,
        "kind": record.kind,
        "fields": record.fields,
        "updated_at": record.updated_at,
        "for": list(record.bound),
        "declared": record.declared,
        "key": record.key,
    }
