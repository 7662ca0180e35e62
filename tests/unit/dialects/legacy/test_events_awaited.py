"""``eval_mode: on_event``: a step that stays until something happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Execute = Callable[..., Any]

APPROVAL = """
- step: wait_for_approval
  spec: {eval_mode: on_event, case_mode: exclusive, timeout: 60s}
  case:
    - when: "{{ event.name == 'message.received' and event.data.type == 'approval' }}"
      then:
        - next: {to: [{step: process_approved, with: {by: "{{ event.data.by }}"}}]}
    - when: "{{ event.name == 'timer.fired' and event.data.timer_id == 'timeout' }}"
      then: [{next: {to: [{step: handle_timeout}]}}]
- step: process_approved
  tool: {kind: noop, result: "{{ by }}"}
- step: handle_timeout
  tool: {kind: noop}
"""


def begin(execute: Execute, text: str, script: Any = None) -> Any:
    """Until every pipeline waits; time does not pass."""
    execution = execute.kind(text, script or {})
    execution.start()
    proceed(execution)
    return execution


def proceed(execution: Any) -> None:
    while ready := list(execution.ready()):
        execution.move(*ready[0])
    execution.recover()


@pytest.mark.spec("LEG-CASE-08", "LEG-CASE-12", "LEG-CASE-13", "S-54", "ACC-13")
def test_an_approval(execute: Execute) -> None:
    execution = begin(execute, APPROVAL)
    assert execution.state.status == "running"
    assert not execution.state.finished
    execution.signal("remark", {"text": "soon"})
    proceed(execution)
    assert not execution.named("task.resumed")
    execution.signal("approval", {"by": "ann"})
    proceed(execution)
    assert execution.steps == ["wait_for_approval", "process_approved"]
    assert execution.state.result == "ann"


@pytest.mark.spec("LEG-CASE-13")
def test_the_type_may_stand_in_the_data(execute: Execute) -> None:
    execution = begin(execute, APPROVAL)
    execution.signal("form", {"type": "approval", "by": "bob"})
    proceed(execution)
    assert execution.state.result == "bob"


@pytest.mark.spec("LEG-CASE-14", "S-55", "ACC-13")
def test_a_timeout(execute: Execute) -> None:
    execution = execute(APPROVAL)
    assert execution.clock == 60.0
    assert execution.steps == ["wait_for_approval", "handle_timeout"]
    assert execution.state.status == "completed"


@pytest.mark.spec("S-55")
def test_a_timeout_that_no_branch_handles_fails_the_step(execute: Execute) -> None:
    execution = execute(APPROVAL.replace("timer_id == 'timeout'", "timer_id == 'x'"))
    assert execution.state.error["kind"] == "timeout"


@pytest.mark.spec("S-54")
def test_messages_that_came_before_are_offered_in_order(execute: Execute) -> None:
    text = """
    - step: first
      tool: {kind: http, url: "https://x.example"}
      next: [{step: wait}]
    - step: wait
      spec: {eval_mode: on_event}
      case:
        - when: "{{ event.data.type == 'go' }}"
          then: [{take: {tool: {kind: noop, result: "{{ event.data.n }}"}}}]
        - when: "{{ event.data.type == 'stop' }}"
          then: [{next: {to: [{step: end}]}}]
    - step: end
      tool: {kind: noop}
    """
    execution = execute.kind(text, {})
    execution.start()
    for name, data in (("other", {}), ("go", {"n": 1}), ("go", {"n": 2}), ("stop", {})):
        execution.signal(name, data)
    proceed(execution)
    taken = [c.inputs["result"] for c in execution.calls if c.task.label == "take"]
    assert taken == [1, 2]
    assert execution.steps == ["first", "wait", "end"]


@pytest.mark.spec("S-55")
def test_more_timers_are_armed_once(execute: Execute) -> None:
    execution = execute(
        """
        - step: wait
          spec: {eval_mode: on_event, timers: {remind: 10s, ignored: 15s, late: 25s}}
          case:
            - when: "{{ event.data.timer_id == 'remind' }}"
              then: [{remind: {tool: {kind: noop}}}]
            - when: "{{ event.data.timer_id == 'late' }}"
              then: [{next: {to: [{step: end}]}}]
        - step: end
          tool: {kind: noop}
        """
    )
    assert execution.ran == ["remind", "task_1"]
    assert execution.clock == 25.0


@pytest.mark.spec("LEG-CASE-11", "C-39")
def test_events_of_other_steps(execute: Execute) -> None:
    text = """
    - step: start
      next: [{step: watch}, {step: work}]
    - step: watch
      spec: {eval_mode: on_event}
      case:
        - when: "{{ event.name == 'task.done' and event.step == 'work' }}"
          then: [{seen: {tool: {kind: http, url: "https://x.example"}}}]
        - when: "{{ event.name == 'step.done' and event.step == 'work' }}"
          then: [{next: {to: [{step: end, with: {r: "{{ event.data.result }}"}}]}}]
    - step: work
      tool: {kind: http, url: "https://x.example"}
    - step: end
      tool: {kind: noop, result: "{{ r }}"}
    """
    execution = begin(execute, text, {"task_1": ["eight"]})
    assert execution.ran == ["task_1", "seen", "task_1"]
    assert execution.state.result == "eight"


@pytest.mark.spec("LEG-CASE-09", "C-39", "S-57")
@pytest.mark.parametrize(
    ("answer", "steps"),
    [
        pytest.param({"approved": True}, ["ask", "end"], id="the call says enough"),
        pytest.param({"approved": False}, ["ask"], id="the step waits on"),
    ],
)
def test_the_entry_tool_is_the_first_event(
    execute: Execute, answer: Any, steps: list[str]
) -> None:
    text = """
    - step: ask
      spec: {eval_mode: on_event}
      tool: {kind: http, url: "https://x.example"}
      case:
        - when: "{{ event.name == 'call.done' and result.approved }}"
          then: [{next: {to: [{step: end}]}}]
        - when: "{{ event.name == 'message.received' and result.approved is false }}"
          then: [{next: {to: [{step: end}]}}]
    - step: end
      tool: {kind: noop}
    """
    execution = begin(execute, text, {"call": [answer]})
    assert execution.steps == steps
    execution.signal("go")
    proceed(execution)
    assert execution.steps == ["ask", "end"]


@pytest.mark.spec("S-32", "LEG-CASE-11")
def test_a_condition_that_fails_fails_the_step(execute: Execute) -> None:
    text = APPROVAL.replace("event.data.type == 'approval'", "1 / event.data.n")
    execution = begin(execute, text)
    execution.signal("x", {"n": 0})
    proceed(execution)
    assert execution.state.error["kind"] == "template.error"


@pytest.mark.spec("S-55", "LEG-CASE-12")
def test_cancelling_ends_the_wait(execute: Execute) -> None:
    execution = begin(execute, APPROVAL)
    execution.cancel()
    assert execution.state.finished
    execution.signal("approval")
    assert execution.steps == ["wait_for_approval"]
