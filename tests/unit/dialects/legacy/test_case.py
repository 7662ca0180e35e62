"""``case``: which chains run, in which order, and what they see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Execute = Callable[..., Any]

LOOKUP = """
- step: process
  tool: {kind: http, url: "https://x.example/orders"}
  case:
    - when: "{{ result.rows | length > 0 }}"
      then: [{next: {to: [{step: process_order}]}}]
    - when: "{{ event.name == 'call.done' }}"
      then: [{next: {to: [{step: order_not_found}]}}]
- step: process_order
  tool: {kind: noop}
- step: order_not_found
  tool: {kind: noop}
"""


@pytest.mark.spec("LEG-CASE-01", "LEG-CASE-03", "LEG-CASE-09", "LEG-CASE-10", "ACC-13")
@pytest.mark.parametrize(
    ("answer", "target"),
    [
        pytest.param({"rows": [1]}, "process_order", id="the first condition"),
        pytest.param({"rows": []}, "order_not_found", id="the second one"),
    ],
)
def test_one_branch_fires(execute: Execute, answer: Any, target: str) -> None:
    execution = execute(LOOKUP, {"call": [answer]})
    assert execution.steps == ["process", target]
    assert execution.state.status == "completed"


@pytest.mark.spec("S-57", "C-39")
def test_a_failed_entry_tool_is_an_event(execute: Execute) -> None:
    text = LOOKUP.replace("event.name == 'call.done'", "event.name == 'call.error'")
    execution = execute(text, {"call": ["!connection"]})
    assert execution.steps == ["process", "order_not_found"]
    assert execution.state.status == "completed"


@pytest.mark.spec("S-57")
def test_a_failure_that_no_branch_asks_about_fails_the_step(execute: Execute) -> None:
    execution = execute(LOOKUP, {"call": ["!connection"]})
    assert execution.state.status == "failed"
    assert execution.state.error["kind"] == "connection"


BRANCHES = """
- step: work
  spec: {case_mode: MODE, branch_order: ORDER}
  tool: {kind: http, url: "https://x.example"}
  case:
    - when: "{{ result.a }}"
      priority: 1
      spec: {cache: true}
      then: [{a1: {tool: {kind: noop}}}, {a2: {tool: {kind: noop}}}]
    - when: "{{ result.b }}"
      then: [{b: {tool: {kind: noop}}}]
    - when: "{{ result.c }}"
      priority: 5
      then: [{c: {tool: {kind: noop}}}]
    - else: [{none: {tool: {kind: noop}}}]
"""


@pytest.mark.spec("LEG-CASE-02", "LEG-CASE-03", "LEG-CASE-05", "LEG-CASE-06", "C-41")
@pytest.mark.parametrize(
    ("mode", "order", "answer", "ran"),
    [
        pytest.param("exclusive", "source", "abc", ["a1", "a2"], id="exclusive"),
        pytest.param("exclusive", "priority", "abc", ["c"], id="the highest"),
        pytest.param("inclusive", "source", "abc", ["a1", "a2", "b", "c"], id="all"),
        pytest.param("inclusive", "source", "bc", ["b", "c"], id="those that hold"),
        pytest.param(
            "inclusive", "priority", "abc", ["c", "a1", "a2", "b"], id="by priority"
        ),
        pytest.param("exclusive", "source", "", ["none"], id="else"),
        pytest.param("inclusive", "source", "", ["none"], id="else of inclusive"),
    ],
)
@pytest.mark.spec("LEG-CASE-07", "LEG-CASE-16")
def test_branches(
    execute: Execute, mode: str, order: str, answer: str, ran: list[str]
) -> None:
    text = BRANCHES.replace("MODE", mode).replace("ORDER", order)
    execution = execute(text, {"call": [dict.fromkeys(answer, True)]})
    assert execution.ran[1:] == ran


@pytest.mark.spec("LEG-CASE-04")
def test_the_firing_set_is_fixed_before_the_first_chain_runs(execute: Execute) -> None:
    execution = execute(
        """
        - step: work
          spec: {case_mode: inclusive}
          tool: {kind: noop, result: {a: true}}
          case:
            - when: "{{ vars.stop is not defined }}"
              then: [{first: {tool: {kind: noop}, vars: {stop: true}}}]
            - when: "{{ vars.stop is not defined }}"
              then: [{second: {tool: {kind: noop}}}]
        """
    )
    assert execution.ran == ["call", "first", "second"]
    assert execution.state.ctx["vars"] == {"stop": True}


@pytest.mark.spec("LEG-CASE-15", "C-17")
def test_a_case_without_an_entry_tool(execute: Execute) -> None:
    execution = execute(
        """
        - step: work
          case:
            - when: "{{ go }}"
              then: [{a: {tool: {kind: noop, result: 1}}}, {next: {to: [{step: end}]}}]
        - step: end
          tool: {kind: noop, result: "{{ a.result }}"}
        ---
        workload: {go: true}
        """
    )
    assert execution.steps == ["work", "end"]
    assert execution.state.result == 1


@pytest.mark.spec("S-57")
def test_without_a_match_the_step_is_done(execute: Execute) -> None:
    execution = execute(
        """
        - step: work
          tool: {kind: noop, result: 7}
          case: [{when: "{{ result > 9 }}", then: [{a: {tool: {kind: noop}}}]}]
        """
    )
    assert execution.ran == ["call"]
    assert (execution.state.status, execution.state.result) == ("completed", 7)


@pytest.mark.spec("LEG-CASE-17", "LEG-CASE-18", "LEG-CASE-19", "LEG-CASE-21", "C-34")
def test_what_chains_see(execute: Execute) -> None:
    execution = execute(
        """
        - step: work
          tool: {kind: noop, result: {id: 3}}
          case:
            - when: "{{ result.id == order_id and event.name == 'call.done' }}"
              then:
                - compute: {tool: {kind: noop, result: "{{ result.id + total }}"}}
                - sink: {tool: {kind: noop, result: "{{ compute.result }} 'compute'"}}
                - tell:
                    tool: {kind: noop, result: "{{ event.name }} {{ sink.result }}"}
        ---
        workload: {order_id: 3, total: 4}
        """
    )
    assert execution.state.result == "call.done 7 'compute'"


@pytest.mark.spec("LEG-CASE-20", "LEG-CASE-19")
def test_results_of_earlier_steps(execute: Execute) -> None:
    execution = execute(
        """
        - step: fetch
          tool: {kind: noop, result: {result: 5, other: 6}}
          next: [{step: work}]
        - step: work
          tool: {kind: noop, result: 8}
          case:
            - when: "{{ fetch.data.result == 5 }}"
              then: [{t: {tool: {kind: noop, result: 9}}}, {next: {to: [{step: end}]}}]
        - step: end
          tool:
            kind: noop
            result: "{{ fetch.data.other }} {{ work.data.result }} {{ t.result }}"
        """
    )
    assert execution.state.result == "6 8 9"


@pytest.mark.spec("LEG-CASE-20", "LEG-STEP-06", "LEG-STEP-07", "C-23", "C-24")
def test_results_of_a_loop(execute: Execute) -> None:
    execution = execute(
        """
        - step: each
          loop:
            collection: "{{ [1, 2, 3] }}"
            element: item
            spec: {mode: parallel, batch_size: 2, on_error: continue}
          tool: {kind: http, url: "https://x.example/{{ item }}"}
          next: [{step: end}]
        - step: end
          tool: {kind: noop, result: "{{ each.data }}"}
        """,
        {"call": ["!timeout", "b", "c"]},
    )
    assert execution.state.result == [None, "b", "c"]
    loop = execution.playbook.steps["each"].loop
    assert loop.max_in_flight == 2


@pytest.mark.spec("LEG-CASE-16", "LEG-RETRY-09", "S-60")
def test_a_case_in_each_iteration_of_a_loop(execute: Execute) -> None:
    execution = execute(
        """
        - step: each
          loop: {collection: [1, 2], element: item}
          tool: {kind: noop, result: "{{ item * 10 }}"}
          case:
            - when: "{{ result > 10 }}"
              then: [{big: {tool: {kind: noop, result: "{{ result + item }}"}}}]
        """
    )
    assert execution.ran == ["call", "call", "big"]
    assert execution.state.result == [10, 22]
    assert len({call.action_id for call in execution.calls}) == 3
