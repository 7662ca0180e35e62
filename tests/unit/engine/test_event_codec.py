"""Events as a log keeps them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.engine.event_codec import pack, unpack
from noetl.engine.events import EVENTS, Event
from noetl.engine.ids import action_id

Run = Callable[..., Any]

BODIES = Path(__file__).parent / "event_bodies.jsonl"
"""Events of all names with the bytes that are stored for them, and with those of older
versions: logs that exist have such bytes."""

CHAIN = """
- {step: start, tool: {kind: noop, result: 1}, next: {arcs: [{step: again}]}}
- step: again
  loop: {in: [1, 2], iterator: each}
  tool: [{a: {kind: noop, result: 2}}, {b: {kind: noop}}]
  next: {arcs: [{step: last, args: {x: "{{ event.payload }}"}}]}
- {step: last, tool: {kind: noop}}
"""


@pytest.mark.spec("EVT-01", "EVT-08")
def test_what_is_read_is_what_was_recorded(run: Run) -> None:
    log = run(CHAIN).log

    assert len(log) > 20
    for event in log:
        assert unpack(pack(event), event.execution_id, event.seq) == event


@pytest.mark.spec("EVT-01")
def test_a_step_of_one_task_is_six_rows_and_less_than_three_kilobytes(run: Run) -> None:
    [number] = [e.step_run_id for e in run(CHAIN).events("step.done", step="start")]
    log = [event for event in run(CHAIN).log if event.step_run_id == number]

    assert len(log) == 6
    longer = len("019a1e44-71e3-75ae-877d-c3d8b0425526") - len(log[0].execution_id)
    ids = sum(pack(event).count(log[0].execution_id.encode()) for event in log)
    assert sum(len(pack(event)) + 32 for event in log) + ids * longer < 3000


@pytest.mark.spec("EVT-02")
@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"name": "step.done"}', b"\xff", b""])
def test_an_invalid_event_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        unpack(body, "x", 1)


@pytest.mark.spec("EVT-04")
def test_an_event_that_does_not_exist_is_refused(run: Run) -> None:
    first = pack(run(CHAIN).log[0])

    with pytest.raises(ValueError, match="unknown event 'never'"):
        unpack(first.replace(b"playbook.execution.requested", b"never"), "x", 1)


class Kept(msgspec.Struct):
    event: Event
    body: str
    before: list[str]


def kept() -> list[Kept]:
    return msgspec.json.Decoder(Kept).decode_lines(BODIES.read_bytes())


def test_there_are_stored_bytes_of_every_event() -> None:
    assert {each.event.name for each in kept()} == EVENTS.keys()


@pytest.mark.spec("EVT-01", "EVT-08")
def test_bytes_do_not_change() -> None:
    for each in kept():
        assert pack(each.event).decode() == each.body


@pytest.mark.spec("EVT-01", "EVT-08")
def test_bytes_that_were_stored_are_read() -> None:
    for each in kept():
        event = each.event
        for body in (each.body, *each.before):
            assert unpack(body.encode(), event.execution_id, event.seq) == event


TASK = {
    "step_run_id": "e-1",
    "iteration_id": "e-1/3/4",
    "task_run_id": "e-1/3/4:load.2",
    "task_label": "load",
    "attempt": 1,
}


def task_event(name: str = "task.done", **members: object) -> Event:
    about = {"event_id": "e.7", "execution_id": "e", "seq": 7, "timestamp": "t"}
    about |= {"source": "worker", "name": name, "entity_type": "task", "payload": {}}
    about |= {"entity_id": "e-1/3/4:load.2", "parent_id": "e-1", "status": "success"}
    return msgspec.convert({**about, **TASK, **members}, Event)


USUAL = action_id("e", "e-1", "load", (3, 4), 2)


@pytest.mark.spec("EVT-01", "EVT-08")
@pytest.mark.parametrize("name", ["task.started", "task.suspended", "task.done"])
def test_the_id_of_the_action_is_left_out_if_other_ids_imply_it(name: str) -> None:
    event = task_event(name, action_id=USUAL)

    assert b"action_id" not in pack(event)
    assert unpack(pack(event), "e", 7).action_id == USUAL


@pytest.mark.parametrize(
    "changed",
    [
        {"action_id": action_id("origin", "origin-1", "load", (3, 4), 2)},
        {"action_id": None},
        {"action_id": USUAL, "task_run_id": "e-1/3/4:load.3"},
        {"action_id": USUAL, "task_run_id": "strange"},
        {"action_id": USUAL, "task_run_id": "e:load." + "9" * 30},
        {"action_id": USUAL, "iteration_id": "e-1/x"},
        {"action_id": USUAL, "iteration_id": "e-1/" + "9" * 50},
        {"action_id": USUAL, "task_label": None},
    ],
    ids=lambda changed: "-".join(changed),
)
def test_another_id_of_an_action_is_kept(changed: dict[str, str | None]) -> None:
    event = task_event(**changed)

    assert b"action_id" in pack(event)
    assert unpack(pack(event), "e", 7).action_id == event.action_id


def test_an_event_of_a_resumed_task_has_no_action() -> None:
    event = task_event("task.resumed", action_id=None)

    assert b"action_id" not in pack(event)
    assert unpack(pack(event), "e", 7).action_id is None


@pytest.mark.spec("EVT-01", "EVT-08")
@pytest.mark.parametrize(
    ("members", "is_usual"),
    [
        ({"task_run_id": "e-1/3/4:load.1"}, True),
        ({"task_run_id": "e-1/3/4:load.2"}, False),
        ({"task_run_id": None}, False),
        ({"iteration_id": None, "task_run_id": "e-1:load.1"}, True),
        ({"iteration_id": None, "task_run_id": "e-1/3/4:load.1"}, False),
        ({"task_label": None, "task_run_id": None}, True),
    ],
)
def test_the_id_of_the_first_task_run_is_left_out(
    members: dict[str, str | None], is_usual: bool
) -> None:
    event = task_event(**members, entity_id=members["task_run_id"] or "e")

    assert (b"task_run_id" not in pack(event)) == is_usual
    assert unpack(pack(event), "e", 7) == event
