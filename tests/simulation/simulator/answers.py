"""Checks of a simulation: answers to reports and requests, and effects of tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from noetl.engine.events import Event
from noetl.engine.values.references import is_reference
from noetl.ports import Transition
from noetl.runtime.worker_protocol import messages

from .checks import FROZEN_S, Checker, LogCheck, Report

if TYPE_CHECKING:
    from .world import World


class ReportCheck(Checker):
    """I-03: what a server has answered to a report is in the log."""

    def __init__(self, world: World, report: Report) -> None:
        super().__init__(world, report)
        self._facts: set[tuple[str, str, str, int]] = set()
        world.reports.append(self.answered)

    def committed(self, transitions: Sequence[Transition], by: str) -> None:
        for each in transitions:
            for event in each.log.events:
                if event.task_label is not None:
                    command = event.iteration_id or event.step_run_id or ""
                    self._facts.add(
                        (command, event.name, event.task_label, event.attempt or 0)
                    )

    def answered(
        self, asked: messages.ReportBatch, answer: messages.ReportBatchReply
    ) -> None:
        for each, reply in zip(asked.reports, answer.replies, strict=True):
            if reply.error is not None or (reply.stop and reply.duplicate):
                continue
            for fact in each.facts:
                if fact.name != "task.done" or reply.stop:
                    continue
                key = (each.lease.command_id, fact.name, fact.label, fact.attempt)
                if key not in self._facts:
                    self.report("I-03", f"{key} was answered and is not recorded")


class StartCheck(Checker):
    """I-01, I-02: a request has one execution, and none that was accepted is lost."""

    def __init__(self, world: World, report: Report, logs: LogCheck) -> None:
        super().__init__(world, report)
        self._logs = logs.logs
        world.on_start.append(self.answered)

    def answered(self, name: str) -> None:
        if name not in self.world.database.memory._executions:
            self.report("I-01", f"{name} was accepted and is not stored")

    def end(self) -> None:
        for number, names in self.world.client.answers.items():
            if len(names) > 1:
                self.report("I-02", f"request {number} has {len(names)} executions")
        memory, keys = self.world.database.memory, {}
        for name in memory._executions:
            first = self._logs[name][0]
            key = (first.payload.get("caller") or {}).get("idempotency_key")
            if key is not None and keys.setdefault(key, name) != name:
                self.report("I-02", f"{key} has two executions")


class EffectCheck(Checker):
    """I-17, I-19, I-27: the ledger of effects against the log."""

    def __init__(self, world: World, report: Report) -> None:
        super().__init__(world, report)
        self._begun: dict[tuple[str, int], int] = {}
        world.ledger.on_begin.append(self.begin)

    def committed(self, transitions: Sequence[Transition], by: str) -> None:
        for each in transitions:
            for event in each.log.events:
                if event.name == "task.started":
                    key = event.action_id or "", event.attempt or 0
                    self._begun[key] = self._begun.get(key, 0) + 1
                elif event.name == "task.done":
                    self._judge(event)

    def _judge(self, event: Event) -> None:
        outcome = event.payload["outcome"]
        if outcome["status"] != "ok" or outcome["meta"].get("kind") == "noop":
            return
        key = event.action_id or "", event.attempt or 0
        made = self.world.ledger.by_action.get(key)
        if made is None:
            return
        if is_reference(outcome["result"]):
            return
        if all(each.result != outcome["result"] for each in made):
            self.report("I-26", f"{key}: no call returned {outcome['result']!r}")

    def begin(self, effect: Any, call: Any) -> None:
        key = effect.action_id, effect.attempt
        made = self.world.ledger.by_action[key]
        if not call.inputs["json"].get("pure") and len(made) > self._begun.get(key, 0):
            self.report("I-17", f"{key} begins {len(made)} times, not all on record")
        if call.inputs["json"].get("pure"):
            return
        for other in made[:-1]:
            process = other.process
            was_frozen = process.thawed_at >= other.began - FROZEN_S
            is_same = process is effect.process
            if other.ended is None and process.alive and (is_same or not was_frozen):
                self.report("I-19", f"{key} runs at {other.worker} and {effect.worker}")
