"""Durations: one parser everywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.dsl.times import parse_duration


@pytest.mark.spec("C-26")
@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        pytest.param(0, 0.0, id="zero"),
        pytest.param(5, 5.0, id="a number is seconds"),
        pytest.param(0.25, 0.25, id="a fraction of a second"),
        pytest.param("5", 5.0, id="a number as text"),
        pytest.param("500ms", 0.5, id="milliseconds"),
        pytest.param("5s", 5.0, id="seconds"),
        pytest.param("1.5m", 90.0, id="minutes and a half"),
        pytest.param("2h", 7200.0, id="hours"),
        pytest.param("1d", 86400.0, id="days"),
        pytest.param(".5s", 0.5, id="no leading zero"),
        pytest.param(" 30 s ", 30.0, id="spaces"),
    ],
)
def test_what_a_duration_is(written: object, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)


@pytest.mark.spec("C-26")
@pytest.mark.parametrize(
    "written",
    [
        pytest.param(-1, id="a negative number"),
        pytest.param("-1s", id="a negative text"),
        pytest.param(float("nan"), id="not a number"),
        pytest.param(float("inf"), id="infinity"),
        pytest.param(True, id="a boolean is no number"),
        pytest.param(None, id="null"),
        pytest.param("", id="empty text"),
        pytest.param("s", id="a unit alone"),
        pytest.param("5 parsecs", id="another unit"),
        pytest.param("5S", id="a capital unit"),
        pytest.param("1m30s", id="two units"),
        pytest.param("1e3", id="an exponent"),
        pytest.param("\u0665s", id="digits of another script"),
        pytest.param("9" * 400, id="a number beyond any float"),
        pytest.param([5], id="a list"),
        pytest.param({"s": 5}, id="a mapping"),
    ],
)
def test_what_a_duration_is_not(written: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(written)


@pytest.mark.spec("C-26")
@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["ms", "s", "m", "h", "d"]))
def test_the_unit_scales_the_number(number: int, unit: str) -> None:
    one = parse_duration(f"1{unit}")
    assert parse_duration(f"{number}{unit}") == pytest.approx(number * one)


PLACES = {
    "a retry's delay": (
        "- step: start\n"
        "  tool:\n"
        "    kind: noop\n"
        "    spec: {policy: {rules: [{else: {then: {do: retry, delay: DURATION}}}]}}\n"
    ),
    "a step's deadline": (
        "- step: start\n  spec: {deadline: DURATION}\n  tool: {kind: noop}\n"
    ),
    "a task's timeout": (
        "- step: start\n  tool: {kind: noop, spec: {timeout: DURATION}}\n"
    ),
    "a timeout per phase": (
        "- step: start\n"
        "  tool: {kind: http, url: x, spec: {timeout: {read: DURATION}}}\n"
    ),
}


@pytest.mark.spec("C-26", "POL-08")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("written", ["7", "7s", '"7"', "250ms", "1.5h", "1d"])
def test_every_place_reads_the_same_durations(
    document: Callable[..., str],
    say: Callable[..., list[tuple[str, str, int, int]]],
    place: str,
    written: str,
) -> None:
    assert say(document(PLACES[place].replace("DURATION", written))) == []


@pytest.mark.spec("C-26", "POL-08")
@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("a retry's delay", "POL-08"),
        ("a step's deadline", "C-30"),
        ("a task's timeout", "S-35"),
        ("a timeout per phase", "S-35"),
    ],
)
@pytest.mark.parametrize("written", ["soon", "-1", "1m30s"])
def test_every_place_refuses_the_same_texts(
    document: Callable[..., str],
    say: Callable[..., list[tuple[str, str, int, int]]],
    place: str,
    code: str,
    written: str,
) -> None:
    text = document(PLACES[place].replace("DURATION", written))
    [(found, severity, line, column)] = say(text)
    assert (found, severity) == (code, "error")
    assert text.splitlines()[line - 1][column - 1 :].startswith(written)


@pytest.mark.spec("C-26", "POL-08")
def test_a_delay_may_be_a_template(accept: Callable[..., object]) -> None:
    steps = PLACES["a retry's delay"].replace("DURATION", '"{{ workload.pause }}"')
    playbook = accept(steps, "workload: {pause: 2s}\n")
    [rule] = playbook.workflow[0].tasks[0].rules  # type: ignore[attr-defined]
    assert rule.then.delay.render({"workload": {"pause": "2s"}}) == "2s"
