"""Requests and orders of people: what they record, and orders that come too late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.decide import (
    Request,
    abandon,
    accept,
    check_request,
    expire,
    pause,
    resume,
)
from noetl.engine.event_codec import event_line
from noetl.engine.recorder import Batch
from noetl.engine.state import State, take_waiting
from noetl.engine.steps.admission import fill_join
from noetl.engine.steps.completion import cancel
from noetl.engine.values.references import make_reference

Run = Callable[..., Any]

FLOW = "- {step: start, spec: {deadline: 60}, tool: [{a: {kind: noop}}]}"
ANA = {"account": "ana"}


def test_labels_warnings_and_accounts_of_a_request_are_recorded(prepare: Run) -> None:
    execution = prepare(FLOW)
    batch = Batch(execution.playbook, execution.net, State())
    labels, warnings = {"team": "data"}, ("'rows' is text",)

    bo = {"account": "bo", "roles": ["author"]}

    accept(
        batch,
        Request(
            "x", {}, {}, labels=labels, warnings=warnings, caller=ANA, initiator=bo
        ),
    )

    asked, evaluated = batch.events[:2]
    assert asked.payload["labels"] == labels
    assert (asked.payload["caller"], asked.payload["initiator"]) == (ANA, bo)
    assert evaluated.payload["warnings"] == ["'rows' is text"]


@pytest.mark.spec("S-82")
@pytest.mark.parametrize("place", ["workload", "ctx", "args"])
def test_a_request_with_a_forged_reference_is_refused(place: str) -> None:
    forged = make_reference("0" * 64, 9, "text")
    given: dict[str, Any] = {"workload": {}, place: {"a": {"b": forged}}}

    error = check_request(Request("x", {}, **given))

    assert error is not None
    assert (error["kind"], error["path"]) == ("ref.not_owner", f"{place}.a.b")
    assert check_request(Request("x", {}, {"a": 1})) is None


@pytest.mark.parametrize(
    ("order", "name"),
    [
        (pause, "workflow.paused"),
        (resume, "workflow.resumed"),
        (cancel, "workflow.cancelled"),
    ],
)
def test_an_order_names_the_account_that_gave_it(
    prepare: Run, order: Any, name: str
) -> None:
    execution = prepare(FLOW)
    execution.start()
    if order is resume:
        execution.pause()

    execution.command(lambda batch: order(batch, caller=ANA))

    assert execution.event(name).payload["caller"] == ANA


def test_orders_about_what_has_ended_change_nothing(prepare: Run) -> None:
    execution = prepare(FLOW)
    execution.start()

    assert execution.command(abandon, "sim-9", 3) == []
    assert execution.command(expire, "step:sim-9") == []
    assert fill_join(execution._batch(), execution.playbook.steps["start"]) == (
        False,
        None,
    )
    with pytest.raises(KeyError):
        take_waiting({}, "sim.t1")


def test_a_line_of_the_log_has_trace_and_span(run: Run) -> None:
    execution = run(FLOW)

    line = event_line(execution.log[0], execution.state.trace_id)

    assert f'"trace_id":"{execution.state.trace_id}"'.encode() in line
    assert b'"span_id":"' in line
