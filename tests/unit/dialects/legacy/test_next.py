"""``next`` as a control action: policies, winners, suppression, delays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Execute = Callable[..., Any]

FIXTURE = """
- step: work
  spec: {case_mode: inclusive, next_policy: POLICY}
  tool: {kind: noop, result: 1}
  case:
    - when: "{{ result == 1 }}"
      then:
        - a: {tool: {kind: noop}}
        - next: {to: [{step: low}]}
        AFTER
    - when: "{{ result == 1 }}"
      then:
        - b: {tool: {kind: noop}}
        - next: {to: [{step: high}], priority: 10}
    - when: "{{ result == 1 }}"
      then:
        - c: {tool: {kind: noop}}
- step: low
  tool: {kind: noop}
- step: high
  tool: {kind: noop}
"""


@pytest.mark.spec(
    "ACC-14", "LEG-NEXT-02", "LEG-NEXT-03", "LEG-NEXT-04", "LEG-NEXT-05", "LEG-NEXT-06"
)
@pytest.mark.spec("LEG-NEXT-07", "LEG-NEXT-08", "C-43", "LEG-NEXT-01")
@pytest.mark.parametrize(
    ("policy", "ran", "winner"),
    [
        pytest.param("end_step", ["a"], "low", id="the first one ends the step"),
        pytest.param("break_chain", ["a", "b", "c"], "high", id="it ends its chain"),
        pytest.param("defer", ["a", "d", "b", "c"], "high", id="it ends nothing"),
    ],
)
def test_policies(execute: Execute, policy: str, ran: list[str], winner: str) -> None:
    after = "- d: {tool: {kind: noop}}" if policy == "defer" else ""
    text = FIXTURE.replace("POLICY", policy).replace("AFTER", after)
    execution = execute(text)
    assert execution.ran[1:-1] == ran
    assert execution.steps == ["work", winner]
    wishes = [
        event.payload["outcome"]["noop"]["note"]["next"]
        for event in execution.named("task.done")
        if "next" in event.payload["outcome"].get("noop", {}).get("note", {})
    ]
    reached = ["low"] if policy == "end_step" else ["low", "high"]
    assert [wish["to"][0]["step"] for wish in wishes] == reached


@pytest.mark.spec("LEG-NEXT-08", "C-43")
def test_without_priorities_the_first_one_reached_wins(execute: Execute) -> None:
    text = FIXTURE.replace("POLICY", "defer").replace("AFTER", "")
    assert execute(text.replace(", priority: 10", "")).steps == ["work", "low"]


@pytest.mark.spec("LEG-NEXT-12", "C-43")
def test_a_next_may_have_its_own_policy(execute: Execute) -> None:
    text = FIXTURE.replace("POLICY", "end_step").replace("AFTER", "")
    text = text.replace("[{step: low}]", "[{step: low}], policy: defer")
    execution = execute(text)
    assert execution.ran[1:-1] == ["a", "b"]
    assert execution.steps == ["work", "high"]


@pytest.mark.spec("LEG-NEXT-11", "C-32", "C-33")
def test_several_targets_fork(execute: Execute) -> None:
    execution = execute(
        """
        - step: work
          tool: {kind: noop, result: {id: 4}}
          case:
            - when: "{{ true }}"
              then:
                - next: {to: [{step: a, with: {id: "{{ result.id }}"}}, {step: b}]}
        - step: a
          tool: {kind: noop, result: "{{ id }}"}
        - step: b
          tool: {kind: noop}
        """
    )
    assert execution.fired == [("a", {"id": 4}), ("b", {})]


@pytest.mark.spec("LEG-NEXT-14")
@pytest.mark.parametrize(("valid", "target"), [(True, "success"), (False, "failure")])
def test_a_target_may_be_a_template(execute: Execute, valid: bool, target: str) -> None:
    execution = execute(
        """
        - step: work
          tool: {kind: noop, result: {valid: VALID}}
          case:
            - when: "{{ true }}"
              then:
                - next: {to: [{step: "{{ 'success' if result.valid else 'failure' }}"}]}
        - step: success
          tool: {kind: noop}
        - step: failure
          tool: {kind: noop}
        """.replace("VALID", str(valid).lower())
    )
    assert execution.steps == ["work", target]
    assert execution.state.status == "completed"


@pytest.mark.spec("LEG-NEXT-14")
def test_a_target_that_no_text_spells_out(execute: Execute) -> None:
    execution = execute(
        """
        - step: work
          tool: {kind: noop, result: 1}
          case: [{when: "{{ true }}", then: [{next: {to: [{step: "{{ where }}"}]}}]}]
        - step: a
          tool: {kind: noop}
        - step: b
          tool: {kind: noop}
        ---
        workload: {where: b}
        """
    )
    assert execution.steps == ["work", "b"]


@pytest.mark.spec("LEG-NEXT-13", "S-56", "C-26")
@pytest.mark.parametrize("policy", ["end_step", "break_chain"])
def test_a_delayed_transition(execute: Execute, policy: str) -> None:
    execution = execute(
        f"""
        - step: work
          spec: {{next_policy: {policy}}}
          tool: {{kind: noop, result: 5}}
          case:
            - when: "{{{{ true }}}}"
              then: [{{next: {{spec: {{delay: 90s}}, to: [{{step: end}}]}}}}]
        - step: end
          tool: {{kind: noop}}
        """
    )
    assert execution.clock == 90.0
    assert execution.steps == ["work", "end"]
    [suspended] = execution.named("task.suspended")
    assert suspended.payload["until"] == "1970-01-01T00:01:30.000000Z"
    [done, _] = execution.named("step.done")
    assert done.payload["result"] == 5


@pytest.mark.spec("S-57")
@pytest.mark.parametrize(
    ("value", "steps"),
    [
        pytest.param(1, ["work", "chosen"], id="a next was reached"),
        pytest.param(2, ["work", "other"], id="none was"),
    ],
)
def test_a_router_beside_the_case(execute: Execute, value: int, steps: Any) -> None:
    text = """
    - step: work
      tool: {kind: noop, result: VALUE}
      case: [{when: "{{ result == 1 }}", then: [{next: {to: TO}}]}]
      next: {arcs: [{step: other}]}
    - step: chosen
      tool: {kind: noop}
    - step: other
      tool: {kind: noop}
    """.replace("VALUE", str(value))
    assert execute(text.replace("TO", "[{step: chosen}]")).steps == steps
    forked = execute(text.replace("TO", "[{step: chosen}, {step: chosen}]"))
    assert set(forked.steps) == set(steps)


@pytest.mark.spec("LEG-NEXT-15", "C-19")
@pytest.mark.parametrize(
    "router", ["[{step: a}, {step: b}]", "{to: [{step: a}, {step: b}]}"]
)
def test_older_routers_of_a_plain_step(execute: Execute, router: str) -> None:
    execution = execute(
        f"""
        - step: work
          tool: {{kind: noop}}
          next: {router}
        - step: a
          tool: {{kind: noop}}
        - step: b
          tool: {{kind: noop}}
        """
    )
    assert execution.steps == ["work", "a", "b"]


@pytest.mark.spec("LEG-NEXT-01")
def test_a_next_inside_a_loop_is_refused(loaded: Callable[..., Any]) -> None:
    found = loaded(
        """
        - step: work
          loop: {collection: [1], element: x}
          tool: {kind: noop}
          case: [{when: "{{ true }}", then: [{next: {to: [{step: work}]}}]}]
        """
    )
    assert [(d.code, d.rule) for d in found.diagnostics if d.severity == "error"] == [
        ("LEG-NEXT-01", "looped-next")
    ]


@pytest.mark.spec("LEG-NEXT-02")
def test_what_comes_after_a_next_is_warned_about(loaded: Callable[..., Any]) -> None:
    text = FIXTURE.replace("POLICY", "end_step")
    text = text.replace("AFTER", "- d: {tool: {kind: noop}}")
    assert "after-next" in [found.rule for found in loaded(text).diagnostics]
