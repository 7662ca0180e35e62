"""Kind ``choose``, and the outcomes that templates read by label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.mark.spec("TPL-05", "NEXT-09")
def test_outcomes_by_label(run: Run) -> None:
    execution = run(
        """
        - step: start
          tool:
            - a: {kind: noop}
            - b: {kind: noop, result: "{{ _outcomes.a.result }}/{{ _outcomes.c.visits | default(0) }}"}
            - c:
                kind: noop
                spec:
                  policy:
                    rules:
                      - when: "{{ _outcomes.c.visits | default(0) < 1 }}"
                        then: {do: jump, to: b}
                      - else: {then: {do: continue}}
          next:
            arcs:
              - step: end
                when: "{{ _outcomes.c.visits == 2 and _outcomes.a.status == 'ok' }}"
                args: {a: "{{ _outcomes.a.result }}"}
        - step: end
          tool: {kind: noop}
        """,  # noqa: E501
        script={"a": ["x"]},
    )
    rendered = [c.inputs["result"] for c in execution.calls if c.task.label == "b"]
    assert rendered == ["x/0", "x/1"]
    [token] = execution.event("next.evaluated").payload["fired"]
    assert token["args"] == {"a": "x"}
    assert execution.playbook.steps["start"].keep == ("a", "c")


@pytest.mark.spec("DIR-12", "S-11")
def test_a_fail_may_say_why(run: Run) -> None:
    execution = run(
        """
        - step: start
          tool:
            kind: noop
            spec:
              policy:
                rules:
                  - else:
                      then:
                        do: fail
                        error: {kind: my.reason, message: "no {{ outcome.result }}"}
        """,
        script={"task_1": ["luck"]},
    )
    error = execution.state.error
    assert (error["kind"], error["message"]) == ("my.reason", "no luck")


@pytest.mark.spec("S-32")
def test_a_reason_that_is_none(run: Run) -> None:
    execution = run(
        """
        - step: start
          tool:
            kind: noop
            spec: {policy: {rules: [{else: {then: {do: fail, error: {kind: a.b}}}}]}}
        """
    )
    assert execution.state.error["kind"] == "template.error"
    assert "'message'" in execution.state.error["message"]


@pytest.mark.spec("S-55", "S-68")
def test_timers_with_invalid_durations(run: Run) -> None:
    execution = run(
        """
        - step: start
          tool: {kind: choose, wait: true, when: {a: false}, timers: {x: soon}}
        """
    )
    assert execution.state.error["kind"] == "tool.contract"
    assert "'soon' is not a duration" in execution.state.error["message"]


@pytest.mark.spec("S-39", "S-54")
def test_a_wait_survives_a_pause(prepare: Run) -> None:
    execution = prepare(
        """
        - step: start
          tool: {kind: choose, wait: true, when: {a: "{{ event.data.type == 'go' }}"}}
        """
    )
    execution.start()
    execution.step()
    execution.pause()
    execution.resume()
    execution.signal("go")
    while execution.step():
        pass
    execution.recover()
    assert execution.state.status == "completed"
