"""What both sides of a transfer share: calls of the canonical tools."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from noetl.adapters.tools.classic.shaped import renamed
from noetl.errors import ToolError
from noetl.ports import Tool, ToolCall
from noetl.types import JSON

Rows = list[dict[str, JSON]]


async def ask(
    kind: str, inputs: dict[str, JSON], call: ToolCall, tools: Mapping[str, Tool]
) -> JSON:
    """The result of one call, made on behalf of another."""
    made = replace(call, kind=kind, inputs=inputs, spec={}, drafts=None)
    return (await tools[kind].run(made)).result


def address(side: Mapping[str, JSON]) -> dict[str, JSON]:
    """``auth`` or ``dsn`` of a database."""
    if side.get("dsn") is not None:
        return {"dsn": side["dsn"]}
    auth = side.get("auth")
    if isinstance(auth, Mapping):
        auth = renamed(auth)
    return {"auth": auth}


def text(side: Mapping[str, JSON], where: str, *names: str) -> str:
    """The first of these members that there is."""
    for name in names:
        value = side.get(name)
        if isinstance(value, str) and value:
            return value
    wanted = " or ".join(names)
    raise ToolError("tool.contract", f"{where} of type {side['type']} needs {wanted}")


def quoted(name: str) -> str:
    """A table's name, with or without a schema."""
    parts = (part.replace('"', '""') for part in name.split("."))
    return ".".join(f'"{part}"' for part in parts)


def unknown(where: str, kind: JSON, known: str) -> ToolError:
    return ToolError("tool.contract", f"{where}.type is {kind!r:.40}, none of {known}")
