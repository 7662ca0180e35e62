"""The log as 000, 001 and 003 show it, and questions by ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from noetl import load
from noetl.dialects.views import DIALECTS, make_view
from noetl.dialects.views.formal import IDS, fits
from noetl.dialects.views.formal import NAMES as FORMAL
from noetl.engine.events import NAMES, Event
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
PLAYBOOK = (
    HEAD
    + """
executor: {spec: {extensions: [legacy]}}
workflow:
  - step: work
    spec: {case_mode: inclusive, branch_order: priority}
    tool: {kind: http, url: "https://x.example", retry: {max_attempts: 3}}
    args: {id: 7}
    case:
      - when: "{{ true }}"
        then: [{never: {tool: {kind: noop}}}]
      - when: "{{ event.name == 'call.done' }}"
        priority: 5
        then:
          - ready:
              tool: {kind: http, url: "https://x.example"}
              poll: {until: "{{ result.ok }}", interval: 5s, max_attempts: 9}
          - sink: {tool: {kind: noop}}
          - next: {to: [{step: each, with: {a: 1}}]}
  - step: each
    loop: {in: [1, 2], iterator: x}
    tool: {kind: noop}
    next: {arcs: [{step: hold}]}
  - step: hold
    spec: {eval_mode: on_event}
    case: [{when: "{{ event.data.type == 'go' }}", then: [{next: {to: [{step: end}]}}]}]
  - step: end
    tool: {kind: noop}
"""
)


class Chain(Simulation):
    """Everything that the 003 view knows happens once in it."""

    def __init__(self) -> None:
        loaded = load(PLAYBOOK)
        assert loaded.playbook is not None, loaded.diagnostics
        super().__init__(loaded.playbook, self._answer)
        self._answers = {
            "call": [Outcome.failed("connection", "no"), Outcome.ok(1)],
            "ready": [Outcome.ok({"ok": False}), Outcome.ok({"ok": True})],
        }

    def _answer(self, call: Any) -> Outcome:
        if call.task.label in self._answers:
            return self._answers[call.task.label].pop(0)
        note = {k: v for k, v in call.inputs.items() if k == "note"}
        return Outcome.ok(call.inputs.get("result"), **note)


@pytest.fixture(scope="module")
def log() -> list[Event]:
    execution = Chain()
    execution.run()
    execution.signal("go")
    while execution.step():
        pass
    assert execution.state.status == "completed"
    return execution.log


def seen(log: list[Event], dialect: str) -> Iterator[tuple[Event, dict[str, Any]]]:
    view = make_view(dialect)
    for event in log:
        for document in view.take(event):
            yield event, document


@pytest.fixture(scope="module")
def technical(log: list[Event]) -> list[dict[str, Any]]:
    return [document for _, document in seen(log, "003")]


def of(technical: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [each for each in technical if each["event_type"] in kinds]


@pytest.mark.spec("LEG-EVT-01", "LEG-EVT-02", "LEG-EVT-03", "LEG-EVT-04")
@pytest.mark.spec("C-08", "C-09", "C-12", "C-13", "LEG-POLL-04", "LEG-RETRY-08")
def test_every_type_of_the_003_view(technical: list[dict[str, Any]]) -> None:
    kinds = [each["event_type"] for each in technical]
    assert kinds[:5] == [
        "playbook.execution.requested",
        "playbook.request.evaluated",
        "playbook.started",
        "workflow.started",
        "step.started",
    ]
    assert kinds[-3:] == ["step.finished", "workflow.finished", "playbook.processed"]
    known = {
        *("step.started", "step.paused", "step.resumed", "step.finished"),
        *("tool.started", "tool.processed", "case.started", "case.evaluated"),
        *("next.requested", "next.evaluated", "case.branch.suppressed"),
        *("loop.started", "loop.iteration.started", "loop.iteration.done"),
        *("loop.finished", "retry.started", "retry.processed"),
        *("poll.started", "poll.iteration", "poll.finished"),
        *("sink.started", "sink.processed"),
    }
    assert known <= set(kinds)
    assert not {kind for kind in kinds if kind.startswith("task.")}


@pytest.mark.spec("LEG-RETRY-11", "LEG-RETRY-10", "LEG-RETRY-08")
def test_the_sequence_of_a_retry(technical: list[dict[str, Any]]) -> None:
    run = next(e for e in technical if e["payload"].get("task") == "call")[
        "tool_run_id"
    ]
    found = [e for e in technical if e["tool_run_id"] == run]
    told = [(e["event_type"], e["attempt"], e["payload"].get("status")) for e in found]
    assert told == [
        ("tool.started", 1, None),
        ("tool.processed", 1, "error"),
        ("retry.started", 2, None),
        ("tool.started", 2, None),
        ("tool.processed", 2, "success"),
        ("retry.processed", 2, "success"),
    ]
    assert len({each["action_id"] for each in found}) == 1


@pytest.mark.spec("LEG-POLL-04", "S-60")
def test_the_sequence_of_a_poll(technical: list[dict[str, Any]]) -> None:
    kinds = ("poll.started", "poll.iteration", "poll.finished", "step.paused")
    found = of(technical, *kinds)[:5]
    assert [each["event_type"] for each in found] == [
        "poll.started",
        "poll.iteration",
        "step.paused",
        "poll.iteration",
        "poll.finished",
    ]
    assert [each["page"] for each in of(found, "poll.iteration")] == [0, 1]
    assert found[-1]["payload"]["status"] == "success"


@pytest.mark.spec("LEG-EVT-10", "LEG-CASE-06")
def test_what_a_case_says(technical: list[dict[str, Any]]) -> None:
    first, second = of(technical, "case.evaluated")
    assert first["payload"] == {
        "matched": ["case_0", "case_1"],
        "order": ["case_1", "case_0"],
        "case_mode": "inclusive",
        "eval_mode": "on_entry",
        "trigger_event": "call.done",
    }
    assert second["payload"]["eval_mode"] == "on_event"
    assert second["payload"]["trigger_event"] == "message.received"


@pytest.mark.spec("LEG-NEXT-01", "LEG-NEXT-09", "LEG-NEXT-10", "LEG-EVT-11", "C-14")
def test_what_a_next_says(technical: list[dict[str, Any]]) -> None:
    requested = of(technical, "next.requested")[0]
    assert requested["payload"]["pending"] is True
    assert requested["payload"]["branch"] == "case_1"
    [suppressed] = of(technical, "case.branch.suppressed")
    assert suppressed["payload"] == {"branch": "case_0", "by": "case_1"}
    assert of(technical, "next.evaluated")[0]["payload"] == {
        "selected": [{"step": "each", "with": {"a": 1}}],
        "policy": "end_step",
        "winner_branch": "case_1",
        "suppressed_branches": ["case_0"],
        "routing_committed": True,
    }


@pytest.mark.spec("LEG-STEP-09")
def test_args_are_in_the_event(technical: list[dict[str, Any]]) -> None:
    started = of(technical, "tool.started")[0]
    assert started["payload"]["args"] == {"id": 7}


@pytest.mark.spec("LEG-EVT-05")
def test_who_says_it(technical: list[dict[str, Any]]) -> None:
    for each in technical:
        layer = each["event_type"].split(".")[0]
        if layer in ("workflow", "playbook", "step"):
            assert each["source"] == "server", each["event_type"]
        if layer in ("tool", "case", "retry", "sink", "poll"):
            assert each["source"] == "worker", each["event_type"]


@pytest.mark.spec("LEG-EVT-06", "LEG-EVT-07", "LEG-EVT-08", "C-05", "C-16", "S-44")
def test_the_envelope(technical: list[dict[str, Any]]) -> None:
    members = {
        *("event_id", "event_type", "timestamp", "execution_id", "workflow_run_id"),
        *("step_run_id", "tool_run_id", "entity_type", "entity_id", "parent_id"),
        *("action_id", "attempt", "iteration", "page", "payload"),
    }
    for each in technical:
        assert members <= each.keys()
        assert each["timestamp"].endswith("Z")
    numbers = [int(each["event_id"]) for each in technical]
    assert numbers == sorted(set(numbers))
    assert all(0 <= number < 2**64 for number in numbers)
    tool = of(technical, "tool.processed")[0]
    assert tool["entity_id"] == tool["tool_run_id"]
    assert (tool["attempt"], tool["iteration"], tool["page"]) == (1, 0, 0)
    iterations = [e["iteration"] for e in of(technical, "loop.iteration.started")]
    assert iterations == [0, 1]


@pytest.mark.spec("LEG-EVT-12")
def test_nesting(technical: list[dict[str, Any]]) -> None:
    for each in technical:
        layer = each["event_type"].split(".")[0]
        if layer == "step":
            assert each["parent_id"] == each["workflow_run_id"]
        if layer in ("tool", "case", "next"):
            assert each["parent_id"] == each["step_run_id"] is not None


@pytest.mark.spec("LEG-EVT-09", "EVT-08")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", IDS)
def test_the_log_is_asked_by_each_id(log: list[Event], dialect: str, name: str) -> None:
    documents = list(seen(log, dialect))
    values = {str(d[name]) for _, d in documents if d.get(name) is not None}
    for event, _ in documents:
        own = getattr(event, name, None)
        values |= (
            {str(own)} if own is not None and name not in documents[0][1] else set()
        )
    for value in values:
        found = [d for e, d in documents if fits(e, d, {name: value})]
        assert 0 < len(found) <= len(documents)
        assert all(str(d[name]) == value for d in found if name in d)
    assert not any(fits(e, d, {name: "no such id"}) for e, d in documents)


@pytest.mark.spec("C-05", "C-07", "C-10", "C-15", "EVT-16")
def test_the_000_view(log: list[Event]) -> None:
    documents = [document for _, document in seen(log, "000")]
    assert {"entity", "data", "name"} <= documents[0].keys()
    assert not {"entity_type", "payload"} & documents[0].keys()
    names = [each["name"] for each in documents]
    assert names[:5] == [
        "PlaybookExecutionRequested",
        "PlaybookRequestEvaluated",
        "WorkflowStarted",
        "TokenEnqueued",
        "TokenClaimed",
    ]
    queued, claimed = names.count("TokenEnqueued"), names.count("TokenClaimed")
    assert queued == claimed == 4
    assert FORMAL.keys() == NAMES


@pytest.mark.spec("C-05", "C-07")
def test_the_001_view_is_the_log(log: list[Event]) -> None:
    for event, document in seen(log, "001"):
        plain = msgspec.to_builtins(event)
        assert {key: document[key] for key in plain} == plain
        assert document["trace_id"] == log[0].payload["trace_id"]


@pytest.mark.spec("LEG-EVT-03", "LEG-EVT-04")
def test_a_canonical_log_has_a_003_view() -> None:
    loaded = load(
        HEAD + "workflow:\n  - step: start\n    tool: {kind: noop}\n"
        "    next: {arcs: [{step: end}]}\n  - step: end\n"
    )
    assert loaded.playbook is not None
    execution = Simulation(loaded.playbook, lambda call: Outcome.ok(1))
    execution.run()
    kinds = [d["event_type"] for _, d in seen(execution.log, "003")]
    assert kinds[4:9] == [
        "step.started",
        "tool.started",
        "tool.processed",
        "step.finished",
        "next.evaluated",
    ]
