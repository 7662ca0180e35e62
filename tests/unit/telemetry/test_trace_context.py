"""W3C trace context: what is read from callers, and what is refused."""

from __future__ import annotations

import pytest

from noetl.telemetry.trace_context import TraceParent, read_traceparent

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"00-{TRACE}-{SPAN}-01", id="sampled"),
        pytest.param(f"00-{TRACE}-{SPAN}-00", id="not sampled"),
        pytest.param(f"  00-{TRACE}-{SPAN}-01 ", id="blanks around it"),
        pytest.param(f"cc-{TRACE}-{SPAN}-09", id="a later version"),
        pytest.param(f"cc-{TRACE}-{SPAN}-09-more", id="a later version with more"),
    ],
)
def test_trace_and_span_of_the_caller_are_read(text: str) -> None:
    assert read_traceparent([text], "x") == (TraceParent(TRACE, SPAN), None)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("00", id="a part"),
        pytest.param(f"00-{TRACE.upper()}-{SPAN}-01", id="capital letters"),
        pytest.param(f"00-{'0' * 32}-{SPAN}-01", id="trace id of zeros"),
        pytest.param(f"00-{TRACE}-{'0' * 16}-01", id="span id of zeros"),
        pytest.param(f"ff-{TRACE}-{SPAN}-01", id="the forbidden version"),
        pytest.param(f"00-{TRACE}-{SPAN}-01-more", id="version 00 with more"),
        pytest.param(f"cc-{TRACE}-{SPAN}-01.more", id="more without a dash"),
        pytest.param(f"00-{TRACE}-{SPAN}-1", id="too short"),
        pytest.param(f"00-{TRACE}-{SPAN}-01\r\nX-Evil: 1", id="another header"),
        pytest.param(f"cc-{TRACE}-{SPAN}-01-" + "x" * 9_999, id="too long"),
        pytest.param("{{ keychain.token }}", id="a template"),
        pytest.param("\x1b[31m\u202e", id="control characters"),
        pytest.param(f"00-{TRACE[:-1]}\u0664-{SPAN}-01", id="another digit"),
    ],
)
def test_another_value_is_ignored_with_a_warning(text: str) -> None:
    caller, warning = read_traceparent([text], "header traceparent")

    assert caller is None
    assert warning is not None
    assert warning.startswith("header traceparent is ignored: expected 00-")
    assert warning.isprintable()
    assert len(warning) < 250


def test_a_value_that_is_given_twice_is_ignored() -> None:
    text = f"00-{TRACE}-{SPAN}-01"

    caller, warning = read_traceparent([text, text], "header traceparent")

    assert (caller, warning) == (
        None,
        "header traceparent is ignored: it was given 2 times",
    )


@pytest.mark.parametrize("values", [None, [], ()])
def test_a_missing_value_causes_no_warning(values: list[str] | None) -> None:
    assert read_traceparent(values, "x") == (None, None)


def test_what_is_sent_is_read_again() -> None:
    caller = TraceParent(TRACE, SPAN)

    assert str(caller) == f"00-{TRACE}-{SPAN}-01"
    assert read_traceparent([str(caller)], "x") == (caller, None)
