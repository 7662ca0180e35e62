"""An execution that waits for a place of its concurrency key."""

from __future__ import annotations

from typing import Any

import pytest

from noetl import load
from noetl.engine.decide import Request, accept, admit_queued, pause, resume
from noetl.engine.effects import effects_of
from noetl.engine.evolve import replay
from noetl.engine.invariants import Audit
from noetl.engine.recorder import Batch
from noetl.engine.state import State, status_of
from noetl.engine.steps.completion import cancel
from noetl.engine.steps.concurrency import Concurrency, superseded, taken, why_not_key
from noetl.net.net import build_net

pytestmark = pytest.mark.spec("S-36")

TEXT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: tests/t}
executor: {spec: {deadline: 60}}
workflow:
  - {step: start, tool: {kind: noop}}
"""
PLACES = Concurrency("eu", 2, "queue", "tests/t")


class Execution:
    def __init__(self, *, queued: bool, **more: Any) -> None:
        playbook = load(TEXT).playbook
        assert playbook is not None
        self.playbook, self.net = playbook, build_net(playbook)
        self.state, self.log = State(), []
        request = Request("x", {"path": "tests/t"}, {}, concurrency=PLACES, **more)
        self.do(lambda batch: accept(batch, request, queued=queued))

    def do(self, decision: Any, clock: float = 0.0) -> list[str]:
        batch = Batch(self.playbook, self.net, self.state, clock)
        decision(batch)
        self.log += batch.events
        self.last = effects_of(batch.events)
        return [event.name for event in batch.events]


def test_nothing_begins_while_it_is_queued():
    execution = Execution(queued=True)

    assert [event.name for event in execution.log][-1] == "workflow.queued"
    assert not execution.state.runs
    assert status_of(execution.state) == "waiting"
    assert not execution.last.timers


def test_its_time_begins_when_it_is_let_in():
    execution = Execution(queued=True)

    names = execution.do(admit_queued, clock=1000.0)

    assert names == ["workflow.admitted", "step.scheduled"]
    assert execution.last.timers["execution"] == 1060.0
    assert status_of(execution.state) == "running"
    assert execution.do(admit_queued) == []


def test_one_with_a_place_begins_at_once():
    execution = Execution(queued=False)

    assert [event.name for event in execution.log][-1] == "step.scheduled"
    assert execution.state.concurrency == PLACES
    assert execution.do(admit_queued) == []


def test_one_that_waits_can_be_cancelled():
    execution = Execution(queued=True)

    names = execution.do(cancel)

    assert names[-1] == "playbook.processed"
    assert execution.state.status == "cancelled"
    assert execution.do(admit_queued) == []


def test_a_pause_outlasts_the_queue():
    execution = Execution(queued=True)
    execution.do(pause)

    assert execution.do(admit_queued) == ["workflow.admitted"]
    assert execution.state.status == "paused"
    assert execution.do(resume)[-1] == "step.scheduled"


def test_a_resumed_one_waits_on():
    execution = Execution(queued=True)
    execution.do(pause)

    assert execution.do(resume) == ["workflow.resumed"]
    assert status_of(execution.state) == "waiting"


def test_the_labels_of_a_request_are_those_of_its_execution():
    execution = Execution(queued=False, labels={"team": "eu"})

    assert execution.state.labels == {"team": "eu"}
    assert Execution(queued=False).state.labels == {}


def test_the_log_adds_up_to_the_same():
    execution = Execution(queued=True)
    assert replay(execution.log) == execution.state
    execution.do(admit_queued)

    assert replay(execution.log) == execution.state
    audit = Audit()
    assert [breach for event in execution.log for breach in audit.take(event)] == []


def test_an_admission_of_an_execution_that_did_not_wait_is_named():
    execution = Execution(queued=True)
    execution.do(admit_queued)
    audit = Audit()
    changed = [event for event in execution.log if event.name != "workflow.queued"]

    breaches = [breach for event in changed for breach in audit.take(event)]
    assert ("I-33", "an execution is admitted that did not wait", "queued") in [
        (each.invariant, each.message, each.expected) for each in breaches
    ]


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "1 to 200"),
        ("k" * 201, "1 to 200"),
        ("a\nb", "printable"),
        (None, "found nothing"),
        (True, "found bool"),
        ([], "found list"),
    ],
)
def test_invalid_keys(key, why):
    assert why in (why_not_key(key) or "")


@pytest.mark.parametrize("key", ["eu", "a b", "é", 7])
def test_what_is_a_key(key):
    assert why_not_key(key) is None


def test_a_refusal_lists_the_running_executions():
    error = taken(PLACES, ["a", "b", "c", "d"])

    assert error["message"] == (
        "at most 2 executions may run with the key 'eu'; now running: a, b, c, …"
    )
    assert error["holders"] == ["a", "b", "c", "d"]


def test_the_error_of_a_rejected_request_lists_at_most_100_executions() -> None:
    names = [f"e{number}" for number in range(102)]

    assert taken(PLACES, names)["holders"] == names[:100]


def test_a_cancellation_names_the_later_execution():
    error = superseded(Concurrency("eu"), "y")

    assert error["message"] == (
        "execution y replaces it, because at most 1 execution may run with the key 'eu'"
    )
