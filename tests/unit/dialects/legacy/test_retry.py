"""``retry`` and ``poll``: scopes, inheritance, waits, and what they leave alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Execute = Callable[..., Any]
ONE = """
- step: work
  tool: {kind: http, url: "https://x.example", TOOL}
  STEP
"""


@pytest.mark.spec("LEG-RETRY-01", "LEG-RETRY-02", "LEG-RETRY-10", "LEG-RETRY-05")
@pytest.mark.spec("LEG-STEP-04", "C-28", "C-29", "LEG-RETRY-04")
@pytest.mark.parametrize(
    ("tool", "step", "calls"),
    [
        pytest.param("retry: {max_attempts: 4}", "", 4, id="the tool's own"),
        pytest.param("spec: {retry: 2}", "case: []", 2, id="its short form"),
        pytest.param("desc: x", "retry: {max_attempts: 5}", 5, id="the step's"),
        pytest.param(
            "desc: x", "retry: {scope: step, max_attempts: 5}", 5, id="of a simple step"
        ),
        pytest.param(
            "retry: {max_attempts: 2}", "retry: {max_attempts: 5}", 2, id="inner wins"
        ),
        pytest.param("desc: x", "spec: {on_error: retry}", 3, id="the runtime's"),
        pytest.param("desc: x", "", 1, id="none"),
    ],
)
def test_how_often_a_call_is_made(
    execute: Execute, tool: str, step: str, calls: int
) -> None:
    text = ONE.replace(", TOOL", f", {tool}").replace("STEP", step)
    text = text.replace(", desc: x", "")
    label = "call" if calls > 1 or step else "task_1"
    execution = execute(text, {label: ["!connection"]})
    assert execution.ran == [label] * calls
    assert [call.attempt for call in execution.calls] == list(range(1, calls + 1))
    assert len({call.action_id for call in execution.calls}) == 1
    assert execution.state.error["kind"] == "connection"


@pytest.mark.spec("LEG-RETRY-06", "C-27")
@pytest.mark.parametrize(
    ("backoff", "seconds"),
    [
        pytest.param("{type: fixed, delay_seconds: 2}", 2 * 4, id="fixed"),
        pytest.param("{type: linear, delay_seconds: 2}", 2 + 4 + 6 + 8, id="linear"),
        pytest.param("{delay_seconds: 1}", 1 + 2 + 4 + 8, id="exponential"),
        pytest.param(
            "{type: exponential, delay_seconds: 1, max_delay_seconds: 3}",
            1 + 2 + 3 + 3,
            id="bounded",
        ),
    ],
)
def test_backoff(execute: Execute, backoff: str, seconds: float) -> None:
    retry = f"retry: {{max_attempts: 5, backoff: {backoff}}}"
    execution = execute(
        ONE.replace("TOOL", retry).replace("STEP", ""), {"call": ["!connection"]}
    )
    assert execution.clock == seconds


@pytest.mark.spec("LEG-RETRY-06", "C-27")
def test_jitter_is_the_same_in_every_replay(execute: Execute) -> None:
    retry = "retry: {max_attempts: 3, backoff: {delay_seconds: 10, jitter: true}}"
    text = ONE.replace("TOOL", retry).replace("STEP", "")
    one, other = (execute(text, {"call": ["!connection"]}) for _ in range(2))
    assert one.clock == other.clock
    delays = [
        event.payload["directive"]["delay"]
        for event in one.named("task.done")
        if event.payload["directive"]["do"] == "retry"
    ]
    assert 5 <= delays[0] <= 10 <= delays[1] <= 20
    assert delays[1] != 2 * delays[0]


@pytest.mark.spec("LEG-RETRY-07")
@pytest.mark.parametrize(
    ("on", "answer", "calls"),
    [
        pytest.param("error", 503, 3, id="any error"),
        pytest.param("status_code", 503, 3, id="a status"),
        pytest.param("status_code", "!connection", 1, id="no status"),
        pytest.param("exception", "!connection", 3, id="an exception"),
        pytest.param("exception", 503, 1, id="no exception"),
        pytest.param("[502, 503]", 503, 3, id="one of the codes"),
        pytest.param("[502]", 503, 1, id="another code"),
    ],
)
def test_what_is_retried(execute: Execute, on: str, answer: Any, calls: int) -> None:
    text = ONE.replace("TOOL", f"retry: {{on: {on}}}").replace("STEP", "")
    assert execute(text, {"call": [answer]}).ran == ["call"] * calls


CHAIN = """
- step: transactional
  tool: {kind: noop}
  RETRY_OF_STEP
  case:
    - when: "{{ event.name == 'call.done' }}"
      retry: {scope: chain, max_attempts: 3, BACKOFF}
      then:
        - step_a: {tool: {kind: http, url: "https://x.example"}}
        - step_b: {tool: {kind: http, url: "https://x.example"}}
        - next: {to: [{step: end}]}
- step: end
  tool: {kind: noop}
"""


@pytest.mark.spec("LEG-RETRY-03", "ACC-13")
def test_a_chain_is_repeated_as_a_whole(execute: Execute) -> None:
    text = CHAIN.replace("RETRY_OF_STEP", "").replace(
        "BACKOFF", "backoff: {type: fixed, delay_seconds: 7}"
    )
    execution = execute(text, {"step_b": ["!connection", "!connection", 1]})
    assert execution.ran[1:-1] == ["step_a", "step_b"] * 3
    assert execution.clock == 14.0
    assert execution.steps == ["transactional", "end"]


@pytest.mark.spec("LEG-RETRY-03", "LEG-RETRY-05", "S-58")
def test_a_chain_that_never_succeeds(execute: Execute) -> None:
    text = CHAIN.replace("RETRY_OF_STEP", "retry: {max_attempts: 9}")
    text = text.replace(", BACKOFF", "")
    execution = execute(text, {"step_a": ["!connection"]})
    assert execution.ran[1:] == ["step_a"] * 3
    assert execution.state.error["kind"] == "connection"


@pytest.mark.spec("LEG-RETRY-05")
def test_what_calls_of_a_chain_inherit(execute: Execute) -> None:
    execution = execute(
        """
        - step: work
          spec: {case_mode: inclusive, on_error: ignore}
          retry: {max_attempts: 2}
          case:
            - when: "{{ true }}"
              retry: {max_attempts: 3}
              then:
                - own:
                    tool: {kind: http, url: "https://x.example"}
                    retry: {max_attempts: 4}
                - chain: {tool: {kind: http, url: "https://x.example"}}
            - when: "{{ true }}"
              then: [{step: {tool: {kind: http, url: "https://x.example"}}}]
        """,
        {"own": ["!x.y"], "chain": ["!x.y"], "step": ["!x.y"]},
    )
    assert execution.ran == ["own"] * 4 + ["chain"] * 3 + ["step"] * 2
    assert execution.state.status == "completed"


@pytest.mark.spec("S-58", "LEG-STEP-03")
@pytest.mark.parametrize(
    ("on_error", "ran", "status"),
    [
        pytest.param("fail", ["a"], "failed", id="fail"),
        pytest.param("ignore", ["a", "b", "c"], "completed", id="ignore"),
        pytest.param("retry", ["a", "a", "a"], "failed", id="retry"),
    ],
)
def test_a_failing_chain(
    execute: Execute, on_error: str, ran: list[str], status: str
) -> None:
    execution = execute(
        f"""
        - step: work
          spec: {{case_mode: inclusive, on_error: {on_error}}}
          case:
            - when: "{{{{ true }}}}"
              then:
                - a: {{tool: {{kind: http, url: "https://x.example"}}}}
                - b: {{tool: {{kind: noop}}}}
            - when: "{{{{ true }}}}"
              then: [{{c: {{tool: {{kind: noop}}}}}}]
        """,
        {"a": ["!connection"]},
    )
    assert (execution.ran, execution.state.status) == (ran, status)


READY = """
- step: wait
  case:
    - when: "{{ true }}"
      then:
        - wait_for_ready:
            tool: {kind: http, url: "https://x.example/status"}
            retry: {on: error, max_attempts: 3}
            poll:
              until: "{{ result.status == 'ready' }}"
              interval: 5s
              max_attempts: MOST
              deadline: LIMIT
        - next: {to: [{step: end}]}
- step: end
  tool: {kind: noop}
"""
BUSY, DONE = {"status": "busy"}, {"status": "ready"}


@pytest.mark.spec("LEG-POLL-01", "LEG-POLL-02", "LEG-POLL-03", "S-59", "ACC-13")
@pytest.mark.parametrize(
    ("answers", "most", "limit", "seconds", "error"),
    [
        pytest.param([DONE], 60, "300s", 0, None, id="ready at once"),
        pytest.param([BUSY, BUSY, DONE], 60, "300s", 10, None, id="ready later"),
        pytest.param([BUSY], 3, "300s", 10, "poll.timeout", id="too often"),
        pytest.param([BUSY], 60, "12s", 15, "poll.timeout", id="too long"),
        pytest.param(
            ["!connection", BUSY, "!connection", "!connection", DONE],
            2,
            "300s",
            5,
            None,
            id="errors are the retry's, and count for themselves",
        ),
        pytest.param(
            [BUSY, "!connection"], 60, "300s", 5, "connection", id="retries are used up"
        ),
    ],
)
def test_polling(
    execute: Execute,
    answers: list[Any],
    most: int,
    limit: str,
    seconds: float,
    error: str | None,
) -> None:
    text = READY.replace("MOST", str(most)).replace("LIMIT", limit)
    execution = execute(text, {"wait_for_ready": answers})
    assert execution.clock == seconds
    found = execution.state.error
    assert (found["kind"] if found else None) == error
    assert execution.steps == (["wait", "end"] if error is None else ["wait"])


@pytest.mark.spec("S-60", "LEG-RETRY-09", "LEG-RETRY-10")
def test_each_poll_is_an_action_of_its_own(execute: Execute) -> None:
    text = READY.replace("MOST", "9").replace("LIMIT", "300s")
    answers = ["!connection", BUSY, DONE]
    execution = execute(text, {"wait_for_ready": answers})
    polls = [c for c in execution.calls if c.task.label == "wait_for_ready"]
    assert [call.attempt for call in polls] == [1, 2, 1]
    assert polls[0].action_id == polls[1].action_id != polls[2].action_id


@pytest.mark.spec("S-59", "S-57")
def test_an_entry_tool_that_is_polled_in_vain(execute: Execute) -> None:
    text = """
    - step: wait
      tool: {kind: http, url: "https://x.example/status"}
      poll: {until: "{{ result.status == 'ready' }}", interval: 1s, max_attempts: 2}
      case:
        - when: "{{ event.name == 'CALL' }}"
          then: [{next: {to: [{step: end}]}}]
    - step: end
      tool: {kind: noop}
    """
    handled = execute(text.replace("CALL", "call.error"), {"call": [BUSY]})
    assert handled.steps == ["wait", "end"]
    failed = execute(text.replace("CALL", "call.done"), {"call": [BUSY]})
    assert failed.state.error["kind"] == "poll.timeout"
    ready = execute(text.replace("CALL", "call.done"), {"call": [BUSY, DONE]})
    assert ready.steps == ["wait", "end"]
