"""Finding one's way inside a run: its loops, iterations and pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from noetl.engine import ids
from noetl.engine.ids import Path
from noetl.engine.progress import Progress
from noetl.engine.state import ExecutionStatus, LoopState, Run, State


@lru_cache(maxsize=4_096)  # decisions, folds and work ask for the same ones
def path_of(iteration_id: str | None) -> Path:
    """The indices in an iteration's id."""
    if iteration_id is None:
        return ()
    return tuple([int(part) for part in iteration_id.split("/")[1:]])


def run_of(command_id: str) -> str:
    """The id of the step run that a command belongs to."""
    return command_id.partition("/")[0]


def find_loop(run: Run, path: Path) -> LoopState:
    """The loop instance that an iteration path leads into."""
    loop = run.loop
    for index in path:
        assert loop is not None
        loop = loop.open[index].loop
    assert loop is not None
    return loop


def find_progress(run: Run, path: Path) -> Progress:
    """The pipeline of a run, or of the iteration that the path names."""
    progress = run.progress
    if path:
        progress = find_loop(run, path[:-1]).open[path[-1]].progress
    assert progress is not None
    return progress


def is_open(run: Run, path: Path) -> bool:
    """Whether the path leads to a pipeline that has not ended."""
    loop, progress = run.loop, run.progress
    for index in path:
        iteration = loop.open.get(index) if loop is not None else None
        if iteration is None:
            return False
        loop, progress = iteration.loop, iteration.progress
    return progress is not None


def is_pending(state: State, command_id: str) -> bool:
    """Whether the command's pipeline has still something to do."""
    run = state.runs.get(command_id.split("/")[0])
    return run is not None and is_open(run, path_of(command_id))


def loop_paths(run: Run) -> Iterator[Path]:
    """Every open loop of a run, each before those inside it."""
    if run.loop is not None:
        yield ()
        yield from _loops_inside(run.loop, ())


def _loops_inside(loop: LoopState, path: Path) -> Iterator[Path]:
    for index, iteration in loop.open.items():
        if iteration.loop is not None:
            yield (*path, index)
            yield from _loops_inside(iteration.loop, (*path, index))


def pipelines(run: Run) -> Iterator[tuple[Path, Progress]]:
    """Every open pipeline of a run, with the path that leads to it."""
    if run.progress is not None:
        yield (), run.progress
    if run.loop is not None:
        yield from _inside(run.loop, ())


def _inside(loop: LoopState, path: Path) -> Iterator[tuple[Path, Progress]]:
    for index, iteration in loop.open.items():
        here = (*path, index)
        if iteration.progress is not None:
            yield here, iteration.progress
        if iteration.loop is not None:
            yield from _inside(iteration.loop, here)


def is_waiting(state: State) -> bool:
    """Whether everything that is open waits for a time, a signal or a child."""
    if not state.suspended or state.tokens:
        return False
    open_pipelines = sum(1 for run in state.runs.values() for _ in pipelines(run))
    return open_pipelines == len(state.suspended)


def status_of(state: State) -> ExecutionStatus:
    """The status as people see it."""
    if state.status == "running" and (state.queued is not None or is_waiting(state)):
        return "waiting"
    return state.status


def commands_of(state: State) -> Iterator[str]:
    """The names of all pipelines that are open."""
    for run in state.runs.values():
        for path, _ in pipelines(run):
            yield ids.iteration_id(run.id, path)
