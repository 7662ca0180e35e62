"""Playbooks of the specification, run by the simulation with scripted HTTP answers.

Whatever runs here is folded again from its log: at every event the replayed state must
be the one that lived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from noetl import load
from noetl.engine.events import Event
from noetl.engine.evolve import evolve
from noetl.engine.recorder import Batch
from noetl.engine.simulate import Simulation
from noetl.engine.state import State
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Call

Script = Callable[[Call], Outcome]
Accept = Callable[..., Simulation]

encode = msgspec.json.encode


class Recorded(Batch):
    """Writes down each event, and the live state after it."""

    history: list[tuple[bytes, bytes]]

    def emit(self, *args: Any, **options: Any) -> Event:
        event = super().emit(*args, **options)
        self.history.append((encode(event), encode(self.state)))
        return event


class Watched(Simulation):
    """A simulation that remembers what it was at every event."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.history: list[tuple[bytes, bytes]] = []

    def _batch(self) -> Batch:
        plain = super()._batch()
        batch = Recorded(
            plain.playbook, plain.net, plain.state, plain.clock, plain.values
        )
        batch.history = self.history
        return batch

    def check_replay(self) -> None:
        """Fold the log as it was written: no prefix may differ from the live state."""
        assert [written for written, _ in self.history] == list(map(encode, self.log))
        state = State()
        for written, lived in self.history:
            event = msgspec.json.decode(written, type=Event)
            evolve(state, event)
            assert encode(state) == lived, f"after event {event.seq}, {event.name}"


def answer_http(status: int, body: Any = None) -> Outcome:
    """What the http tool says to a status (S-47)."""
    http = {"status": status, "headers": {}}
    if status < 400:
        return Outcome.ok(body, **http)
    retryable = status in (408, 425, 429) or status >= 500
    kind = "http.server" if status >= 500 else "http.client"
    return Outcome.failed(kind, f"{status}", retryable=retryable, **http)


@pytest.fixture(scope="session")
def http() -> Callable[..., Outcome]:
    return answer_http


@pytest.fixture(scope="session")
def accept() -> Accept:
    """Validate a whole document, run it to its end, and replay it."""

    def run(text: str, script: Script, **options: Any) -> Simulation:
        loaded = load(text)
        assert loaded.playbook is not None, loaded.diagnostics
        simulation = Watched(loaded.playbook, script, **options)
        simulation.run()
        assert simulation.state.finished
        simulation.check_replay()
        return simulation

    return run
