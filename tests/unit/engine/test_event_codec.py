"""Events as a log keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.records import pack, unpack

Run = Callable[..., Any]

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
def test_what_is_no_event_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        unpack(body, "x", 1)


@pytest.mark.spec("EVT-04")
def test_an_event_that_does_not_exist_is_refused(run: Run) -> None:
    first = pack(run(CHAIN).log[0])

    with pytest.raises(ValueError, match="there is no event 'never'"):
        unpack(first.replace(b"playbook.execution.requested", b"never"), "x", 1)
