"""Why an expectation did not hold: the last events that have to do with it."""

from __future__ import annotations

from noetl.dsl.secrets import mask
from noetl.engine.events import Event
from noetl.testing.expectations import Mismatch
from noetl.testing.narration import Narrator
from noetl.testing.observation import Observation

SHOWN = 8

_VERDICTS = frozenset({"task.done", "next.evaluated", "step.failed", "step.skipped"})
_FLOW = frozenset({"next.evaluated", "step.skipped", "step.failed"})
_ENDS = frozenset({"step.failed", "loop.iteration.failed", "workflow.cancelled"})
_WAITS = frozenset({"task.suspended", "message.received", "workflow.cancelled"})
_LOOPS = frozenset({"loop.iteration.failed", "loop.done", "step.failed"})


def explain(seen: Observation, why: Mismatch | None) -> list[str]:
    """Some lines of the log; its last ones, if none of them is about it."""
    log = [event for event in seen.log if why is None or _concerns(event, why)]
    log = log or [event for event in seen.log if event.name in _VERDICTS]
    if not log:
        return []
    narrator = Narrator(seen.playbook, seen.log[0].timestamp)
    left = len(log) - SHOWN
    lines = [mask(narrator.tell(event)) for event in log[-SHOWN:]]
    return [f"      … {left:,} more before", *lines] if left > 0 else lines


def _concerns(event: Event, why: Mismatch) -> bool:
    name = event.name
    done = name == "task.done"
    if why.task is not None:  # its calls, or how it came that there were none
        mine = (event.step, event.task_label) == why.task
        about = event.step == why.task[0] and name in _FLOW
        return ((done or name == "task.started") and mine) or about
    match why.expectation:
        case "status" | "error":
            return name in _ENDS or name in _FLOW or (done and _went_wrong(event))
        case "path" | "never":
            return name in _FLOW or name == "step.scheduled"
        case "ctx":
            return done and ("set_ctx" in event.payload)
        case "iterations":
            return event.step == why.step and (
                name in _LOOPS or (done and _went_wrong(event))
            )
        case "duration":
            return name in _WAITS or (
                done and event.payload["directive"]["do"] == "retry"
            )
        case "result":
            return done or name in _FLOW
        case _:
            return True


def _went_wrong(event: Event) -> bool:
    payload = event.payload
    failed = payload["outcome"]["status"] == "error"
    return failed or payload["directive"]["do"] in ("fail", "retry")
