"""View 003: cases, tools, retries, polls and sinks, each with all its ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from noetl.dialects.views.formal import iteration_of, number_of, page_of
from noetl.engine.events import (
    Event,
    NextEvaluated,
    RequestEvaluated,
    TaskDone,
    TaskSuspended,
)
from noetl.types import JSON

Source = Literal["server", "worker"]
Said = tuple[str, str, Source, dict[str, JSON]]
"""Type, entity type, source, payload."""

_HELD = frozenset(
    {"case", "begin", "wait", "next", "route", "try", "again", "timeout", "publish"}
    | {"hold", "end"}
)
_RENAMED = {"loop.done": "loop.finished"}


class _Run(msgspec.Struct):
    """State of one pipeline: its choice, its routing requests, its polls.

    ``order`` are the branches that were selected, ``granted`` the request that won.
    """

    order: list[str] = msgspec.field(default_factory=list)
    wishes: list[dict[str, JSON]] = msgspec.field(default_factory=list)
    granted: dict[str, JSON] | None = None
    begun: dict[str, dict[str, JSON]] = msgspec.field(default_factory=dict)
    polls: dict[str, int] = msgspec.field(default_factory=dict)
    paused: bool = False

    def suppressed(self) -> list[str]:
        """Return the selected branches that the winner kept from running."""
        wish = self.granted or (self.wishes[-1] if self.wishes else None)
        if wish is None or wish["policy"] != "end_step":
            return []
        if wish["branch"] not in self.order:
            return []
        return self.order[self.order.index(wish["branch"]) + 1 :]


class TechnicalView:
    """Folds a log into the documents of the technical specification."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._began: str | None = None

    def take(self, event: Event) -> Iterator[dict[str, JSON]]:
        self._began = self._began or event.timestamp
        say = _SAYS.get(event.name)
        said = say(self, event) if say is not None else _same(event)
        for place, each in enumerate(said):
            number = number_of(self._began, event.seq, place)
            yield _envelope(event, number, *each)
        if event.name in ("loop.iteration.done", "loop.iteration.failed"):
            self._runs.pop(event.iteration_id or "", None)

    def _run(self, event: Event) -> _Run:
        key = event.iteration_id or event.step_run_id or ""
        return self._runs.setdefault(key, _Run())

    # -- the workflow ------------------------------------------------------------

    def _evaluated(self, event: Event) -> Iterator[Said]:
        yield from _same(event)
        payload: RequestEvaluated = event.payload
        if "error" not in payload:
            about: dict[str, JSON] = {"playbook": payload["playbook"]}
            yield "playbook.started", "playbook", "server", about

    # -- steps -------------------------------------------------------------------

    def _scheduled(self, event: Event) -> Iterator[Said]:
        yield "step.started", "step", "server", event.payload

    def _started(self, event: Event) -> Iterator[Said]:
        return iter(
            ()
        )  # the server's event counts: it was recorded when the step was scheduled

    def _ended(self, event: Event) -> Iterator[Said]:
        payload = {"status": event.status, **event.payload}
        yield from self._going_on(event)
        yield "step.finished", "step", "server", payload

    def _suspended(self, event: Event) -> Iterator[Said]:
        self._run(event).paused = True
        waits: TaskSuspended = event.payload
        payload: dict[str, JSON] = {"on": waits["on"], "until": waits["until"]}
        yield "step.paused", "step", "server", payload

    def _going_on(self, event: Event) -> Iterator[Said]:
        run = self._run(event)
        if run.paused:
            run.paused = False
            yield "step.resumed", "step", "server", {}

    # -- tasks -------------------------------------------------------------------

    def _task_started(self, event: Event) -> Iterator[Said]:
        yield from self._going_on(event)
        label = event.task_label or ""
        if is_held(label):
            return
        attempt = event.attempt or 1
        if attempt > 1:
            yield "retry.started", "retry", "worker", {"attempt": attempt}
        elif is_sink(label):
            yield "sink.started", "sink", "worker", {"task": label}
        begun = self._run(event).begun.get(label, {})
        payload: dict[str, JSON] = {"task": label, **event.payload}
        if "args" in begun:
            payload["args"] = begun["args"]
        yield "tool.started", "tool", "worker", payload

    def _task_done(self, event: Event) -> Iterator[Said]:
        yield from self._going_on(event)
        ended: TaskDone = event.payload
        label, outcome = event.task_label or "", ended["outcome"]
        if is_held(label):
            yield from self._held_done(event, outcome)
            return
        payload = {"task": label, "status": event.status, **event.payload}
        yield "tool.processed", "tool", "worker", payload
        retried = ended["directive"]["do"] == "retry"
        if (event.attempt or 1) > 1 and not retried:
            done: dict[str, JSON] = {"attempt": event.attempt, "status": event.status}
            yield "retry.processed", "retry", "worker", done
        if retried:
            return
        yield from self._polled(event, label)
        if is_sink(label):
            done = {"task": label, "status": event.status}
            yield "sink.processed", "sink", "worker", done

    def _polled(self, event: Event, label: str) -> Iterator[Said]:
        run = self._run(event)
        if label not in run.polls:
            return
        payload: TaskDone = event.payload
        directive = payload["directive"]
        run.polls[label] += 1
        again = directive.get("to") == f"{label}__wait"
        number: dict[str, JSON] = {"task": label, "iteration": run.polls[label]}
        yield "poll.iteration", "poll", "worker", {**number, "done": not again}
        if not again:
            error = payload.get("error") or {}
            reason = error.get("kind") if event.status != "success" or error else None
            del run.polls[label]
            finished = {**number, "status": "error" if reason else "success"}
            yield "poll.finished", "poll", "worker", {**finished, "error": reason}

    # -- generated tasks ---------------------------------------------------------

    def _held_done(self, event: Event, outcome: dict[str, JSON]) -> Iterator[Said]:
        run = self._run(event)
        note = (outcome.get("noop") or {}).get("note") or {}
        if "choose" in outcome and outcome["status"] == "ok":
            yield from self._chosen(run, outcome["choose"])
        elif "poll" in note or "args" in note:
            run.begun[note["of"]] = note
            if "poll" in note:
                run.polls[note["of"]] = 0
                about = {"task": note["of"], **note["poll"]}
                yield "poll.started", "poll", "worker", about
        elif "retry" in note:
            attempt = outcome["result"]["n"]
            if attempt > 1:
                about = {**note["retry"], "attempt": attempt}
                yield "retry.started", "retry", "worker", about
        elif "next" in note:
            yield from self._wished(run, note["next"])
        elif "route" in note:
            run.granted = note["route"]

    def _chosen(self, run: _Run, choice: dict[str, JSON]) -> Iterator[Said]:
        run.order = choice["matched"]
        run.wishes, run.granted = [], None
        event = choice["event"] or {}
        about: dict[str, JSON] = {
            "matched": sorted(run.order, key=_branch_number),
            "order": run.order,
            "case_mode": choice["mode"],
            "eval_mode": "on_event" if choice["wait"] else "on_entry",
            "trigger_event": event.get("name"),
        }
        yield "case.started", "case", "worker", {"trigger_event": event.get("name")}
        yield "case.evaluated", "case", "worker", about

    def _wished(self, run: _Run, wish: dict[str, JSON]) -> Iterator[Said]:
        run.wishes.append(wish)
        about: dict[str, JSON] = {
            "selected": wish["to"],
            "policy": wish["policy"],
            "priority": wish["priority"],
            "branch": wish["branch"],
            "delay": wish["delay"],
            "pending": True,
        }
        yield "next.requested", "next", "worker", about
        for branch in run.suppressed():
            suppressed = {"branch": branch, "by": wish["branch"]}
            yield "case.branch.suppressed", "case", "worker", suppressed

    # -- routing -----------------------------------------------------------------

    def _routed(self, event: Event) -> Iterator[Said]:
        run = self._runs.pop(event.step_run_id or "", _Run())
        wish = run.granted or (run.wishes[-1] if run.wishes else None)
        payload: NextEvaluated = event.payload
        fired = payload["fired"]
        about: dict[str, JSON] = {
            "selected": [{"step": t["step"], "with": t["args"]} for t in fired],
            "policy": wish["policy"] if wish is not None else None,
            "winner_branch": wish["branch"] if wish is not None else None,
            "suppressed_branches": run.suppressed(),
            "routing_committed": True,
        }
        yield "next.evaluated", "next", "server", about


_SAYS: dict[str, Callable[[TechnicalView, Event], Iterator[Said]]] = {
    "playbook.request.evaluated": TechnicalView._evaluated,
    "step.scheduled": TechnicalView._scheduled,
    "step.started": TechnicalView._started,
    "step.done": TechnicalView._ended,
    "step.failed": TechnicalView._ended,
    "task.started": TechnicalView._task_started,
    "task.done": TechnicalView._task_done,
    "task.suspended": TechnicalView._suspended,
    "task.resumed": TechnicalView._going_on,
    "next.evaluated": TechnicalView._routed,
}


def _same(event: Event) -> Iterator[Said]:
    name = _RENAMED.get(event.name, event.name)
    yield name, event.entity_type, event.source, event.payload


def is_held(label: str) -> bool:
    """Return whether a task was generated by the dialect."""
    _, mark, last = label.rpartition("__")
    return bool(mark) and last.rstrip("_0123456789") in _HELD


def is_sink(label: str) -> bool:
    return label == "sink" or (label.startswith("sink_") and label[5:].isdigit())


def _branch_number(name: str) -> int:
    number = name.removeprefix("case_")
    return int(number) if number.isdigit() else 1 << 30


def _envelope(
    event: Event, number: str, kind: str, entity: str, source: Source, payload: JSON
) -> dict[str, JSON]:
    """Return all ids of an event, null where they do not apply."""
    tool = event.task_run_id if entity in ("tool", "retry", "poll", "sink") else None
    entity_id: str | None = {
        "playbook": event.execution_id,
        "workflow": event.execution_id,
        "loop": event.entity_id,
    }.get(entity, tool or event.step_run_id)
    parent = {"playbook": None, "workflow": None, "step": event.execution_id}
    return {
        "event_id": number,
        "event_type": kind,
        "timestamp": event.timestamp,
        "execution_id": event.execution_id,
        "workflow_run_id": event.execution_id,
        "step_run_id": event.step_run_id,
        "tool_run_id": tool,
        "entity_type": entity,
        "entity_id": entity_id,
        "parent_id": parent.get(entity, event.step_run_id),
        "action_id": event.action_id if tool else None,
        "attempt": event.attempt if tool else None,
        "iteration": iteration_of(event),
        "page": page_of(event) if tool else 0,
        "source": source,
        "step": event.step,
        "seq": event.seq,
        "payload": payload,
    }
