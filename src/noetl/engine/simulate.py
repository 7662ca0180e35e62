"""A playbook, scripted outcomes, virtual time: the engine without infrastructure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from noetl.dsl.merge import deep_merge
from noetl.dsl.model import Playbook
from noetl.engine import ids
from noetl.engine.batch import Batch, Recorder
from noetl.engine.cancellation import cancel
from noetl.engine.decide import Request, accept, expire, report
from noetl.engine.effects import effects_of
from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.engine.forking import Fork, ask, go_apart, is_firm
from noetl.engine.limits import limits_of
from noetl.engine.outcome import Meta, Outcome
from noetl.engine.pipeline import Call, Ended, Frame, Pipeline, Wait
from noetl.engine.references import Values
from noetl.engine.renaming import Renaming
from noetl.engine.reports import Fact, fit_facts
from noetl.engine.runs import find_progress, pipelines
from noetl.engine.secrets import Secrets
from noetl.engine.shelf import Shelf
from noetl.engine.signals import receive
from noetl.engine.state import Run, State
from noetl.engine.times import NEVER, rfc3339
from noetl.engine.waits import answer_child
from noetl.errors import NoetlError, Unloaded
from noetl.net.net import Net, build_net
from noetl.types import JSON

Choose = Callable[[int], int]
"""Which of so many ready pipelines moves next: the schedule, seeded or enumerated."""

_encode = msgspec.json.encode


class Answer(msgspec.Struct, frozen=True):
    """What a call comes to after so many seconds; no outcome: its worker is lost."""

    outcome: Outcome | None
    seconds: float = 0.0


Script = Callable[[Call], Answer | Outcome | None]
"""What a call comes to. None: it is the engine's own business (a wait, a child)."""


class Flight(msgspec.Struct):
    """A call that has begun and is not over until ``due``."""

    pipeline: Pipeline
    call: Call
    answer: Answer
    began: float

    @property
    def due(self) -> float:
        return self.began + self.answer.seconds


class Diverged(NoetlError):
    """The log, folded again, gave another state than the one that lived."""


class Simulation:
    """One execution in memory; a pipeline moves one task at a time, in any order.

    The script is not asked about kinds that are ``unasked``: the engine has its way.
    With ``overlap`` the begin of a call and its end are two moves, and those of other
    pipelines may come between them; without, only a call that takes time is two.
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
        self.size = 0  # bytes of the log, with what was too large for it
        self.clock = clock
        self._script = script
        self._choose = choose
        self._execution_id = execution_id
        self._parent = parent
        self._unasked = unasked
        self._due: dict[str, float] = {}
        self._timers: dict[str, float] = {}
        self._waited: dict[str, int] = {}
        self._flights: dict[str, Flight] = {}
        self._values = Values()
        self._secrets = secrets or Secrets()
        self._shelf = Shelf(self.log)
        self._workload = deep_merge(dict(playbook.workload), workload or {})
        self._task_runs = limits_of(playbook).task_runs

    # -- what happens to it ------------------------------------------------------

    def run(self) -> State:
        """To the end, or until nothing can move."""
        self.start()
        while self.step():
            pass
        return self.state

    def start(self) -> None:
        about = {"name": self.playbook.name, "path": self.playbook.path}
        request = Request(
            self._execution_id, about, self._workload, parent=self._parent
        )
        self._settle(lambda batch: accept(batch, request))

    def fork(self, origin: Sequence[Event], seq: int, **edits: JSON) -> int:
        """Instead of ``start``: go on from a point of another execution's log.

        It may be a little before ``seq``: which point it was. ``edits`` are those of
        the ``Fork``.
        """
        first = origin[0]
        about = {"name": self.playbook.name, "path": self.playbook.path}
        while not is_firm(replay(origin[:seq]), origin[seq - 1]):
            seq -= 1
        fork = Fork(self._execution_id, first.execution_id, seq, about, **edits)
        recorder = Recorder(State(), self.clock)
        ask(recorder, fork, first)
        rename = Renaming(first.execution_id, self._execution_id).event
        self.log += [*recorder.events, *map(rename, origin[1:seq])]
        self.state = replay(self.log)
        self._settle(lambda batch: go_apart(batch, fork))
        return seq

    def signal(self, name: str, data: JSON = None) -> None:
        """Somebody sends a signal now. Raises ``SignalRefused``."""
        self._settle(lambda batch: receive(batch, name, data))

    def cancel(self, error: dict[str, JSON] | None = None) -> None:
        self._settle(lambda batch: cancel(batch, error))

    def answer(self, command_id: str, child_id: str, answer: JSON) -> None:
        """A child of this execution has ended, or could not begin."""
        self._settle(lambda batch: answer_child(batch, command_id, child_id, answer))

    def whole(self, value: JSON) -> JSON:
        """A value of it without any reference, however deep."""
        return self._shelf.whole(value)

    # -- what it does ------------------------------------------------------------

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
        """The pipelines that can move now."""
        for run in self.state.runs.values():
            for path, _ in pipelines(run):
                command_id = ids.iteration_id(run.id, path)
                flight = self._flights.get(command_id)
                if flight is not None:
                    if flight.due <= self.clock:
                        yield run, path
                elif command_id not in self._due:
                    yield run, path

    def next_moment(self) -> float | None:
        """When something is due, if time alone can bring it on."""
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
        """One task, or a half of it: the same pipeline code that a worker runs."""
        flight = self._flights.pop(ids.iteration_id(run.id, path), None)
        if flight is not None:
            self._land(flight)
            return
        progress = find_progress(run, path)
        frame = self._frame(run, path)
        mine = progress.copy()
        if self._waited.get(frame.command_id) == progress.tasks:
            mine.delay = 0.0  # this wait is over; the log knows nothing of clocks
        tasks = self.playbook.steps[run.step].tasks
        pipeline = Pipeline(tasks, frame, mine, self._values, self._secrets)
        match self._shelf.loaded(pipeline.next, self._values):
            case Wait(seconds):
                self._due[frame.command_id] = self.clock + seconds
                self._waited[frame.command_id] = progress.tasks
            case Call() as call:
                first = progress.tasks == 0 and not path and not progress.started
                facts = [Fact("step.started")] if first and not call.begun else []
                self._begin(pipeline, call, facts, overlap=overlap)
            case Ended():
                raise AssertionError("an ended pipeline is not ready")

    def _frame(self, run: Run, path: tuple[int, ...]) -> Frame:
        state = self.state
        return Frame(
            state.execution_id,
            state.began_at,
            run.step,
            run.id,
            path,
            run.args,
            state.ctx,
            state.workload,
            self._task_runs,
            state.trace_id,
            state.spilled,
        )

    def _begin(
        self, pipeline: Pipeline, call: Call, facts: list[Fact], *, overlap: bool
    ) -> None:
        label, attempt = call.task.label, call.attempt
        if not call.begun:
            facts.append(Fact("task.started", label, attempt))
        asked: Answer | Outcome | dict[str, JSON] | None = call.outcome
        if asked is None and call.task.kind not in self._unasked:
            asked = self._script(call)
        if asked is None:
            asked = pipeline.suspension(call)
        if asked is None:
            raise ValueError(f"nothing says what task '{label}' comes to")
        if isinstance(asked, dict):
            facts.append(Fact("task.suspended", label, attempt, asked))
            self._report(call, facts)
            return
        answer = Answer(asked) if isinstance(asked, Outcome) else asked
        flight = Flight(pipeline, call, answer, self.clock)
        if not overlap and answer.seconds == 0.0 and answer.outcome is not None:
            self._land(flight, facts)
            return
        self._flights[_command_of(call)] = flight
        if facts:
            self._report(call, facts)

    def _land(self, flight: Flight, facts: Sequence[Fact] = ()) -> None:
        """The call is over: its worker reports, or is gone and another takes over."""
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
        payload = self._shelf.loaded(take, self._values)
        done = Fact("task.done", call.task.label, call.attempt, payload)
        self._report(call, [*facts, done])

    def _report(self, call: Call, facts: Sequence[Fact]) -> None:
        fitted, blobs = fit_facts(facts)
        self._shelf.put(blobs)
        for key, body in blobs.items():
            self._values.put_encoded(key, body)
        self.size += sum(map(len, blobs.values()))
        self._settle(lambda batch: report(batch, _command_of(call), fitted))

    def recover(self) -> None:
        """A new owner has the log and nothing else. Raises ``Diverged``."""
        log = [
            msgspec.json.decode(_encode(event), type=Event, strict=True)
            for event in self.log
        ]
        folded = replay(log)
        if _encode(folded) != _encode(self.state):
            raise Diverged("the state folded from the log is not the one that lived")
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
                self._shelf.put(batch.blobs)
                self._shelf.load(needed, self._values, batch.events)
                self.state = replay(self.log)  # it ran ahead of the log
        self.log += batch.events
        self._shelf.put(batch.blobs)
        self.size += sum(map(len, (*batch.bodies, *batch.blobs.values())))
        effects = effects_of(batch.events)
        self._timers |= effects.timers
        for command_id in effects.over:  # nobody waits for it any more
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
        """Tools are stopped, and say so (S-38)."""
        stopped = Outcome.failed("cancelled", "the execution was cancelled")
        for flight in self._flights.values():
            flight.answer = Answer(stopped, self.clock - flight.began)


def _command_of(call: Call) -> str:
    return call.task_run_id.partition(":")[0]
