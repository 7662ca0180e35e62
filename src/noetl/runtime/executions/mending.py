"""The rows of an open execution, made again from what its log adds up to.

Commits write commands and timers together with the events that they follow from. A row
that is lost all the same, such as to a restored table, is made again when the execution
is resumed, or found to be stalled. Rows that are there stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.engine.effects import Effects
from noetl.engine.runs import iteration_id, pipelines
from noetl.engine.state import State
from noetl.engine.times import NEVER, seconds_of
from noetl.ports import Timer, Transition
from noetl.runtime.executions.loaded import LoadedExecution
from noetl.runtime.executions.placement import Placement
from noetl.runtime.executions.transition import ADMIT_TIMER


def deadlines_of(state: State) -> Iterator[tuple[str, float]]:
    """Yield the timers that an open execution has: their names and due times."""
    if state.finished:
        return
    if state.deadline is not None:
        yield "execution", seconds_of(state.deadline)
    for run in state.runs.values():
        if run.deadline is not None and not run.ended:
            yield f"step:{run.id}", seconds_of(run.deadline)


def open_commands(state: State) -> Effects:
    """Return the commands of all open pipelines, and the children that they await."""
    effects = Effects()
    for run in state.runs.values():
        for path, progress in pipelines(run):
            name, waiting = iteration_id(run.id, path), progress.waiting
            if waiting is None or waiting.answer is not None:
                effects.ready.append(name)
                continue
            until = waiting.until
            effects.parked[name] = NEVER if until is None else seconds_of(until)
            if waiting.child is not None:
                effects.children[name] = waiting.child
    return effects


def with_lost_rows(
    transition: Transition, loaded: LoadedExecution, placement: Placement, now: float
) -> Transition:
    """Return the transition with all commands and timers that the execution must have;
    the store ignores those that it has."""
    state = loaded.state
    if state.finished:
        return transition
    effects, commands = open_commands(state), transition.commands
    touched = {command.command_id for command in commands.planned}
    touched.update(commands.ended, commands.released)
    planned = [
        command
        for command in placement.plan(loaded, effects)
        if command.command_id not in touched
    ]
    timers = transition.timers
    named = {timer.timer_id for timer in timers.armed} | set(timers.disarmed)
    armed = [
        timer
        for timer in _timers(state, effects, placement, now)
        if timer.timer_id not in named
    ]
    replace = msgspec.structs.replace
    return replace(
        transition,
        commands=replace(commands, planned=[*commands.planned, *planned]),
        timers=replace(timers, armed=[*timers.armed, *armed]),
    )


def _timers(
    state: State, effects: Effects, placement: Placement, now: float
) -> Iterator[Timer]:
    name = state.execution_id
    if state.status == "running" and state.cancelling is None:
        for timer_id, due in deadlines_of(state):
            yield Timer(name, timer_id, due, "deadline")
    if placement.shared:  # a child may have ended in the meantime
        for command_id in effects.children:
            yield Timer(name, f"child:{command_id}", now, "family")
    if state.queued is not None:
        yield Timer(name, ADMIT_TIMER, now, "place")
