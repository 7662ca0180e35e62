"""Events as a log keeps them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.engine.event_codec import pack, unpack
from noetl.engine.events import EVENTS, Event

Run = Callable[..., Any]

BODIES = Path(__file__).parent / "event_bodies.jsonl"
"""Events of all names with the bytes that were stored for them in November 2026: logs
that exist have such bytes."""

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
        assert unpack(each.body.encode(), event.execution_id, event.seq) == event
