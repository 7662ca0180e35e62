"""Whatever playbook runs, its events hold what `noetl.engine.events` declares."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from comparison import Watched, load
from generator import generate
from payloads import check_payloads

from noetl import load as load_file
from noetl.engine.events import Event
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Call

ROOT = Path(__file__).parents[2]
FILES = [
    *sorted((ROOT / "tests" / "playbooks" / "valid").glob("*.yaml")),
    *sorted(
        path
        for path in (ROOT / "examples").glob("*.yaml")
        if not path.name.endswith(".test.yaml")
    ),
]
MOVES = 200
CASES = 60


def moved(simulation: Simulation) -> list[Event]:
    simulation.start()
    moves = 0
    while moves < MOVES and simulation.step():
        moves += 1
    return simulation.log


def answer(call: Call) -> Outcome | None:
    """Every other call fails; waits and children are the engine's own."""
    if call.task.kind in ("wait", "playbook", "choose"):
        return None
    if call.attempt % 2:
        return Outcome.failed("timeout", "scripted", retryable=True)
    return Outcome.ok({"rows": [1, 2], "text": "x" * 500})


@pytest.mark.spec("EVT-07")
@pytest.mark.parametrize("number", range(CASES))
def test_payloads_of_generated_playbooks(number: int) -> None:
    case = generate(f"payloads.{number}")

    check_payloads(moved(Watched(case, load(case), case.seed)))


@pytest.mark.spec("EVT-07")
def test_payloads_of_playbooks_in_files() -> None:
    """All of those that can be loaded: some are about a flaw beside another one."""
    loaded = [load_file(path.read_bytes()).playbook for path in FILES]
    playbooks = [playbook for playbook in loaded if playbook is not None]

    assert len(playbooks) > len(FILES) / 2
    for playbook in playbooks:
        check_payloads(moved(Simulation(playbook, answer)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"surplus": 1}, "the member 'surplus' is not declared"),
        ({"tokens": "t1"}, "Expected `array`"),
        ({"admit": {"allow": True, "rule": None, "by": "x"}}, "undeclared members"),
    ],
)
def test_a_payload_that_is_not_as_declared_is_found(
    change: dict[str, object], message: str
) -> None:
    case = generate("payloads.0")
    log = moved(Watched(case, load(case), case.seed))
    event = next(event for event in log if event.name == "step.scheduled")
    other = msgspec.structs.replace(event, payload={**event.payload, **change})

    with pytest.raises(AssertionError, match=message):
        check_payloads([other])
