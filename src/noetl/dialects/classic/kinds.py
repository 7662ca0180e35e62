"""Kinds of the dialect: more inputs, and two additional kinds."""

from __future__ import annotations

from msgspec.structs import replace

from noetl.dsl.grammar.records import ANY, MAPPING, TEXT, Field, Shape, integer, one_of
from noetl.dsl.tool_kinds import Input, Kind, Kinds

_AUTH = Shape(("text", "mapping"), words="a keychain name, or a credential")
_SCRIPT = Input(Shape(("text", "mapping")), "The source of the text: `{uri, source}`.")
_PAYLOAD = Input(ANY, "The query of a method without a body, else JSON.")
_DIALECT = Field(one_of("classic"), "S-01", "Results in the shapes of the dialect.")

OPERATIONS = (
    *("kv_get", "kv_put", "kv_delete", "kv_list"),
    *("object_put", "object_get", "publish"),
)

NATS = Kind(
    name="nats",
    doc="Key/value buckets, object stores and subjects of NATS.",
    inputs={
        "operation": Input(one_of(*OPERATIONS), "The operation.", required=True),
        "url": Input(TEXT, "The server, e.g. `nats://host:4222`."),
        "auth": Input(_AUTH, "A credential with `url`, `user` and `password`."),
        "bucket": Input(TEXT, "The bucket, made if it is written and is not there."),
        "key": Input(TEXT, "The key, or the object's name."),
        "object": Input(TEXT, "Another name of `key`, for objects."),
        "value": Input(ANY, "The value to write; other values than text as JSON."),
        "data": Input(ANY, "Another name of `value`."),
        "subject": Input(TEXT, "The subject of the message."),
        "payload": Input(ANY, "The message; anything but text as JSON."),
        "headers": Input(MAPPING, "Headers of the message."),
    },
    result="`{value, revision}` of a key, `{keys}` of a list, `{status, …}` else.",
    defaults={"timeout": 30},
)

TRANSFER = Kind(
    name="transfer",
    doc="Rows from one place to another, in chunks.",
    inputs={
        "source": Input(MAPPING, "`{type: http|postgres|duckdb|file, …}`.", True),
        "target": Input(MAPPING, "`{type: postgres|duckdb|file|http, …}`.", True),
        "chunk_size": Input(integer(1, 1_000_000), "Rows at once (1000)."),
        "mode": Input(one_of("append", "replace"), "The treatment of existing rows."),
        "mapping": Input(MAPPING, "Columns of the target by those of the source."),
    },
    result="`{status, rows_transferred, chunks}`.",
    defaults={"timeout": 3600},
)


def extend(kinds: Kinds) -> Kinds:
    """Return the given kinds with the inputs of the dialect."""
    found = dict(kinds)
    for name in ("python", "postgres", "duckdb", "script", "shell", "http"):
        if name in found:
            found[name] = _extended(found[name])
    for own in (NATS, TRANSFER):
        found.setdefault(own.name, own)
    return Kinds(found.values(), kinds.keychain, kinds.elsewhere)


def _extended(kind: Kind) -> Kind:
    inputs, one_of_ = dict(kind.inputs), kind.one_of
    knobs = {**kind.knobs, "dialect": _DIALECT}
    if kind.name == "http":
        inputs["payload"] = _PAYLOAD
    else:
        inputs["script"] = _SCRIPT
        if "script" not in kind.inputs:
            one_of_ = tuple((*group, "script") for group in one_of_)
    return replace(kind, inputs=inputs, knobs=knobs, one_of=one_of_)
