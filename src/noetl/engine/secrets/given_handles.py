"""Handles of secrets that a report of a remote worker may hold (S-41).

A worker sees the handles in all of ``ctx`` and ``workload``, and gets only the secrets
that its step can read. If it could report another handle, a later step would open it
and send the secret wherever it sends the worker's data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b

import msgspec

from noetl.dsl.model import Task
from noetl.engine.recorder import Batch
from noetl.engine.reports.accept import Fact
from noetl.engine.runs import Command, Progress
from noetl.engine.secrets.redaction import MASK
from noetl.engine.secrets.task_requests import parts_read
from noetl.engine.state import State
from noetl.engine.values.references import is_handle, mappings_in
from noetl.errors import TemplateError
from noetl.types import JSON


def name_for(random: str, execution_id: str, step: str) -> str:
    """Return the name of a secret fetched by a task of this step: 16 hexadecimal digits
    that are ``random``, and 16 that identify execution and step."""
    text = "\n".join((random, execution_id, step)).encode()
    return random + blake2b(text, digest_size=8).hexdigest()


def is_for(name: str, execution_id: str, step: str) -> bool:
    """Return whether a task of this step fetched the secret of this name.

    Such a name can be forged; a secret exists only for names that a server made.
    """
    return name == name_for(name[:16], execution_id, step)


def carried_by(
    tasks: Sequence[Task],
    args: JSON,
    progress: Progress,
    ctx: dict[str, JSON],
    workload: dict[str, JSON],
) -> list[JSON]:
    """Return the values whose secrets a pipeline may use: the values that it carries,
    and those that its tasks read of ``ctx`` and ``workload``."""
    carried: list[JSON] = [args, progress.prev, progress.iter, progress.result]
    carried.append(progress.outcomes)
    if progress.waiting is not None:
        carried.append(progress.waiting.answer)
    carried += parts_read(tasks, "ctx", ctx)
    carried += parts_read(tasks, "workload", workload)
    return carried


def carried_in(state: State, tasks: Sequence[Task], command: Command) -> list[JSON]:
    """Return the values whose secrets a pipeline may use, from the current state."""
    args, progress = command.run.args, command.progress
    return carried_by(tasks, args, progress, state.ctx, state.workload)


def names_in(value: JSON) -> Iterator[str]:
    """Yield the names in all handles of a value, whether the secret exists or not."""
    return (each["secret"] for each in mappings_in(value) if is_handle(each))


def mask_foreign(
    batch: Batch, command: Command, facts: Sequence[Fact]
) -> Sequence[Fact]:
    """Return the facts with a mask for each handle that the pipeline was not given.

    Handles are rare: the values that the pipeline was given are computed only if there
    are some. Raises ``Unloaded``.
    """
    state, step = batch.state, command.run.step
    named = set(names_in([fact.payload for fact in facts]))
    foreign = {n for n in named if not is_for(n, state.execution_id, step)}
    if not foreign:
        return facts
    carried = carried_in(state, batch.playbook.steps[step].tasks, command)
    foreign.difference_update(names_in(carried))
    if foreign and state.spilled:
        foreign.difference_update(names_in(_loaded(batch, carried)))
    if not foreign:
        return facts
    return [
        msgspec.structs.replace(fact, payload=_masked(fact.payload, foreign))
        for fact in facts
    ]


def _loaded(batch: Batch, carried: list[JSON]) -> list[JSON]:
    """Return the values that a template could read, without references."""
    found = []
    for value in carried:
        try:
            found.append(batch.values.begin().whole(value))
        except TemplateError:
            continue  # too large or of another execution: no template can read it
    return found


def _masked(value: JSON, foreign: Collection[str]) -> JSON:
    if is_handle(value) and value["secret"] in foreign:
        return MASK
    if isinstance(value, dict):
        return {key: _masked(item, foreign) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, foreign) for item in value]
    return value
