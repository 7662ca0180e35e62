"""Kind ``transfer``: rows from one place to another, a chunk at a time."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.adapters.processes.limits import read_timeout
from noetl.adapters.tools.classic.sources import Reach, read_rows
from noetl.adapters.tools.classic.targets import open_target
from noetl.engine.outcome import Outcome
from noetl.errors import ToolError
from noetl.ports import Tool, ToolCall
from noetl.types import JSON

_CHUNK = 1000


class TransferTool:
    """Works by the canonical tools; each chunk is a call of the target's own."""

    instant = False

    def __init__(self, tools: Mapping[str, Tool], reach: Reach) -> None:
        self._reach = reach
        self._tools = tools

    def has_effect(self, call: ToolCall) -> bool:
        return True

    async def run(self, call: ToolCall) -> Outcome:
        import asyncio

        source, target = side(call, "source"), side(call, "target")
        size = call.inputs.get("chunk_size") or _CHUNK
        names = call.inputs.get("mapping") or {}
        if not isinstance(size, int) or size < 1 or not isinstance(names, Mapping):
            message = "chunk_size must be a number from 1 on, mapping a mapping"
            raise ToolError("tool.contract", message)
        mode = call.inputs.get("mode") or target.get("mode") or "append"
        if mode not in ("append", "replace"):
            message = f"mode {mode!r:.40} is not append or replace"
            raise ToolError("tool.contract", message)
        seconds = read_timeout(call.spec)
        rows = chunks = 0
        try:
            async with asyncio.timeout(seconds) as limit:
                end = open_target(target, call, self._tools, replaces=mode == "replace")
                found = read_rows(source, call, self._tools, size, self._reach)
                async for chunk in found:
                    await end.write([renamed(row, names) for row in chunk])
                    rows, chunks = rows + len(chunk), chunks + 1
                await end.finish()
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"not done after {seconds:g} s: {rows:,} rows are transferred"
            raise ToolError("timeout", message, retryable=True) from None
        except ToolError as error:
            error.details["rows_transferred"] = rows
            raise
        return Outcome.ok(
            {
                "status": "success",
                "rows_transferred": rows,
                "chunks": chunks,
                "source_type": source["type"],
                "target_type": target["type"],
            }
        )

    async def close(self) -> None:
        pass


def side(call: ToolCall, name: str) -> dict[str, JSON]:
    given = call.inputs.get(name)
    if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
        message = f"{name} must be a mapping with 'type'"
        raise ToolError("tool.contract", message)
    return dict(given)


def renamed(row: JSON, names: Mapping[str, JSON]) -> JSON:
    """The target's columns, where a mapping names them."""
    if not names or not isinstance(row, Mapping):
        return row
    missing = [str(each) for each in names.values() if each not in row]
    if missing:
        message = f"a row has no {missing[0]!r:.60}, which mapping names"
        raise ToolError("tool.contract", message)
    return {column: row[str(each)] for column, each in names.items()}
