"""A playbook, scripted outcomes, virtual time: the engine without infrastructure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from noetl.dsl.merge import deep_merge
from noetl.dsl.model import Playbook
from noetl.engine import ids
from noetl.engine.batch import Batch
from noetl.engine.decide import Request, accept, report
from noetl.engine.events import Event
from noetl.engine.limits import limits_of
from noetl.engine.outcome import Meta, Outcome
from noetl.engine.pipeline import Call, Ended, Frame, Pipeline, Wait
from noetl.engine.reports import Fact
from noetl.engine.runs import pipelines
from noetl.engine.state import Run, State
from noetl.net.net import Net, build_net
from noetl.types import JSON

Script = Callable[[Call], Outcome]
Choose = Callable[[int], int]
"""Which of so many ready pipelines moves next: the schedule, seeded or enumerated."""


class Simulation:
    """One execution in memory; a pipeline moves one task at a time, in any order."""

    def __init__(
        self,
        playbook: Playbook,
        script: Script,
        *,
        choose: Choose = lambda count: 0,
        workload: dict[str, JSON] | None = None,
        execution_id: str = "sim",
    ) -> None:
        self.playbook = playbook
        self.net: Net = build_net(playbook)
        self.state = State()
        self.log: list[Event] = []
        self.clock = 0.0
        self._script = script
        self._choose = choose
        self._execution_id = execution_id
        self._due: dict[str, float] = {}
        self._waited: dict[str, int] = {}
        self._workload = deep_merge(dict(playbook.workload), workload or {})

    def run(self) -> State:
        """To the end, or until nothing can move."""
        self.start()
        while self.step():
            pass
        return self.state

    def start(self) -> None:
        about = {"name": self.playbook.name, "path": self.playbook.path}
        request = Request(self._execution_id, about, self._workload)
        with_batch = self._batch()
        accept(with_batch, request)
        self.log += with_batch.events

    def step(self) -> bool:
        """Let one ready pipeline run one task; False if there is none."""
        ready = list(self._ready())
        if not ready:
            if not self._due:
                return False
            self.clock = min(self._due.values())
            self._due = {k: v for k, v in self._due.items() if v > self.clock}
            return True
        run, path = ready[self._choose(len(ready))]
        self._move(run, path)
        return True

    def _ready(self) -> Iterator[tuple[Run, tuple[int, ...]]]:
        for run in self.state.runs.values():
            for path, _ in pipelines(run):
                if ids.iteration_id(run.id, path) not in self._due:
                    yield run, path

    def _batch(self) -> Batch:
        return Batch(self.playbook, self.net, self.state, f"T+{self.clock:.3f}")

    def _move(self, run: Run, path: tuple[int, ...]) -> None:
        """One task: the same pipeline code that a worker runs."""
        state = self.state
        progress = dict(pipelines(run))[path]
        frame = Frame(
            state.execution_id,
            state.started_at,
            run.step,
            run.id,
            path,
            run.args,
            state.ctx,
            state.workload,
            limits_of(self.playbook).task_runs,
        )
        copied = msgspec.convert(msgspec.to_builtins(progress), type(progress))
        if self._waited.get(frame.command_id) == progress.tasks:
            copied.delay = 0.0  # this wait is over; the log knows nothing of clocks
        pipeline = Pipeline(self.playbook.steps[run.step].tasks, frame, copied)
        match pipeline.next():
            case Wait(seconds):
                self._due[frame.command_id] = self.clock + seconds
                self._waited[frame.command_id] = progress.tasks
            case Call() as call:
                outcome = call.outcome or self._script(call)
                meta = Meta(call.attempt, "", "", 0.0)
                payload = pipeline.take(outcome, meta)
                label = call.task.label
                facts = [
                    Fact("task.started", label, call.attempt),
                    Fact("task.done", label, call.attempt, payload),
                ]
                if progress.tasks == 0 and not path:
                    facts.insert(0, Fact("step.started"))
                batch = self._batch()
                report(batch, frame.command_id, facts)
                self.log += batch.events
            case Ended():
                raise AssertionError("an ended pipeline is not ready")
