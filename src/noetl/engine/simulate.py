"""A playbook, scripted outcomes, virtual time: the engine without infrastructure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from noetl.dsl.merge import deep_merge
from noetl.dsl.model import Playbook
from noetl.engine import ids
from noetl.engine.batch import Batch
from noetl.engine.decide import Request, accept, expire, report
from noetl.engine.effects import effects_of
from noetl.engine.events import Event
from noetl.engine.limits import limits_of
from noetl.engine.outcome import Meta, Outcome
from noetl.engine.pipeline import Call, Ended, Frame, Pipeline, Wait
from noetl.engine.references import Values
from noetl.engine.reports import Fact
from noetl.engine.runs import find_progress, pipelines
from noetl.engine.secrets import Secrets
from noetl.engine.state import Run, State
from noetl.engine.times import NEVER
from noetl.engine.waits import receive
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
        secrets: Secrets | None = None,
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
        self._timers: dict[str, float] = {}
        self._waited: dict[str, int] = {}
        self._values = Values()
        self._secrets = secrets or Secrets()
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
        self._settle(lambda batch: accept(batch, request))

    def signal(self, name: str, data: JSON = None) -> None:
        """Somebody sends a signal now."""
        self._settle(lambda batch: receive(batch, name, data))

    def step(self) -> bool:
        """Let one ready pipeline run one task, or time pass; False if neither can."""
        ready = list(self._ready())
        if ready:
            self._move(*ready[self._choose(len(ready))])
            return True
        moments = [*self._due.values(), *self._timers.values()]
        if not moments or min(moments) >= NEVER or self.state.finished:
            return False
        self.clock = max(self.clock, min(moments))
        self._due = {k: v for k, v in self._due.items() if v > self.clock}
        for timer in [k for k, v in self._timers.items() if v <= self.clock]:
            del self._timers[timer]
            self._settle(partial(expire, timer_id=timer))
        return True

    def _ready(self) -> Iterator[tuple[Run, tuple[int, ...]]]:
        for run in self.state.runs.values():
            for path, _ in pipelines(run):
                if ids.iteration_id(run.id, path) not in self._due:
                    yield run, path

    def _batch(self) -> Batch:
        return Batch(
            self.playbook,
            self.net,
            self.state,
            self.clock,
            self._values,
            self._secrets,
        )

    def _settle(self, decide: Callable[[Batch], object]) -> None:
        batch = self._batch()
        decide(batch)
        self.log += batch.events
        effects = effects_of(batch.events)
        self._timers |= effects.timers
        for command_id, due in effects.parked.items():
            self._due[command_id] = due
            if due <= self.clock:
                del self._due[command_id]

    def _move(self, run: Run, path: tuple[int, ...]) -> None:
        """One task: the same pipeline code that a worker runs."""
        state = self.state
        progress = find_progress(run, path)
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
            state.trace_id,
            state.spilled,
        )
        mine = progress.copy()
        if self._waited.get(frame.command_id) == progress.tasks:
            mine.delay = 0.0  # this wait is over; the log knows nothing of clocks
        tasks = self.playbook.steps[run.step].tasks
        pipeline = Pipeline(tasks, frame, mine, self._values, self._secrets)
        match pipeline.next():
            case Wait(seconds):
                self._due[frame.command_id] = self.clock + seconds
                self._waited[frame.command_id] = progress.tasks
            case Call() as call:
                facts = self._perform(pipeline, call)
                if progress.tasks == 0 and not path and not call.begun:
                    facts.insert(0, Fact("step.started"))
                self._settle(lambda batch: report(batch, frame.command_id, facts))
            case Ended():
                raise AssertionError("an ended pipeline is not ready")

    def _perform(self, pipeline: Pipeline, call: Call) -> list[Fact]:
        label, attempt = call.task.label, call.attempt
        facts = [] if call.begun else [Fact("task.started", label, attempt)]
        outcome = call.outcome
        if outcome is None and call.task.kind == "wait":
            asked = pipeline.suspension(call)
            if isinstance(asked, dict):
                return [*facts, Fact("task.suspended", label, attempt, asked)]
            outcome = asked
        outcome = outcome or self._script(call)
        payload = pipeline.take(outcome, Meta(call.attempt, "", "", 0.0))
        return [*facts, Fact("task.done", label, attempt, payload)]
