"""The page of the HTTP API, from its routes."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.api.app import endpoints
from noetl.api.http.openapi import problems_of
from noetl.api.http.problems import STATUSES
from noetl.api.http.routes import PUBLIC, Endpoint, Nothing
from noetl.types import JSON
from pages.markdown import table

INTRO = """\
A server answers JSON, and describes itself at `/openapi.json`. How one is started is in
[Run a server](../how-to/run-a-server.md). Every call but those that say so needs
`Authorization: Bearer <token>`, and the permission that it names.

A body is strict JSON of at most 4 MiB with the content type `application/json`; members
and parameters that are not listed here are refused. What cannot be granted is answered
with a problem document (RFC 9457, `application/problem+json`): `kind` is stable and
listed in [Errors](errors.md), `message` says what was found, `hint` what to do, and
`status`, `title`, `type` and `detail` are as the standard has them."""


def http_api() -> str:
    return "\n\n".join([INTRO, *map(_section, endpoints())])


def _section(endpoint: Endpoint) -> str:
    who = "Open to all."
    if endpoint.permission != PUBLIC:
        who = f"Permission: `{endpoint.permission}`."
    parts = [f"## {endpoint.method} {endpoint.plain_path}", endpoint.doc, who]
    for title, shape in (("parameter", endpoint.query), ("member", endpoint.body)):
        if shape is not Nothing:
            parts.append(_members(title, shape))
    parts.append(f"Answers: {_answers(endpoint)}. Problems: {_problems(endpoint)}.")
    return "\n\n".join(parts)


def _answers(endpoint: Endpoint) -> str:
    found = []
    for status, shape in endpoint.answers.items():
        names = [field.encode_name for field in _fields(shape)]
        members = f" `{{{', '.join(names)}}}`" if names else ""
        media = "".join(f", `{name}`" for name in endpoint.media if status == 200)
        found.append(f"{status}{members}{media}")
    return "; ".join(found)


def _problems(endpoint: Endpoint) -> str:
    kinds = sorted(problems_of(endpoint), key=lambda kind: (STATUSES[kind], kind))
    return ", ".join(f"`{kind}` ({STATUSES[kind]})" for kind in kinds)


def _members(title: str, shape: type[Any]) -> str:
    _, components = msgspec.json.schema_components([shape])
    schema = components[shape.__name__]
    rows = [
        (f"`{name}`", _words(each), "yes" if name in schema.get("required", ()) else "")
        for name, each in schema["properties"].items()
    ]
    return table(f"| {title} | value | required |", rows)


def _fields(shape: Any) -> tuple[msgspec.structs.FieldInfo, ...]:
    is_struct = isinstance(shape, type) and issubclass(shape, msgspec.Struct)
    return msgspec.structs.fields(shape) if is_struct else ()


def _words(schema: dict[str, JSON]) -> str:
    if "anyOf" in schema:
        kinds = [each for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(map(_words, kinds))
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"] if word is not None)
    words = str(schema.get("format") or schema.get("type") or "any JSON value")
    if "minimum" in schema or "maximum" in schema:
        words += f" from {schema.get('minimum')} to {schema.get('maximum')}"
    if "maxLength" in schema:
        words += f" of at most {schema['maxLength']} characters"
    if schema.get("default") not in (None, {}):
        words += f" ({schema['default']})"
    return words
