"""The check that guards the whole suite notices what it is there to notice."""

from __future__ import annotations

import base64
import logging

import pytest
import servers
from canaries import Canaries


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda v: v.encode(), id="plain"),
        pytest.param(lambda v: v[::-1].encode(), id="reversed"),
        pytest.param(lambda v: v.encode().hex().encode(), id="hexadecimal"),
        pytest.param(lambda v: base64.b64encode(v.encode()), id="base64"),
        pytest.param(
            lambda v: base64.b64encode(b"a" + v.encode()), id="shifted by one"
        ),
        pytest.param(
            lambda v: base64.b64encode(b"ab" + v.encode()), id="shifted by two"
        ),
    ],
)
def test_a_canary_in_an_answer_is_noticed(answer) -> None:
    canaries = Canaries()
    value = canaries.plant("a secret")

    with canaries.recording():
        for watch in servers.watchers:
            watch("ntl_attacker", "/api/executions", b'{"x": "' + answer(value) + b'"}')

    with pytest.raises(
        AssertionError, match="a secret was answered to /api/executions"
    ):
        canaries.check()


def test_a_canary_in_a_log_line_is_noticed() -> None:
    canaries = Canaries()
    value = canaries.plant("a secret")

    with canaries.recording():
        logging.getLogger("noetl.test").warning("found %s", value)

    with pytest.raises(AssertionError, match="a secret was logged"):
        canaries.check()


def test_answers_to_the_admin_are_not_counted_as_leaks() -> None:
    canaries = Canaries()
    token = canaries.plant("the admin's token")

    with canaries.recording():
        for watch in servers.watchers:
            watch(token, "/api/tokens", token.encode())

    canaries.check()
