"""Execution and its child executions, in one virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from noetl.engine.runs import Run, path_of
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Failure
from noetl.engine.waits.resume import children_of, waiting_in
from noetl.engine.waits.suspend import MAX_DEPTH
from noetl.errors import SignalRefused
from noetl.testing.model import Signal
from noetl.testing.script import ScriptError
from noetl.types import JSON

_MASK = (1 << 64) - 1


class Schedule:
    """SplitMix64: the same on every machine and in every version of Python.

    Number 0 always moves the first pipeline: the order of the playbook.
    """

    def __init__(self, seed: int) -> None:
        self.free = False  # whether it ever had a choice
        self._ordered = seed == 0
        self._state = seed * 0x9E3779B97F4A7C15 & _MASK

    def choose(self, count: int) -> int:
        """Return a number below ``count``."""
        self.free = self.free or count > 1
        if self._ordered or count == 1:
            return 0
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
        return (mixed ^ mixed >> 31) % count


MAX_MOVES = 10_000
MAX_BYTES = 64 * 1024 * 1024
"""Limits of one run, in moves and in bytes of its log."""


class Member(msgspec.Struct):
    """Execution; ``command_id`` is the pipeline of ``parent`` that waits for it."""

    simulation: Simulation
    origin: tuple[int, ...] = ()
    parent: Member | None = None
    command_id: str = ""


Adopt = Callable[[dict[str, JSON], Member, str], Simulation | Failure]
"""The execution of a child's request, or the error that prevents it."""


class Endless(Exception):
    """Run that exceeds the limit of moves or bytes."""


class Family:
    """Moves one pipeline of any member at a time, as the schedule decides."""

    def __init__(
        self,
        root: Simulation,
        adopt: Adopt,
        schedule: Schedule,
        signals: Sequence[Signal] = (),
    ) -> None:
        self.members = [Member(root)]
        self._known: dict[str, Member] = {}
        self._adopt = adopt
        self._schedule = schedule
        self._begin = root.clock
        self._timed = [each for each in signals if each.after is not None]
        self._awaited = [each for each in signals if each.after is None]

    @property
    def root(self) -> Simulation:
        return self.members[0].simulation

    def run(self) -> None:
        """Run to the end, or until nothing can move. Raises ``Endless``."""
        self.root.start()
        for moves in range(MAX_MOVES):
            self._tend()
            if not self._move() and not self._send() and not self._wait():
                return
            if self.root.size > MAX_BYTES:
                raise Endless(f"{moves:,} moves and {MAX_BYTES >> 20} MiB of events")
        raise Endless(f"{MAX_MOVES:,} moves")

    def _move(self) -> bool:
        ready = list(self._ready())
        if not ready:
            return False
        simulation, run, path = ready[self._schedule.choose(len(ready))]
        simulation.move(run, path, overlap=len(ready) > 1)
        return True

    def _ready(self) -> Iterator[tuple[Simulation, Run, tuple[int, ...]]]:
        for member in self.members:
            for run, path in member.simulation.ready():
                yield member.simulation, run, path

    def _wait(self) -> bool:
        """Advance the time until something is due in any member."""
        moments = [member.simulation.next_moment() for member in self.members]
        known = [moment for moment in moments if moment is not None]
        if not self.root.state.finished:
            known += [self._begin + (each.after or 0.0) for each in self._timed]
        if not known:
            return False
        moment = max(min(known), self.root.clock)
        for member in self.members:
            member.simulation.pass_time(moment)
        due = [
            each for each in self._timed if self._begin + (each.after or 0) <= moment
        ]
        for signal in due:
            self._timed.remove(signal)
            _tell(self.root, signal)
        return True

    def _send(self) -> bool:
        """Send a signal to the pipeline that waits for it, as nothing else can move."""
        for signal in self._awaited:
            for member in self.members:
                if signal.name in _awaited_by(member.simulation):
                    self._awaited.remove(signal)
                    _tell(member.simulation, signal)
                    return True
        return False

    # -- children ----------------------------------------------------------------

    def _tend(self) -> None:
        """Start children, stop those without a waiting parent, pass results on."""
        for member in list(self.members):
            if member.simulation.state.suspended:
                self._begin_children(member)
        for member in self.members[:0:-1]:
            parent = member.parent
            assert parent is not None
            state, above = member.simulation.state, parent.simulation
            waits = above.state.suspended.get(member.command_id) == "playbook"
            if state.finished:
                self.members.remove(member)
                if waits:
                    self._answer(member, parent.simulation)
            elif not waits:
                member.simulation.cancel(above.state.cancelling)

    def _begin_children(self, member: Member) -> None:
        for command_id, child in list(children_of(member.simulation.state)):
            child_id = child["execution_id"]
            if child_id in self._known:
                continue
            found = self._start(member, command_id, child)
            if isinstance(found, Failure):
                error = {"kind": found.kind, "message": found.message}
                answer = {"execution_id": None, "status": None, "result": None}
                member.simulation.answer(
                    command_id, child_id, {**answer, "error": error}
                )
                continue
            origin = (*member.origin, *path_of(command_id))
            self._known[child_id] = Member(found, origin, member, command_id)
            self.members.append(self._known[child_id])
            found.start()

    def _start(
        self, member: Member, command_id: str, child: dict[str, JSON]
    ) -> Simulation | Failure:
        if member.simulation.state.depth >= MAX_DEPTH:
            message = f"playbooks call each other more than {MAX_DEPTH} deep"
            return Failure("playbook.depth", message)
        return self._adopt(child, member, command_id)

    def _answer(self, member: Member, parent: Simulation) -> None:
        state = member.simulation.state
        answer = {
            "execution_id": state.execution_id,
            "status": state.status,
            "result": member.simulation.whole(state.result),
            "error": state.error,
        }
        parent.answer(member.command_id, state.execution_id, answer)


def _tell(simulation: Simulation, signal: Signal) -> None:
    """Deliver a signal. Raises ``ScriptError`` if ``refused`` does not match the
    result."""
    if simulation.state.finished:
        return
    try:
        simulation.signal(signal.name, signal.data)
    except SignalRefused as error:
        if not signal.refused:
            hint = "add refused: true, if the case expects that"
            raise ScriptError(
                f"the signal is refused: {error}", hint, signal.at
            ) from None
    else:
        if signal.refused:
            message = (
                f"signal '{signal.name}' was expected to be refused, but was accepted"
            )
            raise ScriptError(message, at=signal.at)


def _awaited_by(simulation: Simulation) -> set[str]:
    """Return the signals that some pipeline waits for."""
    return {
        waiting.signal
        for _, _, waiting in waiting_in(simulation.state)
        if waiting.signal is not None
    }
