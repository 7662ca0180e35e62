"""Whether an execution that is under way can go on with a newer playbook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.model import Playbook, Step
from noetl.engine.runs import loop_paths, pipelines
from noetl.engine.state import Run, State


def find_obstacles(
    playbook: Playbook, state: State, again: Iterable[str] = ()
) -> list[str]:
    """Why not, a sentence each. What is over is no obstacle: its steps may be gone.

    ``again`` are steps that shall begin again.
    """
    return list(dict.fromkeys(_obstacles(playbook, state, again)))


def _obstacles(playbook: Playbook, state: State, again: Iterable[str]) -> Iterator[str]:
    steps = playbook.steps
    for name in again:
        if name not in steps:
            yield _missing(playbook, name, "it shall begin again")
    for token in state.tokens.values():
        if token.step not in steps:
            yield _missing(playbook, token.step, "a token waits for it")
    for name in state.joining:
        if name not in steps:
            yield _missing(playbook, name, "tokens wait there for others")
        elif steps[name].join is None:
            yield f"step '{name}' has no join any more, and tokens wait in it"
    for run in state.runs.values():
        if run.step not in steps:
            yield _missing(playbook, run.step, "it is under way")
        else:
            yield from _changes(steps[run.step], run)


def _missing(playbook: Playbook, name: str, why: str) -> str:
    hint = did_you_mean(name, playbook.steps)
    return f"there is no step '{name}' any more, and {why}" + (
        f" ({hint})" if hint else ""
    )


def _changes(step: Step, run: Run) -> Iterator[str]:
    name, depth = step.name, len(list(step.loop.levels())) if step.loop else 0
    if not step.tasks:
        yield f"step '{name}' has no task any more, and it is under way"
        return
    if bool(depth) != (run.loop is not None):
        words = ("no loop", "a loop")
        was, now = words[run.loop is not None], words[bool(depth)]
        yield f"step '{name}' is under way with {was}, and has {now} now"
        return
    if any(len(path) >= depth for path in loop_paths(run)):
        yield f"step '{name}' is under way with more loops than the {depth} it has now"
        return
    labels = [task.label for task in step.tasks]
    for path, progress in pipelines(run):
        if len(path) != depth:
            yield f"step '{name}' is under way with {len(path)} loops, and has {depth}"
        elif progress.tasks and progress.label not in [None, *labels]:
            hint = did_you_mean(progress.label or "", labels)
            yield (
                f"step '{name}' has no task '{progress.label}' any more, which is the "
                "next one in it" + (f" ({hint})" if hint else "")
            )
