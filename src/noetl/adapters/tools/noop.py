"""Kind ``noop``: succeeds without doing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.dsl.grammar.records import ANY
from noetl.dsl.tool_kinds import Input, Kind
from noetl.engine.tasks.outcome import Outcome

if TYPE_CHECKING:
    from noetl.ports import ToolCall

NOOP = Kind(
    name="noop",
    doc="Succeeds, doing nothing.",
    inputs={
        "result": Input(ANY, "What it returns (null)."),
        "note": Input(ANY, "Recorded with its outcome, as `outcome.noop.note`."),
    },
    row="PIPE-19",
    result="The input `result`, else null.",
    any_input=True,
)


class NoopTool:
    """Returns the input ``result``."""

    instant = True

    def has_effect(self, call: ToolCall) -> bool:
        return False

    async def run(self, call: ToolCall) -> Outcome:
        note = {key: call.inputs[key] for key in ("note",) if key in call.inputs}
        return Outcome.ok(call.inputs.get("result"), **note)

    async def close(self) -> None:
        pass
