"""One step run in detail: its calls, and why it went on as it did."""

from __future__ import annotations

from collections import deque

import msgspec

from noetl.dsl.model import Playbook
from noetl.engine.events import Event
from noetl.engine.execution_document import elapsed_ms
from noetl.report.page_data import Reason, Reasons
from noetl.report.run_lines import RunLine
from noetl.report.values import cut, cut_members
from noetl.types import JSON

FIRST_CALLS, LAST_CALLS = 50, 50
"""Calls of a run that are shown; those between are counted."""


class Details:
    """Collects the events of one run, without those of its iterations."""

    def __init__(
        self, line: RunLine, playbook: Playbook | None, reasons: Reasons
    ) -> None:
        self._line = line
        self._step = playbook.steps.get(line.step) if playbook is not None else None
        self._reasons = reasons
        self._first: list[dict[str, JSON]] = []
        self._last: deque[dict[str, JSON]] = deque(maxlen=LAST_CALLS)
        self._count = 0
        self._open: dict[str, JSON] | None = None
        self._more: dict[str, JSON] = {
            **dict.fromkeys(("args", "result", "admission", "loop_errors")),
            "error": None,
            "routing": [],
        }

    def take(self, event: Event) -> None:
        payload = event.payload
        match event.name:
            case "step.scheduled" | "step.skipped":
                self._more["args"] = cut_members(payload["args"])
                self._more["admission"] = _reason(self._reasons.of_admission(event))
            case "task.started":
                self._begin(event)
            case "task.suspended" if self._open is not None:
                self._open["status"] = "waiting"
                self._open["waits"] = {
                    name: payload.get(name) for name in ("on", "until", "signal")
                }
                self._open["child"] = (payload.get("child") or {}).get("execution_id")
            case "task.done":
                self._end(event)
            case "loop.done":
                self._more["loop_errors"] = payload.get("error_kinds")
            case "step.done":
                self._more["result"] = cut(payload["result"])
            case "step.failed":
                self._more["error"] = cut(payload["error"])
            case "next.evaluated":
                reasons = self._reasons.of_routing(event)
                self._more["routing"] = [_reason(each) for each in reasons]
            case _:
                pass

    def _begin(self, event: Event) -> None:
        call: dict[str, JSON] = {
            "task": event.task_label,
            "attempt": event.attempt,
            "task_run_id": event.task_run_id,
            "seq": event.seq,
            "status": "running",
            "at": event.timestamp,
            **dict.fromkeys(("done_seq", "ms", "outcome", "directive", "rule")),
            **dict.fromkeys(("line", "guard", "note", "result", "error", "logs")),
            **dict.fromkeys(("set_ctx", "set_iter", "waits", "child")),
        }
        call["queue_ms"] = None if self._count else self._line.wait
        self._open = call
        self._count += 1
        if len(self._first) < FIRST_CALLS:
            self._first.append(call)
        else:
            self._last.append(call)

    def _end(self, event: Event) -> None:
        call = self._open
        if call is None:
            return
        payload = event.payload
        outcome, reason = payload["outcome"], self._reasons.of_call(event)
        meta = outcome.get("meta") or {}
        ignored = "ignored" if payload.get("ignored") else None
        waited = call["waits"] is not None
        call |= {
            "status": ignored or outcome["status"],
            "done_seq": event.seq,
            "ms": elapsed_ms(call["at"], event.timestamp)
            if waited
            else meta.get("duration_ms"),
            "outcome": outcome["status"],
            "directive": reason.verdict,
            "rule": payload["directive"].get("rule"),
            "line": reason.line,
            "guard": reason.guard,
            "note": reason.note,
            "result": cut(outcome.get("result")),
            "error": cut(outcome.get("error")),
            "logs": meta.get("logs"),
            "set_ctx": cut_members(payload.get("set_ctx") or {}) or None,
            "set_iter": cut_members(payload.get("set_iter") or {}) or None,
        }
        if not waited and meta.get("started_at"):
            call["at"] = meta["started_at"]
        self._open = None

    def as_json(self) -> dict[str, JSON]:
        tasks = self._step.tasks if self._step is not None else ()
        calls = [*self._first, *self._last]
        return {
            **self._line.as_json(),
            **self._more,
            "calls": calls,
            "calls_total": self._count,
            "tasks": [
                {"task": task.label, "kind": task.kind, "line": task.label_at.mark[0]}
                for task in tasks
            ],
        }


def _reason(reason: Reason | None) -> dict[str, JSON] | None:
    return None if reason is None else msgspec.to_builtins(reason)
