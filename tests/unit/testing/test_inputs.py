"""Inputs of a case: those that do not fit the playbook are refused as by ``run``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.spec("S-72")
Judge = Callable[..., Any]

DECLARED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: orders
  path: c
  inputs:
    type: object
    required: [region]
    additionalProperties: false
    properties: {region: {enum: [eu, us]}, limit: {type: integer, default: 5}}
workflow:
  - {step: start, tool: {kind: noop, result: "{{ region }} {{ limit }}"}}
"""
CALL = """
- step: start
  tool:
    - call:
        kind: playbook
        path: c
        args: {regoin: eu}
"""


def test_a_case_with_inputs_that_do_not_fit_fails_with_the_reason(
    judge: Judge,
) -> None:
    judged = judge(DECLARED, "workload: {region: asia, limit: 1}\nexpect: {}")

    [message] = judged.messages
    assert "status: expected completed, found failed" in message
    assert "inputs.invalid" in message
    assert "'region' must be one of 'eu', 'us'" in message
    assert judged.seen.path == []


def test_a_case_may_expect_that_its_inputs_are_refused(judge: Judge) -> None:
    case = "workload: {}\nexpect: {status: failed, error: inputs.invalid}"

    assert judge(DECLARED, case).passed
    assert judge(DECLARED, "workload: {region: eu}\nexpect: {result: eu 5}").passed


def test_a_call_with_inputs_that_do_not_fit_is_an_error_of_the_task(
    judge: Judge,
) -> None:
    case = "expect: {status: failed, error: {kind: inputs.invalid}}"
    judged = judge(CALL, case, {"c": DECLARED})

    assert judged.passed, judged.messages
    error = judged.seen.state.error
    assert error["message"].startswith(
        "playbook 'c' was not started: the inputs do not"
    )
    assert "'region' is missing" in error["message"]
    assert "'regoin'" in error["message"]
