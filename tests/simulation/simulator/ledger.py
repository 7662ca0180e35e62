"""The outside world of a simulation: effects of tools, recorded as they happen."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ToolError
from noetl.ports import ToolCall

from .loop import Process, SimLoop


@dataclass
class Effect:
    """One call of a tool: who made it, for what, and when."""

    worker: str
    execution_id: str
    action_id: str
    attempt: int
    began: float
    ended: float | None = None
    result: Any = None
    error: str | None = None
    process: Process | None = None


class Ledger:
    """All effects in their order, and by action."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.effects: list[Effect] = []
        self.by_action: dict[tuple[str, int], list[Effect]] = {}
        self.running: dict[str, int] = {}
        self.on_begin: list[Any] = []

    def begin(self, process: Process, call: ToolCall) -> Effect:
        effect = Effect(
            process.name,
            call.execution_id,
            call.action_id,
            call.attempt,
            self.loop.time(),
            process=process,
        )
        self.effects.append(effect)
        self.by_action.setdefault((call.action_id, call.attempt), []).append(effect)
        self.loop.note(b"e%d " % call.attempt)
        for look in self.on_begin:
            look(effect, call)
        return effect


class EffectTool:
    """A tool whose effect is an entry of the ledger.

    Its input ``json`` says how long it takes (``secs``), how many attempts fail first
    (``fails``), with which kind of error (``kind``), and what it returns (``v``, or a
    text of ``fill`` characters).
    """

    instant = False

    def __init__(self, ledger: Ledger, process: Process) -> None:
        self._ledger = ledger
        self._process = process

    def has_effect(self, call: ToolCall) -> bool:
        return not call.inputs["json"].get("pure")

    async def run(self, call: ToolCall) -> Outcome:
        script = call.inputs["json"]
        effect = self._ledger.begin(self._process, call)
        try:
            if script.get("dies"):  # it takes its worker with it
                await asyncio.sleep(0.05)
                self._process.kill()
                await asyncio.sleep(0)
            await asyncio.sleep(script.get("secs", 0.02))
        finally:
            effect.ended = self._ledger.loop.time()
        if call.attempt <= script.get("fails", 0):
            effect.error = script.get("kind", "http.server")
            raise ToolError(effect.error, "it failed as planned", retryable=True)
        effect.result = script.get("v")
        if "fill" in script:
            effect.result = "x" * script["fill"]
        return Outcome.ok(effect.result)

    async def close(self) -> None:
        """Do nothing: the ledger outlives every process."""
