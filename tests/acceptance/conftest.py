"""Playbooks of the specification, run by the simulation with scripted HTTP answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl import load
from noetl.engine.outcome import Outcome
from noetl.engine.pipeline import Call
from noetl.engine.simulate import Simulation

Script = Callable[[Call], Outcome]
Accept = Callable[..., Simulation]


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
    """Validate a whole document, then run it to its end."""

    def run(text: str, script: Script, **options: Any) -> Simulation:
        loaded = load(text)
        assert loaded.playbook is not None, loaded.diagnostics
        simulation = Simulation(loaded.playbook, script, **options)
        simulation.run()
        assert simulation.state.finished
        return simulation

    return run
