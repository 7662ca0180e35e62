"""Which signals an execution can still take: what waits now, and what may wait later.

A signal that comes early is kept for its wait; one that no wait can take any more is
refused while its sender still listens. Guards are not asked: rather keep one too many.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.dsl.model import Step, Task
from noetl.dsl.schemas import find_flaws
from noetl.engine.batch import Batch
from noetl.engine.runs import pipelines
from noetl.engine.state import Run
from noetl.engine.times import seconds_of
from noetl.engine.waits import waiting_in
from noetl.net.walks import explore
from noetl.types import JSON


class Taker(msgspec.Struct, frozen=True):
    """A wait for a signal. ``command_id`` if it waits now; ``name`` is None if only a
    template knows it."""

    name: str | None
    schema: JSON = None
    roles: list[str] | None = None
    command_id: str | None = None


def present_takers(batch: Batch) -> Iterator[Taker]:
    """Pipelines that wait for a signal and whose time is not over."""
    for command_id, _, waiting in waiting_in(batch.state):
        if waiting.on == "event":  # its guards decide, whatever the name
            yield Taker(None)
        if waiting.on != "signal":
            continue
        if waiting.until is None or seconds_of(waiting.until) > batch.clock:
            yield Taker(waiting.signal, waiting.schema, waiting.roles, command_id)


def later_takers(batch: Batch) -> Iterator[Taker]:
    """Waits that the execution may still come to."""
    state, steps = batch.state, batch.net.steps
    begun = [run for run in state.runs.values() if run.step in steps]
    coming = {token.step for token in state.tokens.values()} | set(state.joining)
    coming |= {after for run in begun for after in batch.net.successors(run.step)}
    reachable = explore(coming & steps.keys(), batch.net.successors)
    for name in reachable:
        yield from _takers(steps[name].tasks)
    for run in begun:
        if run.step not in reachable:
            yield from _takers(_tasks_left(steps[run.step], run))


def declared_names(batch: Batch) -> set[str]:
    """All signals that the playbook names."""
    every = [task for step in batch.net.steps.values() for task in step.tasks]
    return {taker.name for taker in _takers(every) if taker.name is not None}


def _tasks_left(step: Step, run: Run) -> list[Task]:
    """Those that its pipelines may still begin; all, if a rule or a loop leads back."""
    back = any(
        rule.then.do in ("retry", "jump") for t in step.tasks for rule in t.rules or ()
    )
    if back or run.loop is not None:
        return list(step.tasks)
    left: list[Task] = []
    labels = [task.label for task in step.tasks]
    for _, progress in pipelines(run):
        if progress.label in labels:
            begun = progress.waiting is not None
            left += step.tasks[labels.index(progress.label) + begun :]
    return left


def _takers(tasks: list[Task] | tuple[Task, ...]) -> Iterator[Taker]:
    for task in tasks:
        if task.kind == "choose" and task.literals.get("wait"):
            yield Taker(None)
        if task.kind == "wait" and "signal" in task.inputs:
            name, schema = _literal(task, "signal"), _literal(task, "schema")
            roles = _literal(task, "roles")
            if schema is not None and find_flaws(schema):
                schema = None
            yield Taker(name, schema, roles if isinstance(roles, list) else None)


def _literal(task: Task, name: str) -> JSON:
    """What the author wrote; None for what is not known before it is rendered."""
    value = task.inputs.get(name)
    return value.render({}) if value is not None and value.literal else None
