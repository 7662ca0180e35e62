"""Rates and slots of calls: their texts, their merging, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl import load
from noetl.dsl.normalize import effective_spec
from noetl.dsl.rates import LATENESS_S, parse_rate
from noetl.runtime.worker.tool_call import limits_of

pytestmark = pytest.mark.spec("S-78")

PLACE = ("path", "step", "label")


@pytest.mark.parametrize(
    ("text", "calls", "period"),
    [("5/s", 5, 1), ("100/m", 100, 60), ("7 / h", 7, 3_600), ("1/d", 1, 86_400)],
)
def test_a_rate_spreads_its_calls_over_the_period(
    text: str, calls: int, period: int
) -> None:
    assert calls * parse_rate(text) == pytest.approx(period + LATENESS_S)


STEP = """
- step: start
  loop: {in: [1], iterator: n, spec: {LOOP}}
  spec: {STEP}
  tool:
    - call: {kind: noop, spec: {TASK}}
"""


@pytest.mark.parametrize("place", ["LOOP", "STEP", "TASK"])
@pytest.mark.parametrize(
    ("knob", "said"),
    [
        ("rate: fast", "'fast' is not a rate: calls per s, m, h or d"),
        ("rate: 5/w", "'5/w' is not a rate: calls per s, m, h or d"),
        ("rate: 0/s", "a rate has 1 to 1,000,000 calls, found 0"),
        (
            "rate: 5",
            "'rate' must be a rate such as 5/s, or a mapping, found the number 5",
        ),
        ("rate: {limit: x/s}", "'x/s' is not a rate: calls per s, m, h or d"),
        ("rate: {key: a}", "spec.rate needs 'limit'"),
        ("rate: {limit: 5/s, burst: 0}", "'burst' must be from 1 to 1,000, found 0"),
        ("slots: {limit: 0}", "'limit' must be from 1 to 10,000, found 0"),
        ("slots: {key: a}", "spec.slots needs 'limit'"),
        ("slots: 3", "'slots' must be a mapping, found the number 3"),
        ("slots: {limit: 1, keys: a}", "unknown key 'keys' in spec.slots"),
    ],
)
def test_a_limit_that_cannot_hold_is_an_error_at_its_place(
    document: Callable[..., str], place: str, knob: str, said: str
) -> None:
    text = STEP
    for each in ("LOOP", "STEP", "TASK"):
        text = text.replace(f"{{{each}}}", f"{{{knob if each == place else ''}}}")
    text = document(text)

    found = [each for each in load(text).diagnostics if each.severity == "error"]

    assert [(each.code, each.message) for each in found] == [("S-78", said)]
    assert knob.split(":")[0] in text.splitlines()[found[0].line - 1]


def test_a_nearer_rate_keeps_the_key_of_an_outer_one() -> None:
    outer = [{"rate": {"limit": "5/s", "key": "api", "burst": 2}}, {"rate": "9/m"}]

    spec = effective_spec("http", {}, outer, {"slots": {"limit": 3}}, ("http",))

    assert spec["rate"] == {"limit": "9/m", "key": "api", "burst": 2}
    assert spec["slots"] == {"limit": 3}


def test_keys_of_rates_and_slots_are_apart_and_unreadable() -> None:
    rate, slots = limits_of(
        {"rate": {"limit": "5/s", "key": "hush"}, "slots": {"limit": 2, "key": "hush"}},
        PLACE,
    )
    [default] = limits_of({"rate": {"limit": "5/s"}}, PLACE)

    assert len({rate.key, slots.key, default.key}) == 3
    assert "hush" not in rate.key + slots.key
    assert (slots.limit, slots.interval) == (2, 0)


@pytest.mark.parametrize("key", [None, "", True, [1]])
def test_a_key_must_give_a_text_or_a_number(key: object) -> None:
    with pytest.raises(ValueError, match=r"spec\.rate\.key must give a text or a numb"):
        limits_of({"rate": {"limit": "5/s", "key": key}}, PLACE)
