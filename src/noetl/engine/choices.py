"""Kind ``choose``: which of its guards hold, for one event or for whatever comes.

Worker and server ask the same guards: the worker when the task begins and when a timer
is due, the server whenever something happens while the pipeline waits.
"""

from __future__ import annotations

from collections.abc import Mapping

from noetl.dsl.durations import parse_duration
from noetl.dsl.model import Task
from noetl.engine.outcome import Outcome
from noetl.engine.progress import Waiting
from noetl.engine.scope import Scope
from noetl.types import JSON

TIMEOUT = "timeout"
"""The timer that fails the task, unless a guard accepts it."""

_YEARS = 100 * 366 * 86_400.0


def pick(task: Task, scope: Scope, event: JSON) -> list[str]:
    """The names of the guards that hold. Raises ``TemplateError``."""
    scope["event"] = event
    names: list[str] = []
    for name, guard in task.guards.items():
        if guard.holds(scope):
            names.append(name)
            if task.literals.get("mode", "exclusive") == "exclusive":
                break
    otherwise = task.literals.get("otherwise")
    return names if names or otherwise is None else [otherwise]


def choose(task: Task, inputs: Mapping[str, JSON], scope: Scope) -> Outcome | None:
    """The choice on the first event; None where the task must wait for another."""
    event, waits = inputs.get("event"), task.literals.get("wait", False)
    if event is None and waits:
        return None
    names = pick(task, scope, event)
    return None if waits and not names else _chosen(task, inputs, names, event, [])


def listen(
    inputs: Mapping[str, JSON], waiting: Waiting | None, before: JSON
) -> dict[str, JSON] | Outcome:
    """What a task waits for: anything, and its timers, armed with the first wait."""
    if waiting is not None:
        return {"on": "event", "timers": waiting.timers[1:]}
    if before is not None and before["choose"]["timers"]:
        return {"on": "event", "timers": before["choose"]["timers"]}
    try:
        timers = [
            {"id": name, "seconds": min(parse_duration(value), _YEARS)}
            for name, value in (inputs.get("timers") or {}).items()
        ]
    except (ValueError, AttributeError) as error:
        return Outcome.failed("tool.contract", f"choose: timers: {error}")
    return {"on": "event", "timers": timers}


def hear(
    task: Task, inputs: Mapping[str, JSON], scope: Scope, waiting: Waiting
) -> Outcome | None:
    """The choice on what came; None if it was a timer that no guard accepts."""
    answer, timers = waiting.answer, waiting.timers
    if answer is not None:
        if "error" in answer:
            return Outcome.failed(answer["error"]["kind"], answer["error"]["message"])
        return _chosen(task, inputs, answer["matched"], answer["event"], timers)
    timer = timers[0]
    event = fired(timer)
    names = pick(task, scope, event)
    if names:
        return _chosen(task, inputs, names, event, timers[1:])
    if timer["id"] == TIMEOUT:
        message = f"nothing that a guard accepts came until {timer['at']}"
        return Outcome.failed("timeout", message, retryable=True)
    return None


def fired(timer: Mapping[str, JSON]) -> dict[str, JSON]:
    """A timer as guards see it."""
    data = {"timer_id": timer["id"], "at": timer["at"]}
    return {
        "name": "timer.fired",
        "event_type": "timer.fired",
        "status": "success",
        "timestamp": timer["at"],
        "payload": data,
        "data": data,
    }


def _chosen(
    task: Task,
    inputs: Mapping[str, JSON],
    names: list[str],
    event: JSON,
    timers: list[dict[str, JSON]],
) -> Outcome:
    return Outcome.ok(
        inputs.get("result"),
        matched=names,
        event=event,
        mode=task.literals.get("mode", "exclusive"),
        wait=task.literals.get("wait", False),
        timers=timers,
    )
