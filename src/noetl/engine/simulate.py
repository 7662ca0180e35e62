"""Simulation: a playbook with scripted outcomes and virtual time, without
infrastructure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from noetl.dsl.model import Playbook
from noetl.dsl.playbook_inputs import check_inputs, merge_inputs
from noetl.engine.decide import Request, accept, expire, reject, report
from noetl.engine.effects import effects_of
from noetl.engine.events import Event
from noetl.engine.evolve import evolve, replay
from noetl.engine.forks import Fork, Renaming, ask, is_firm, start_fork
from noetl.engine.recorder import Batch, Recorder
from noetl.engine.reports.accept import Fact, fit_facts
from noetl.engine.runs import Run, find_progress, iteration_id, pipelines
from noetl.engine.secrets.handles import Secrets
from noetl.engine.state import Frame, State
from noetl.engine.steps.completion import cancel
from noetl.engine.tasks.outcome import Meta, Outcome
from noetl.engine.tasks.pipeline import Call, Ended, Pipeline, Wait
from noetl.engine.times import NEVER, rfc3339
from noetl.engine.undone import Undone
from noetl.engine.values.in_memory import InMemoryBlobs
from noetl.engine.values.references import Values
from noetl.engine.waits.resume import answer_child
from noetl.engine.waits.signals import receive
from noetl.errors import NoetlError, Unloaded
from noetl.net.net import Net, build_net
from noetl.types import JSON

Choose = Callable[[int], int]
"""Chooses the next of ``count`` ready pipelines: the schedule, seeded or enumerated."""

_encode = msgspec.json.encode


class ScriptedOutcome(msgspec.Struct, frozen=True):
    """The scripted outcome of a call, and its duration in seconds; None: the worker is
    lost."""

    outcome: Outcome | None
    seconds: float = 0.0


Script = Callable[[Call], ScriptedOutcome | Outcome | None]
"""Returns the outcome of a call; None if the engine executes the kind itself."""


class RunningCall(msgspec.Struct):
    """A running call that ends at ``due``."""

    pipeline: Pipeline
    call: Call
    answer: ScriptedOutcome
    began: float

    @property
    def due(self) -> float:
        return self.began + self.answer.seconds


class Diverged(NoetlError):
    """Error: the state folded from the log differs from the live state."""


def _replay(events: Sequence[Event], undone: Undone | None) -> State:
    state = evolve(State(), events[0])
    state.undone = undone
    return replay(events[1:], state)


class Simulation:
    """One execution in memory; a pipeline moves one task at a time, in any order.

    The script is not called for kinds in ``unasked``: the engine executes them. With
    ``overlap`` the begin and the end of a call are two moves, with moves of other
    pipelines between them; without, only calls with a duration are two moves.
    """

    def __init__(
        self,
        playbook: Playbook,
        script: Script,
        *,
        choose: Choose = lambda count: 0,
        workload: dict[str, JSON] | None = None,
        execution_id: str = "sim",
        clock: float = 0.0,
        parent: dict[str, JSON] | None = None,
        net: Net | None = None,
        unasked: frozenset[str] = frozenset({"wait", "choose"}),
        secrets: Secrets | None = None,
    ) -> None:
        self.playbook = playbook
        self.net: Net = net or build_net(playbook)
        self.state = State()
        self.log: list[Event] = []
        self.size = 0  # bytes of the log and of its blobs
        self.clock = clock
        self._script = script
        self._choose = choose
        self._execution_id = execution_id
        self._parent = parent
        self._unasked = unasked
        self._due: dict[str, float] = {}
        self._timers: dict[str, float] = {}
        self._waited: dict[str, int] = {}
        self._flights: dict[str, RunningCall] = {}
        self._values = Values()
        self._secrets = secrets or Secrets()
        self._blobs = InMemoryBlobs(self.log)
        self._workload = merge_inputs(playbook, workload or {})
        self._task_runs = playbook.limits.task_runs

    # -- inputs ------------------------------------------------------------------

    def run(self) -> State:
        """Run to the end, or until nothing can move."""
        self.start()
        while self.step():
            pass
        return self.state

    def start(self) -> None:
        """Start the execution, or record that its inputs do not fit (S-72)."""
        about = {"name": self.playbook.name, "path": self.playbook.path}
        request = Request(
            self._execution_id, about, self._workload, parent=self._parent
        )
        wrong = check_inputs(self.playbook, self._workload)
        if wrong is not None:
            self._settle(lambda batch: reject(batch, request, wrong))
            return
        self._settle(lambda batch: accept(batch, request))

    def fork(self, origin: Sequence[Event], seq: int, **edits: JSON) -> int:
        """Continue from a point of another execution's log, instead of ``start``.

        Return the point, which may be a little before ``seq``. ``edits`` are those of
        the ``Fork``.
        """
        first = origin[0]
        about = {"name": self.playbook.name, "path": self.playbook.path}
        undone = edits.get("undone") or Undone.of(first)
        while not is_firm(_replay(origin[:seq], undone), origin[seq - 1]):
            seq -= 1
        if undone is not None:
            edits["undone"] = msgspec.structs.replace(undone, last=seq)
        fork = Fork(self._execution_id, first.execution_id, seq, about, **edits)
        recorder = Recorder(State(), self.clock)
        ask(recorder, fork, first)
        rename = Renaming(first.execution_id, self._execution_id).event
        self.log += [*recorder.events, *map(rename, origin[1:seq])]
        self.state = replay(self.log)
        self._settle(lambda batch: start_fork(batch, fork))
        return seq

    def signal(self, name: str, data: JSON = None) -> None:
        """Send a signal now. Raises ``SignalRefused``."""
        self._settle(lambda batch: receive(batch, name, data))

    def cancel(self, error: dict[str, JSON] | None = None) -> None:
        self._settle(lambda batch: cancel(batch, error))

    def answer(self, command_id: str, child_id: str, answer: JSON) -> None:
        """Record that a child of this execution has ended, or could not begin."""
        self._settle(lambda batch: answer_child(batch, command_id, child_id, answer))

    def whole(self, value: JSON) -> JSON:
        """Return a value without any reference, however deep."""
        return self._blobs.whole(value)

    # -- moves -------------------------------------------------------------------

    def step(self) -> bool:
        """Let one ready pipeline make one move, or time pass; False if neither can."""
        ready = list(self.ready())
        if ready:
            self.move(*ready[self._choose(len(ready))])
            return True
        moment = self.next_moment()
        if moment is None:
            return False
        self.pass_time(moment)
        return True

    def ready(self) -> Iterator[tuple[Run, tuple[int, ...]]]:
        """Yield the pipelines that can move now."""
        for run in self.state.runs.values():
            for path, _ in pipelines(run):
                command_id = iteration_id(run.id, path)
                flight = self._flights.get(command_id)
                if flight is not None:
                    if flight.due <= self.clock:
                        yield run, path
                elif command_id not in self._due:
                    yield run, path

    def next_moment(self) -> float | None:
        """Return the next time at which something is due, or None."""
        if self.state.finished:
            return None
        moments = [*self._due.values(), *self._timers.values()]
        moments += [flight.due for flight in self._flights.values()]
        moment = min(moments, default=NEVER)
        return max(self.clock, moment) if moment < NEVER else None

    def pass_time(self, moment: float) -> None:
        self.clock = moment
        self._due = {k: v for k, v in self._due.items() if v > self.clock}
        for timer in [k for k, v in self._timers.items() if v <= self.clock]:
            del self._timers[timer]
            self._settle(partial(expire, timer_id=timer))

    def move(self, run: Run, path: tuple[int, ...], *, overlap: bool = False) -> None:
        """Run one task, or half of it, with the pipeline code of a worker."""
        command_id = iteration_id(run.id, path)
        flight = self._flights.pop(command_id, None)
        if flight is not None:
            self._land(flight)
            return
        progress = find_progress(run, path)
        frame = Frame.of(self.state, run, path, self._task_runs)
        mine = progress.copy()
        if self._waited.get(command_id) == progress.tasks:
            mine.delay = 0.0  # this delay has passed; the log does not record it
        tasks = self.playbook.steps[run.step].tasks
        pipeline = Pipeline(tasks, frame, mine, self._values, self._secrets)
        match self._blobs.loaded(pipeline.next, self._values):
            case Wait(seconds):
                self._due[command_id] = self.clock + seconds
                self._waited[command_id] = progress.tasks
            case Call() as call:
                first = progress.tasks == 0 and not path and not progress.started
                facts = [Fact("step.started")] if first and not call.begun else []
                self._begin(pipeline, call, facts, overlap=overlap)
            case Ended():  # pragma: no cover: a pipeline that has ended is not open
                raise AssertionError("an ended pipeline is not ready")

    def _begin(
        self, pipeline: Pipeline, call: Call, facts: list[Fact], *, overlap: bool
    ) -> None:
        label, attempt = call.task.label, call.attempt
        if not call.begun:
            facts.append(Fact("task.started", label, attempt))
        asked: ScriptedOutcome | Outcome | dict[str, JSON] | None = call.outcome
        if asked is None and call.task.kind not in self._unasked:
            asked = self._script(call)
        if asked is None:
            asked = pipeline.suspension(call)
        if asked is None:
            raise ValueError(f"the script has no outcome for task '{label}'")
        if isinstance(asked, dict):
            facts.append(Fact("task.suspended", label, attempt, asked))
            self._report(call, facts)
            return
        answer = ScriptedOutcome(asked) if isinstance(asked, Outcome) else asked
        flight = RunningCall(pipeline, call, answer, self.clock)
        if not overlap and answer.seconds == 0.0 and answer.outcome is not None:
            self._land(flight, facts)
            return
        self._flights[_command_of(call)] = flight
        if facts:
            self._report(call, facts)

    def _land(self, flight: RunningCall, facts: Sequence[Fact] = ()) -> None:
        """End the call: its worker reports, or is lost and another takes over."""
        call, outcome = flight.call, flight.answer.outcome
        if outcome is None:
            self.recover()
            return
        meta = Meta(
            call.attempt,
            rfc3339(flight.began),
            rfc3339(self.clock),
            round((self.clock - flight.began) * 1000, 3),
            self.state.trace_id,
        )
        take = partial(flight.pipeline.take, outcome, meta)
        payload = self._blobs.loaded(take, self._values)
        done = Fact("task.done", call.task.label, call.attempt, payload)
        self._report(call, [*facts, done])

    def _report(self, call: Call, facts: Sequence[Fact]) -> None:
        fitted, blobs = fit_facts(facts)
        self._blobs.put(blobs)
        for key, body in blobs.items():
            self._values.put_encoded(key, body)
        self.size += sum(map(len, blobs.values()))
        self._settle(lambda batch: report(batch, _command_of(call), fitted))

    def recover(self) -> None:
        """Replace the state by a fold of the log. Raises ``Diverged``."""
        log = [
            msgspec.json.decode(_encode(event), type=Event, strict=True)
            for event in self.log
        ]
        folded = replay(log)
        if _encode(folded) != _encode(self.state):
            raise Diverged("the state folded from the log differs from the live state")
        self.state = folded

    # -- deciding ----------------------------------------------------------------

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
        while True:
            batch = self._batch()
            try:
                decide(batch)
                break
            except Unloaded as needed:
                self._blobs.put(batch.blobs)
                self._blobs.load(needed, self._values, batch.events)
                self.state = replay(self.log)  # discard changes that are not in the log
        self.log += batch.events
        self._blobs.put(batch.blobs)
        self.size += sum(map(len, (*batch.bodies, *batch.blobs.values())))
        effects = effects_of(batch.events)
        self._timers |= effects.timers
        for command_id in effects.over:  # no call of it runs any more
            self._flights.pop(command_id, None)
            self._due.pop(command_id, None)
            self._timers.pop(f"step:{command_id}", None)
        for command_id, due in effects.parked.items():
            self._due[command_id] = due
            if due <= self.clock:
                del self._due[command_id]
        if self.state.cancelling is not None:
            self._stop_calls()

    def _stop_calls(self) -> None:
        """Stop running calls; each reports its cancellation (S-38)."""
        stopped = Outcome.failed("cancelled", "the execution was cancelled")
        for flight in self._flights.values():
            flight.answer = ScriptedOutcome(stopped, self.clock - flight.began)


def _command_of(call: Call) -> str:
    return call.task_run_id.partition(":")[0]
