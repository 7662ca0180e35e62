"""What a run of a case left behind: its log, its end, its calls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec

from noetl.dsl.model import Playbook
from noetl.engine.events import Event
from noetl.engine.runs import path_of, status_of
from noetl.engine.state import State
from noetl.testing.names import TaskName
from noetl.testing.script import Made
from noetl.types import JSON


class Observation(msgspec.Struct, frozen=True, dict=True):
    """``made`` are the calls of the playbook under test, ``others`` the children:
    each with its playbook."""

    playbook: Playbook
    state: State
    result: JSON
    ctx: dict[str, JSON]
    log: Sequence[Event]
    made: Sequence[Made]
    seconds: float
    others: Sequence[tuple[Playbook, Sequence[Event]]] = ()

    @property
    def status(self) -> str:
        return status_of(self.state)

    @cached_property
    def path(self) -> list[str]:
        """The steps that ran, in the order of their admission."""
        return [each.step or "" for each in self.log if each.name == "step.scheduled"]

    def inputs(self, task: TaskName) -> list[dict[str, JSON]]:
        return [each.inputs for each in self.made if each.task == task]

    @cached_property
    def begun(self) -> set[TaskName]:
        """Tasks that were started, called or not."""
        return {
            (each.step or "", each.task_label or "")
            for each in self.log
            if each.name == "task.started"
        }

    def iterations(self, step: str) -> dict[str, int]:
        """Of the outermost loop, all runs of the step together."""
        counts = {"total": 0, "done": 0, "failed": 0, "skipped": 0}
        for event in self.log:
            if event.step != step:
                continue
            depth = len(path_of(event.iteration_id))
            if event.name == "loop.started" and depth == 0:
                counts["total"] += event.payload["total"]
            elif event.name == "loop.iteration.done" and depth == 1:
                counts["done"] += 1
            elif event.name == "loop.iteration.failed" and depth == 1:
                counts["failed"] += 1
        counts["skipped"] = counts["total"] - counts["done"] - counts["failed"]
        return counts
