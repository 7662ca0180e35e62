"""``/api/keychain``: secrets that the server keeps for playbooks; values go in only."""

from __future__ import annotations

import asyncio
import time

import msgspec

from noetl.adapters.secrets.stored import Record
from noetl.api.problems import Problem
from noetl.api.routing import Call, Nothing, Reply, Routes
from noetl.api.shapes import Name, Strict, Text
from noetl.engine.times import rfc3339
from noetl.types import JSON

routes = Routes()

READ = "secrets:read"
WRITE = "secrets:write"


class StoreSecret(Strict):
    """``value`` is a text, or the fields of a credential."""

    value: Text | dict[Name, JSON]
    kind: Name = "secret_manager"


class SecretLine(msgspec.Struct):
    """What is known of a secret: never its value."""

    name: str
    kind: str
    fields: list[str] | None
    updated_at: str


class SecretList(msgspec.Struct):
    keychain: list[SecretLine]


@routes.route("GET", "/api/keychain", permission=READ, answers={200: SecretList})
async def list_secrets(call: Call[Nothing, Nothing]) -> Reply:
    """Names, kinds and fields of what is stored; no values."""
    call.require(READ, None)
    records = await asyncio.to_thread(call.site.keychain.list)
    lines = [_line(name, record) for name, record in records.items()]
    return Reply(200, {"keychain": lines})


@routes.route(
    "POST",
    "/api/keychain/{name}",
    permission=WRITE,
    body=StoreSecret,
    answers={200: SecretLine, 201: SecretLine},
)
async def store_secret(call: Call[StoreSecret, Nothing]) -> Reply:
    """Store a secret, sealed, or replace it (200). No answer ever holds its value."""
    call.require(WRITE, None)
    name, body = _name(call.params["name"]), call.body
    call.trail.add(kind=body.kind)
    now = rfc3339(time.time())
    keychain = call.site.keychain
    replaced = await asyncio.to_thread(keychain.set, name, body.value, body.kind, now)
    fields = sorted(body.value) if isinstance(body.value, dict) else None
    line = _line(name, Record(body.kind, fields, now, ""))
    return Reply(200 if replaced else 201, line)


@routes.route(
    "DELETE",
    "/api/keychain/{name}",
    permission=WRITE,
    answers={200: Nothing},
    problems=("keychain.unknown", "request.invalid"),
)
async def delete_secret(call: Call[Nothing, Nothing]) -> Reply:
    """Forget a secret. Executions that are under way keep theirs."""
    call.require(WRITE, None)
    name = _name(call.params["name"])
    if not await asyncio.to_thread(call.site.keychain.delete, name):
        raise Problem("keychain.unknown", f"the keychain has no '{name[:80]}'")
    return Reply(200, {})


def _name(text: str) -> str:
    if len(text) > 255 or not text.isprintable():
        message = "a name has 1 to 255 printable characters"
        raise Problem("request.invalid", message)
    return text


def _line(name: str, record: Record) -> JSON:
    return {
        "name": name,
        "kind": record.kind,
        "fields": record.fields,
        "updated_at": record.updated_at,
    }
