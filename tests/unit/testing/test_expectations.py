"""Each expectation: a run that is as expected, and one that is not, with its words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Judge = Callable[..., Any]

FLOW = """
- step: start
  tool:
    - fetch:
        kind: http
        url: "http://x/{{ workload.page | default(1) }}"
        spec:
          policy:
            rules:
              - when: "{{ outcome.error.retryable }}"
                then: {do: retry, attempts: 3, delay: 2}
              - when: "{{ outcome.status == 'error' }}"
                then: {do: fail}
              - else: {then: {do: continue, set_ctx: {n: "{{ outcome.result }}"}}}
  next:
    arcs:
      - {step: each, when: "{{ event.name == 'step.done' }}"}
- step: each
  loop: {in: [1, 2, 3], iterator: x}
  tool:
    - work: {kind: python, args: {x: "{{ iter.x }}"}, code: "result = 1"}
  next:
    arcs:
      - {step: end, when: "{{ event.name == 'loop.done' }}"}
      - {step: sorry, when: "{{ event.name == 'step.failed' }}"}
- {step: end, tool: {kind: noop, result: "{{ ctx.n }}"}}
- {step: sorry, tool: {kind: noop, result: sorry}}
"""
GOOD = "{start: {result: 7}, each: {result: 1}}"
BROKEN = (
    "{start: {result: 7}, each: [{iteration: 1, error: {kind: oops}}, {result: 1}]}"
)
DOWN = "{start: {http: 503}}"
REFUSED = "{start: {http: 403}}"


@pytest.mark.parametrize(
    ("tasks", "good", "bad", "message"),
    [
        pytest.param(
            GOOD,
            "status: completed",
            "status: failed",
            "status: expected failed, found completed",
            id="status",
        ),
        pytest.param(
            REFUSED,
            "status: failed",
            "path: [start]",
            "status: expected completed, found failed (http.client in step 'start': "
            "403 from the scripted server)",
            id="success is expected unless told",
        ),
        pytest.param(
            REFUSED,
            "error: http.client",
            "error: http.server",
            'error.kind: expected "http.server", found "http.client"',
            id="error by kind",
        ),
        pytest.param(
            REFUSED,
            "error: {kind: http.client, message: '403', step: start, task: fetch}",
            "error: {message: '404'}",
            'error.message: expected a text with "404", found '
            '"403 from the scripted server"',
            id="error by part of its message",
        ),
        pytest.param(
            REFUSED,
            "error: {details: {body: null}, retryable: false}",
            "error: {retryable: true}",
            "error.retryable: expected true, found false",
            id="error by its members",
        ),
        pytest.param(
            GOOD,
            "error: null",
            "error: timeout",
            'error: expected "timeout", found none',
            id="no error",
        ),
        pytest.param(
            REFUSED,
            "error: {kind: {$regex: ^http}}",
            "{status: failed, error: null}",
            "error: expected none, found http.client in step 'start': 403 from the "
            "scripted server",
            id="an error where none is expected",
        ),
        pytest.param(
            GOOD,
            "result: 7",
            "result: 8",
            "result: expected 8, found 7",
            id="result",
        ),
        pytest.param(
            GOOD,
            "ctx: {n: 7}",
            "ctx: {n: 7, m: 1}",
            "ctx.m: expected 1, found no such key",
            id="ctx, a key too much",
        ),
        pytest.param(
            GOOD,
            "ctx: {$subset: {}}",
            "ctx: {}",
            "ctx.n: expected no such key, found 7",
            id="ctx, a key too few",
        ),
        pytest.param(
            GOOD,
            "path: [start, each, end]",
            "path: [start, each, sorry]",
            'path[2]: expected "sorry", found "end"',
            id="path",
        ),
        pytest.param(
            DOWN,
            "{status: failed, calls: {start.fetch: 3, end: 0}}",
            "{status: failed, calls: {start: 2}}",
            "calls.start: expected 2, found 3",
            id="calls, counted",
        ),
        pytest.param(
            GOOD,
            "calls: {each: {$at_least: 3}}",
            "calls: {each: {count: {$at_most: 2}}}",
            "calls.each.count: expected $at_most 2, found 3",
            id="calls, bounded",
        ),
        pytest.param(
            GOOD,
            "calls: {each: {inputs: {$contains: {$subset: {args: {x: 2}}}}}}",
            "calls: {start: {inputs: [{url: 'http://x/2'}]}}",
            'calls.start.inputs[0].url: expected "http://x/2", found "http://x/1"',
            id="calls, by their inputs",
        ),
        pytest.param(
            GOOD,
            "calls: {each: {nth: [{call: 2, inputs: {$subset: {args: {x: 2}}}}]}}",
            "calls: {each: {nth: [{call: 2, inputs: {$subset: {args: {x: 3}}}}]}}",
            "calls.each.inputs of call 2.args.x: expected 3, found 2",
            id="calls, the n-th",
        ),
        pytest.param(
            GOOD,
            "calls: {each: {nth: [{call: 3, inputs: {$any: true}}]}}",
            "calls: {each: {nth: [{call: 4, inputs: {$any: true}}]}}",
            "calls.each.inputs of call 4: expected a call, found 3 calls",
            id="calls, one that was not made",
        ),
        pytest.param(
            BROKEN,
            "iterations: {each: {total: 3, done: 1, failed: 1, skipped: 1}}",
            "iterations: {each: {failed: 0}}",
            "iterations.each.failed: expected 0, found 1",
            id="iterations",
        ),
        pytest.param(
            DOWN,
            "{status: failed, events: [task.started, {name: task.done, attempt: 3, "
            "payload: {$subset: {directive: {do: fail}}}}, step.failed]}",
            "{status: failed, events: [step.failed, {name: task.done, step: start}]}",
            'events[1]: expected {"name":"task.done","step":"start"}, '
            'found none after "step.failed"',
            id="events, in their order",
        ),
        pytest.param(
            GOOD,
            "events: [{name: step.done, step: end, status: success}]",
            "events: [{name: step.done, step: sorry}]",
            'events[0]: expected {"name":"step.done","step":"sorry"}, '
            "found none after the start",
            id="events, by step",
        ),
        pytest.param(
            DOWN,
            "{status: failed, duration: 4s}",
            "{status: failed, duration: 5}",
            "duration: expected 5 s, found 4 s",
            id="duration",
        ),
        pytest.param(
            DOWN,
            "{status: failed, duration: {$at_least: 4s, $at_most: 4s}}",
            "{status: failed, duration: {$at_least: 1s, $at_most: 3900ms}}",
            "duration: expected $at_most 3.9 s, found 4 s",
            id="duration, bounded",
        ),
        pytest.param(
            GOOD,
            "never: [sorry]",
            "never: [end]",
            "never end: expected none, found 1 run of step 'end'",
            id="a step that never runs",
        ),
        pytest.param(
            GOOD,
            "never: [sorry.task_1]",
            "never: [each.work]",
            "never each.work: expected none, found 3 calls of each.work",
            id="a task that is never called",
        ),
    ],
)
def test_holds_or_says_why_not(
    judge: Judge, tasks: str, good: str, bad: str, message: str
) -> None:
    held = judge(FLOW, f"tasks: {tasks}\nexpect: {braced(good)}")
    missed = judge(FLOW, f"tasks: {tasks}\nexpect: {braced(bad)}")

    assert held.passed, held.messages
    assert missed.messages == [message]


def braced(text: str) -> str:
    return text if text.startswith("{") else f"{{{text}}}"


def test_every_expectation_is_judged_and_every_difference_said(judge: Judge) -> None:
    case = f"tasks: {GOOD}\nexpect: {{result: 8, ctx: {{n: 9}}, path: [start]}}"

    assert len(judge(FLOW, case).messages) == 4


def test_a_run_that_cannot_go_on_is_waiting(judge: Judge) -> None:
    flow = "- {step: ask, tool: {kind: wait, signal: go}}"

    assert judge(flow, "expect: {status: waiting}").passed
    assert judge(flow, "expect: {}").messages == [
        "status: expected completed, found waiting"
    ]
