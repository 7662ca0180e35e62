"""A pipeline that met a defect: how it ends, so that no other one is concerned."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from noetl.engine.outcome import Meta, Outcome, envelope
from noetl.engine.payloads import failure_of
from noetl.engine.reports import Fact
from noetl.engine.times import rfc3339
from noetl.errors import Unreachable
from noetl.runtime.live import Work
from noetl.runtime.quarantine import is_defect, number_of


def is_stop(error: BaseException) -> bool:
    """Whether the current task itself is being stopped. A tool may raise the same."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, GeneratorExit)


def is_passing(error: BaseException) -> bool:
    """Whether the pipeline may go on later: a store or a server did not answer."""
    if isinstance(error, Unreachable | asyncio.CancelledError):
        return True
    return isinstance(error, Exception) and not is_defect(error)


def describe(error: BaseException) -> str:
    """The exception's type and text; some texts cannot be had."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:
        return name


def last_facts(
    work: Work, unreported: Sequence[Fact], error: BaseException, now: float
) -> list[Fact]:
    """The facts that end the pipeline as failed. They name the defect's number and no
    value of the execution."""
    progress, frame = work.progress, work.frame
    label, attempt = progress.label or "", progress.attempt
    number = number_of(error)
    message = (
        f"task '{label}' met a defect of NoETL ({type(error).__name__}); the log of "
        f"{work.lease.owner} has it under the number {number}"
    )
    outcome = Outcome.failed("worker.defect", message, details={"defect": number})
    kinds = {each.label: each.kind for each in work.playbook.steps[frame.step].tasks}
    meta = Meta(attempt, rfc3339(now), rfc3339(now), 0.0, frame.trace_id)
    body = envelope(outcome, kinds.get(label, ""), meta)
    payload = failure_of(body, label, body["error"])
    payload["directive"]["next"] = None
    facts = [fact for fact in unreported if fact.name != "task.suspended"]
    begun = Fact("task.started", label, attempt)
    if begun not in facts:
        facts.append(begun)
    return [*facts, Fact("task.done", label, attempt, payload)]
