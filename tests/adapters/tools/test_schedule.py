"""Who gets which process: every call that waits is served."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from noetl.adapters.processes.request import Key
from noetl.adapters.processes.schedule import MAX_WAIT_S, Retire, Schedule, Serve

AHEAD = 0.002  # as in a runner: seconds of work that may wait in a process
KEYS = [
    Key("", None, None, shared=True),
    Key("", None, 1, shared=True),
    Key("e1", None, None),
    Key("e2", None, None),
]


class Process:
    def __init__(self, key: Key, pace: float, ahead: int) -> None:
        self.key = key
        self.places = 0
        self.spent = False
        self.idle_since = 0.0
        self.started = math.inf
        self.seconds = pace
        self.ahead = ahead

    @property
    def work(self) -> float:
        return self.places * self.seconds

    def has_room(self, now: float) -> bool:
        if self.spent:
            return False
        if not self.places:
            return True
        return self.places < self.ahead and self.work < AHEAD

    def pace(self, now: float) -> float:
        return self.seconds


class Ticket:
    def __init__(self, key: Key, since: float) -> None:
        self.key = key
        self.since = since
        self.waiting = True

    def is_waiting(self) -> bool:
        return self.waiting


class World:
    """A pool without processes: performs the steps, and checks after each event."""

    def __init__(self, slots: int, ahead: int, paces: list[float]) -> None:
        self.slots = slots
        self.ahead = ahead
        self.paces = paces
        self.now = 0.0
        self.alone = 0
        self.schedule: Schedule[Ticket, Process] = Schedule(slots)
        self.waiting: list[Ticket] = []
        self.retired: set[Process] = set()
        self.is_broken = False

    def perform(self, steps: Iterable[Any]) -> None:
        for step in steps:
            self.do(step)
        self.check()

    def do(self, step: Any) -> None:
        if isinstance(step, Serve):
            assert step.ticket.waiting
            assert step.process.key == step.ticket.key
            assert step.process not in self.retired
            step.ticket.waiting = False
            self.waiting.remove(step.ticket)
        elif isinstance(step, Retire):
            assert not step.process.places
            self.retired.add(step.process)
        elif self.is_broken:
            first = self.schedule.first(step.key)
            assert first is not None
            first.waiting = False
            self.waiting.remove(first)
        else:
            pace = self.paces[KEYS.index(step.key._replace(alone=0))]
            self.schedule.add(Process(step.key, pace, self.ahead))

    def check(self) -> None:
        processes = self.schedule.processes
        counted = [each for each in processes if self.takes_slot(each)]
        assert len(counted) <= self.slots
        is_full = len(counted) == self.slots and all(each.places for each in counted)
        for ticket in self.waiting:
            own = [each for each in processes if each.key == ticket.key]
            for each in own:
                if each.has_room(self.now):
                    assert self.takes_slot(each)
                    assert self.is_late_for(ticket)
            if any(each.places for each in own):
                continue  # their release is its turn
            assert is_full, "a call waits although there is room for its process"
            assert not own, "a call waits beside an idle process of its key"

    def is_late_for(self, ticket: Ticket) -> bool:
        """Whether an older call of another key waits so long that it comes first."""
        return any(
            each.key != ticket.key
            and each.since < ticket.since
            and self.now - each.since > 0.1
            for each in self.waiting
        )

    def takes_slot(self, process: Process) -> bool:
        first = next(e for e in self.schedule.processes if e.key == process.key)
        return not process.key.shared or process is not first

    def ask(self, key: Key, since: float | None = None) -> None:
        if self.schedule.find(key, self.now) is None:
            ticket = Ticket(key, self.now if since is None else since)
            self.waiting.append(ticket)
            self.perform(self.schedule.wait(ticket, self.now))

    def ask_alone(self, key: Key) -> None:
        self.alone += 1
        self.ask(key._replace(alone=self.alone))

    def busy(self) -> list[Process]:
        return [each for each in self.schedule.processes if each.places]

    def release(self, process: Process) -> None:
        self.perform(self.schedule.release(process, self.now))

    def take_back(self, process: Process) -> None:
        """The call had not begun: it asks again, and came before all others."""
        self.release(process)
        self.ask(process.key, self.now - 0.05)

    def cancel(self, ticket: Ticket, meanwhile: Process | None) -> None:
        """Before the schedule hears of it, another call may leave its place."""
        ticket.waiting = False
        self.waiting.remove(ticket)
        if meanwhile is not None:
            for step in self.schedule.release(meanwhile, self.now):
                self.do(step)
        self.perform(self.schedule.leave(ticket, self.now))

    def die(self, process: Process) -> None:
        process.spent = True
        while process.places:
            self.release(process)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for process in self.schedule.processes:
            process.started = min(process.started, self.now)
        self.perform(self.schedule.tick(self.now))

    def finish(self) -> None:
        """All calls end, again and again, until none waits."""
        self.is_broken = False
        for _ in range(2 * len(self.waiting) + 2):
            if not self.waiting:
                return
            self.pass_time(MAX_WAIT_S)
            for process in self.busy():
                while process.places:
                    self.release(process)
        raise AssertionError(f"{len(self.waiting)} calls were not served")


def pick(items: list[Any], number: int) -> Any:
    return items[number % len(items)]


def act(world: World, name: str, number: int) -> None:
    """One event; nothing, if there is none it could happen to."""
    busy, waiting = world.busy(), world.waiting
    if name == "ask":
        world.ask(pick(KEYS, number))
    elif name == "ask alone":
        world.ask_alone(pick(KEYS[2:], number))
    elif name == "wait":
        world.pass_time(pick([0.001, 0.01, 0.11, 70.0], number))
    elif name == "late":  # the event loop was held up: no tick came in between
        world.now += 0.15
    elif name == "expire":
        world.perform(world.schedule.expire(world.now))
    elif name == "break":
        world.is_broken = not world.is_broken
    elif name in ("release", "take back") and busy:
        process = pick(busy, number)
        world.release(process) if name == "release" else world.take_back(process)
    elif name in ("cancel", "cancel just now") and waiting:
        meanwhile = pick(busy, number) if name == "cancel just now" and busy else None
        world.cancel(pick(waiting, number), meanwhile)
    elif name == "die" and world.schedule.processes:
        world.die(pick(world.schedule.processes, number))
    elif name == "pace" and busy:  # a reply says how long its call took
        process = pick(busy, number)
        process.seconds = pick([1e-5, 0.001, 0.5], number)
        world.release(process)


EVENTS = ["ask"] * 6 + ["release"] * 4 + ["late"] * 4 + ["cancel"] * 2
EVENTS += ["wait", "expire", "break", "pace", "ask alone", "take back", "die"]
EVENTS += ["cancel just now"]


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 4),
    st.sampled_from([1, 3, 64]),
    st.lists(
        st.sampled_from([1e-5, 0.001, 0.5]), min_size=len(KEYS), max_size=len(KEYS)
    ),
    st.lists(
        st.tuples(st.sampled_from(EVENTS), st.integers(0, 11)), min_size=20, max_size=60
    ),
)
def test_every_call_that_waits_is_served(
    slots: int, ahead: int, paces: list[float], events: list[tuple[str, int]]
) -> None:
    world = World(slots, ahead, paces)
    for name, number in events:
        act(world, name, number)
    event(f"waiting at the end: {min(len(world.waiting), 5)}")
    world.finish()


def test_a_call_is_served_by_an_idle_process_while_one_of_another_key_waits() -> None:
    """The shared process takes no slot: that another key waits longer is no reason to
    leave it idle."""
    shared, own = KEYS[0], KEYS[2]
    world = World(1, 64, [1e-5, 1e-5, 0.5, 0.5])
    for _ in range(64):
        world.ask(shared)
    world.ask(own)
    for process in world.busy():
        process.started = 0.0
    world.ask(own)
    world.ask(shared)
    assert [ticket.key for ticket in world.waiting] == [own, shared]
    world.now += 0.15

    world.release(next(each for each in world.busy() if each.key == shared))

    assert [ticket.key for ticket in world.waiting] == [own]


def test_slots_pass_to_an_execution_that_waits_too_long() -> None:
    """Another one would keep its process busy for ever."""
    world = World(1, 1, [0.5] * len(KEYS))
    world.ask(KEYS[2])
    world.ask(KEYS[3])
    world.ask(KEYS[2])
    world.pass_time(0.11)

    world.release(world.busy()[0])

    assert [each.key for each in world.busy()] == [KEYS[3]]
    assert [ticket.key for ticket in world.waiting] == [KEYS[2]]


def test_a_call_that_is_cancelled_holds_back_nothing() -> None:
    world = World(1, 64, [1e-5] * len(KEYS))
    world.ask(KEYS[2])
    world.ask(KEYS[3])
    world.pass_time(0.11)
    world.ask(KEYS[2])
    first, second = world.waiting

    world.cancel(first, None)

    assert not second.waiting
