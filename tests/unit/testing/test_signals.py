"""Signals of a test: at a time, or when somebody waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Judge = Callable[..., Any]

FLOW = """
- step: s
  tool:
    - ask: {kind: wait, signal: go, timeout: 1h}
    - work: {kind: noop, result: "{{ _prev }}"}
"""


@pytest.mark.parametrize(
    ("signals", "expect"),
    [
        pytest.param(
            "[{signal: go, data: {by: ada}}]",
            "{result: {by: ada}, duration: 0}",
            id="when it is waited for",
        ),
        pytest.param(
            "[{signal: go, at: 5m}]", "{result: null, duration: 5m}", id="at a time"
        ),
        pytest.param(
            "[{signal: stop}, {signal: go, data: 1}]",
            "{result: 1}",
            id="the one that is waited for",
        ),
        pytest.param(
            "[{signal: go, data: 1}, {signal: go, data: 2}]",
            "{result: 1}",
            id="the first of two",
        ),
        pytest.param(
            "[{signal: go, at: 2h}]", "{error: timeout, duration: 1h}", id="too late"
        ),
        pytest.param(
            "[{signal: stop, at: 1s, refused: true}]",
            "{error: timeout, duration: 1h}",
            id="another one",
        ),
        pytest.param("[]", "{error: timeout}", id="none"),
    ],
)
def test_a_signal(judge: Judge, signals: str, expect: str) -> None:
    judged = judge(FLOW, f"signals: {signals}\nexpect: {expect}")

    assert judged.passed, judged.messages


@pytest.mark.parametrize(
    ("signal", "message"),
    [
        pytest.param(
            "{signal: gp, at: 1s}",
            "the signal is refused: nothing in this playbook waits for signal 'gp'; "
            "the execution waits for signal 'go' until 2026-01-01T01:00:00.000000Z "
            "(s.ask)",
            id="refused",
        ),
        pytest.param(
            "{signal: go, refused: true}",
            "signal 'go' was expected to be refused, but was accepted",
            id="taken",
        ),
    ],
)
def test_a_signal_is_taken_or_refused_as_the_case_says(
    judge: Judge, signal: str, message: str
) -> None:
    judged = judge(FLOW, f"signals: [{signal}]\nexpect: {{result: 1}}")

    assert judged.messages == [message]


def test_a_case_has_its_own_signals_or_those_of_the_file(judge: Judge) -> None:
    shared = "signals: [{signal: go, data: file}]"

    assert judge(FLOW, "expect: {result: file}", shared=shared).passed
    own = "signals: [{signal: go, data: case}]\nexpect: {result: case}"
    assert judge(FLOW, own, shared=shared).passed


def test_one_signal_for_each_that_waits(judge: Judge) -> None:
    flow = """
        - step: s
          loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
          tool: {kind: wait, signal: go}
    """
    two = "signals: [{signal: go, data: a}, {signal: go, data: b}]"

    assert judge(flow, f"{two}\nexpect: {{result: [a, b]}}").passed
    assert judge(flow, "signals: [{signal: go}]\nexpect: {status: waiting}").passed


def test_a_wait_can_be_scripted_too(judge: Judge) -> None:
    case = "tasks: {s.ask: {result: at once}}\nexpect: {result: at once, duration: 0}"

    assert judge(FLOW, case).passed


def test_a_timer_passes_in_virtual_time(judge: Judge) -> None:
    flow = "- {step: s, tool: [{w: {kind: wait, for: 30d}}, {n: {kind: noop}}]}"

    assert judge(flow, "expect: {duration: 30d, calls: {s.w: 1}}").passed
