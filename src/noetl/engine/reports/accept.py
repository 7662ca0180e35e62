"""Reports of workers: the facts that they may report, and their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from noetl.dsl.model import Loop
from noetl.engine import ids
from noetl.engine.events import (
    EVENTS,
    STEP_STARTED,
    AnyPayload,
    Status,
    StepStarted,
    TaskDone,
    TaskStarted,
)
from noetl.engine.ids import Path
from noetl.engine.recorder import Batch
from noetl.engine.runs import Command, Progress, Run, path_of
from noetl.engine.tasks.outcome import Failure
from noetl.engine.tasks.scope import is_equal, read_path, unfold
from noetl.engine.values.references import PAYLOAD_LIMIT, is_same
from noetl.engine.values.spilling import fit
from noetl.engine.waits.resume import announce, fix_time
from noetl.engine.waits.suspend import child_id
from noetl.errors import NoetlError, PayloadTooLarge
from noetl.types import JSON

_ENVELOPE = 4 * 1024  # bytes reserved for the rest of the event
_encode = msgspec.json.Encoder().encode

FACTS = ("step.started", "task.started", "task.done", "task.suspended")
"""The events that a worker may report; the server decides all others."""


class OutOfOrder(NoetlError):
    """Error of a fact that cannot be true now: it is refused, and nothing changes."""


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of ``FACTS``. ``task.started`` has no payload; that of ``task.done`` comes
    from the pipeline.

    ``task.suspended`` describes the wait of the pipeline; no fact follows it.
    """

    name: str
    label: str | None = None
    attempt: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None
    payload: AnyPayload = msgspec.field(default_factory=dict)


def fit_facts(facts: Sequence[Fact]) -> tuple[list[Fact], dict[str, bytes]]:
    """Replace large values of the facts by references: the worker's part of S-48.

    Return the facts, and the blobs by their keys; the blobs are stored before the facts
    are reported.
    """
    fitted: list[Fact] = []
    blobs: dict[str, bytes] = {}
    for fact in facts:
        if fact.payload:
            try:
                _check_size(fact.payload)
            except PayloadTooLarge:
                payload, found = fit(fact.payload, PAYLOAD_LIMIT - _ENVELOPE)
                fact = msgspec.structs.replace(fact, payload=payload)
                blobs |= found
        fitted.append(fact)
    return fitted, blobs


def check_facts(facts: Sequence[Fact]) -> None:
    """Check the sizes of the facts on the server (RES-05). Raises
    ``PayloadTooLarge``."""
    for fact in facts:
        if fact.payload:
            _check_size(fact.payload)


def _check_size(payload: dict[str, JSON]) -> None:
    """Raise ``PayloadTooLarge``: a reporter stores large values and sends
    references."""
    size = len(_encode(payload))
    if size > PAYLOAD_LIMIT:
        raise PayloadTooLarge(
            f"a payload of {size:,} bytes: at most {PAYLOAD_LIMIT:,} are taken; "
            "store the value and send a reference"
        )


def record(batch: Batch, command: Command, facts: Sequence[Fact]) -> bool:
    """Check each fact against the pipeline's position, then record it.

    Return whether the worker must stop, because nothing new may start now or any more.
    Facts about completed work are recorded all the same.
    """
    run, progress = command.run, command.progress
    for position, fact in enumerate(facts):
        if fact.name not in FACTS:
            raise OutOfOrder(f"a worker may not report {fact.name}")
        if fact.name == "step.started":
            started: StepStarted = {"tokens": run.tokens}
            batch.emit_step(run, STEP_STARTED, started, "worker")
            continue
        if fact.name == "task.started":
            if batch.state.cancelling is not None:
                return True
            if batch.state.status == "paused" and position == len(facts) - 1:
                return True
        _check(progress, fact)
        payload = fact.payload
        if fact.name == "task.done":
            payload = _whole_patches(batch, progress, payload)
            if "set_ctx" in payload:
                payload = _write_once(batch, command, payload)
        if fact.name == "task.suspended":
            _check_child(batch, command, payload)
            try:
                payload = fix_time(batch, payload)
            except ValueError as error:
                raise OutOfOrder(f"not a valid wait: {error}") from None
        _emit_task(batch, command, fact.name, payload)
    return False


def _whole_patches(batch: Batch, progress: Progress, payload: AnyPayload) -> AnyPayload:
    """Load stored values that dotted keys of a patch lead into (S-19, S-48)."""
    if not batch.state.spilled:
        return payload
    for name, base in (("set_ctx", batch.state.ctx), ("set_iter", progress.iter)):
        if payload.get(name) and base is not None:
            patch = unfold(base, payload[name], batch.values.fetch)
            payload = {**payload, name: patch}
    return payload


def _check(progress: Progress, fact: Fact) -> None:
    expected = (progress.label, progress.attempt)
    if (fact.label, fact.attempt) != expected:
        raise OutOfOrder(f"expected {expected}, got {(fact.label, fact.attempt)}")
    if fact.name == "task.done" and not progress.started:
        raise OutOfOrder(f"task.done of '{fact.label}' before its task.started")


def _check_child(batch: Batch, command: Command, payload: Mapping[str, JSON]) -> None:
    """Check that the child's id was derived from its caller: a worker that could choose
    the id would get the result of another execution (I-37)."""
    child = payload.get("child")
    if child is None:
        return
    _, run, path, progress = command
    execution_id, label = batch.state.execution_id, progress.label or ""
    action = ids.action_id(execution_id, run.id, label, path, progress.visits[label])
    if child.get("execution_id") != child_id(execution_id, action, progress.attempt):
        raise OutOfOrder(f"'{label}' calls an execution that is not its own")


def _emit_task(batch: Batch, command: Command, name: str, payload: AnyPayload) -> None:
    command_id, run, path, progress = command
    label = progress.label or ""
    visit = progress.visits[label]
    entity = progress.task_run_id(command_id)
    if name == "task.started" and progress.started:
        doubtful: TaskStarted = {"in_doubt": progress.in_doubt + 1}
        payload = doubtful
    status: Status | None = None
    if name == "task.done":
        done: TaskDone = payload
        failed = done["outcome"]["status"] == "error"
        skipped = done["directive"]["do"] == "skip"
        status = "skipped" if skipped else "error" if failed else "success"
    event = batch.emit(
        EVENTS[name],
        entity,
        payload,
        status=status,
        parent_id=run.id,
        step=run.step,
        step_run_id=run.id,
        iteration_id=command_id if path else None,
        task_run_id=entity,
        task_label=label,
        attempt=progress.attempt,
        action_id=ids.action_id(batch.state.execution_id, run.id, label, path, visit),
    )
    if batch.state.listeners and name != "task.suspended":
        announce(batch, event)


def _write_once(batch: Batch, command: Command, payload: TaskDone) -> TaskDone:
    """Refuse a second value for a key of ctx in a parallel loop; equal values pass
    (S-21)."""
    _, run, path, progress = command
    if not path or not payload["set_ctx"] or not run.ctx_writers:
        return payload
    levels = list(batch.playbook.steps[run.step].loop.levels())  # type: ignore[union-attr]
    for key, value in payload["set_ctx"].items():
        writer = _find_rival(run, levels, path, key)
        if writer is None:
            continue
        stored = read_path(batch.state.ctx, key)
        same = is_same(stored, value) or is_same(value, stored)
        if same or is_equal(stored, value):
            continue
        message = f"ctx.{key} was written by iteration {writer} of this parallel loop"
        failure = Failure("ctx.conflict", message)
        return {
            **payload,
            "directive": {**payload["directive"], "do": "fail", "next": None},
            "refused": {"key": key, "by": writer},
            "error": {**msgspec.to_builtins(failure), "task": progress.label},
        }
    return payload


def _find_rival(run: Run, levels: Sequence[Loop], path: Path, key: str) -> str | None:
    """Return the concurrent iteration that wrote the key or an overlapping one, or
    None.

    Two iterations differ at one level of the loops; if that one is sequential they
    never run at the same time.
    """
    for written, writer in run.ctx_writers.items():
        if not f"{written}.".startswith(f"{key}.") and not f"{key}.".startswith(
            f"{written}."
        ):
            continue
        pairs = zip(levels, path, path_of(writer), strict=True)
        level = next((level for level, mine, other in pairs if mine != other), None)
        if level is not None and level.mode == "parallel":
            return writer
    return None
