"""Checks of a simulation that know its playbooks: results, limits of calls, views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from noetl.engine.events import Event
from noetl.ports import CallLimit, Transition

from .checks import FROZEN_S, OVER, Checker, LeaseCheck, LogCheck, Report
from .playbooks import ENDS

if TYPE_CHECKING:
    from .world import World


class ResultCheck(Checker):
    """I-24, I-30: an execution that nobody cancels ends as its playbook says."""

    def __init__(self, world: World, report: Report, logs: LogCheck) -> None:
        super().__init__(world, report)
        self._logs = logs.logs

    def committed(self, transitions: Sequence[Transition], by: str) -> None:
        for each in transitions:
            if each.summary.status in OVER and each.log.events:
                self._judge(self._logs[each.execution_id])

    def _judge(self, events: Sequence[Event]) -> None:
        if any(event.name == "workflow.cancelled" for event in events):
            return
        path = events[0].payload["playbook"]["path"]
        workload = next(
            (e.payload["workload"] for e in events if e.name == "workflow.started"), {}
        )
        end = next((e for e in events if e.name == "workflow.finished"), None)
        if end is None:
            return
        status, result = ENDS[path](workload)
        if "worker.lost" in repr(end.payload["error"]) and self._may_be_lost():
            return
        found = end.payload["status"], end.payload["result"]
        if found != (status, result):
            name = events[0].execution_id
            self.report("result", f"{path} {name} ended as {found}: {end.payload}")

    def _may_be_lost(self) -> bool:
        """Return whether five workers in a row may have been lost, or may have got
        work in answers that they never saw."""
        if any(job.path == "poison" for job in self.world.jobs):
            return True
        kinds = (
            *("worker crash", "freeze worker", "partition", "outage", "disk full"),
            *("answer lost", "request repeated", "claim unknown"),
        )
        return sum(self.world.happened.get(kind, 0) for kind in kinds) >= 5


class ViewCheck(Checker):
    """I-03: nobody is shown an event before it is stored."""

    def __init__(self, world: World, report: Report) -> None:
        super().__init__(world, report)
        world.shown.append(self._look)

    def _look(self, events: Sequence[Event]) -> None:
        name, last = events[-1].execution_id, events[-1].seq
        known = self.world.database.memory._executions.get(name)
        if known is None or known.last_seq < last:
            self.report("I-03", f"event {last} of {name} is shown before it is stored")


class CallLimitCheck(Checker):
    """S-78: rates and slots of calls hold over all servers and workers."""

    def __init__(self, world: World, report: Report, leases: LeaseCheck) -> None:
        super().__init__(world, report)
        self._leases = leases
        self._last: dict[str, float] = {}
        self._commands: dict[str, str] = {}
        self._in_slot: dict[str, list[Any]] = {}
        world.ledger.on_begin.append(self._begin)

    def permitted(self, limits: Sequence[CallLimit], now: float) -> None:
        for limit in limits:
            if limit.interval:
                last = self._last.get(limit.key, 0.0)
                if now < last + limit.interval - 1e-6:
                    self.report("S-78", f"two calls within {now - last:.3f} s")
                self._last[limit.key] = now

    def committed(self, transitions: Sequence[Transition], by: str) -> None:
        for each in transitions:
            for event in each.log.events:
                if event.name == "task.started":
                    command = event.iteration_id or event.step_run_id or ""
                    self._commands[event.action_id or ""] = command

    def _begin(self, effect: Any, call: Any) -> None:
        slot = call.inputs["json"].get("slot")
        if slot is None:
            return
        earlier = self._in_slot.setdefault(slot, [])
        for other in earlier:
            held = self._leases.held.get(self._commands.get(other.action_id, ""))
            if (
                other.ended is None
                and other.process.alive
                and other.process.thawed_at < other.began - FROZEN_S
                and held is not None
                and held[0].owner == other.worker
                and other.action_id != effect.action_id
            ):
                self.report("S-78", f"two calls have the slot {slot}")
        earlier.append(effect)
