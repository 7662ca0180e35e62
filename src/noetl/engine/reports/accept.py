"""What a worker may say about its pipeline, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from noetl.dsl.model import Loop
from noetl.engine import ids
from noetl.engine.batch import Batch
from noetl.engine.context import is_equal, read_path, unfold
from noetl.engine.endings import emit_step
from noetl.engine.events import Status
from noetl.engine.ids import Path
from noetl.engine.outcome import Failure
from noetl.engine.progress import Progress
from noetl.engine.references import PAYLOAD_LIMIT, is_same
from noetl.engine.runs import find_progress, path_of
from noetl.engine.spilling import check_payload, fit
from noetl.engine.state import Run
from noetl.engine.suspensions import child_id
from noetl.engine.waits import fix_time
from noetl.errors import NoetlError, PayloadTooLarge
from noetl.types import JSON

_ENVELOPE = 4 * 1024  # bytes that are left for the rest of the event


FACTS = ("step.started", "task.started", "task.done", "task.suspended")
"""The events that a worker may report; all others are the server's to decide."""


class OutOfOrder(NoetlError):
    """A fact that cannot be true now: refused, and nothing changes."""


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of ``FACTS``. ``task.started`` has no payload; ``task.done`` has the
    pipeline's.

    ``task.suspended`` says what the pipeline waits for; no fact comes after it.
    """

    name: str
    label: str | None = None
    attempt: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None
    payload: dict[str, JSON] = msgspec.field(default_factory=dict)


def fit_facts(facts: Sequence[Fact]) -> tuple[list[Fact], dict[str, bytes]]:
    """The worker's part of S-48: the facts with references for what is too large.

    The blobs are by their keys; they are stored before the facts are reported.
    """
    fitted: list[Fact] = []
    blobs: dict[str, bytes] = {}
    for fact in facts:
        if fact.payload:
            try:
                check_payload(fact.payload)
            except PayloadTooLarge:
                payload, found = fit(fact.payload, PAYLOAD_LIMIT - _ENVELOPE)
                fact = msgspec.structs.replace(fact, payload=payload)
                blobs |= found
        fitted.append(fact)
    return fitted, blobs


def check_facts(facts: Sequence[Fact]) -> None:
    """The server's part of it (RES-05). Raises ``PayloadTooLarge``."""
    for fact in facts:
        if fact.payload:
            check_payload(fact.payload)


def record(batch: Batch, run: Run, path: Path, facts: Sequence[Fact]) -> bool:
    """Check each fact against the pipeline's position, then record it.

    Whether the worker must stop: nothing new starts any more, or for now. What was
    done before counts all the same.
    """
    command_id = ids.iteration_id(run.id, path)
    for position, fact in enumerate(facts):
        if fact.name not in FACTS:
            raise OutOfOrder(f"a worker may not report {fact.name}")
        progress = find_progress(run, path)
        if fact.name == "step.started":
            emit_step(batch, run, fact.name, {"tokens": run.tokens}, "worker")
            continue
        if fact.name == "task.started":
            if batch.state.cancelling is not None:
                return True
            if batch.state.status == "paused" and position == len(facts) - 1:
                return True
        _check(progress, fact)
        label = fact.label or ""
        payload = fact.payload
        if fact.name == "task.done":
            payload = _whole_patches(batch, progress, payload)
            if "set_ctx" in payload:
                payload = _write_once(batch, run, path, label, payload)
        if fact.name == "task.suspended":
            _check_child(batch, run, path, progress, payload)
            try:
                payload = fix_time(batch, payload)
            except ValueError as error:
                raise OutOfOrder(f"nobody can wait for that: {error}") from None
        _emit_task(batch, run, path, command_id, fact.name, payload, progress)
    return False


def _whole_patches(
    batch: Batch, progress: Progress, payload: dict[str, JSON]
) -> dict[str, JSON]:
    """A dotted key may lead into a value that is stored elsewhere (S-19, S-48)."""
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


def _check_child(
    batch: Batch,
    run: Run,
    path: Path,
    progress: Progress,
    payload: Mapping[str, JSON],
) -> None:
    """A child's id follows from who calls it: a worker that could choose would get the
    result of somebody else's execution (I-37)."""
    child = payload.get("child")
    if child is None:
        return
    execution_id, label = batch.state.execution_id, progress.label or ""
    action = ids.action_id(execution_id, run.id, label, path, progress.visits[label])
    if child.get("execution_id") != child_id(execution_id, action, progress.attempt):
        raise OutOfOrder(f"'{label}' calls an execution that is not its own")


def _emit_task(
    batch: Batch,
    run: Run,
    path: Path,
    command_id: str,
    name: str,
    payload: dict[str, JSON],
    progress: Progress,
) -> None:
    label = progress.label or ""
    visit = progress.visits[label]
    entity = ids.task_run_id(command_id, label, visit)
    if name == "task.started" and progress.started:
        payload = {"in_doubt": progress.in_doubt + 1}
    status: Status | None = None
    if name == "task.done":
        failed = payload["outcome"]["status"] == "error"
        skipped = payload["directive"]["do"] == "skip"
        status = "skipped" if skipped else "error" if failed else "success"
    batch.emit(
        name,
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


def _write_once(
    batch: Batch, run: Run, path: Path, label: str, payload: dict[str, JSON]
) -> dict[str, JSON]:
    """In a parallel loop a key of ctx is written once; equal values pass (S-21)."""
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
            "error": {**msgspec.to_builtins(failure), "task": label},
        }
    return payload


def _find_rival(run: Run, levels: Sequence[Loop], path: Path, key: str) -> str | None:
    """Who wrote the key, a part of it or what it is part of, and may run beside us.

    Two iterations part at one level of the loops; if that one is sequential they
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
