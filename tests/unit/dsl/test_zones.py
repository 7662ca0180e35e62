"""Times of day: one moment each day, whatever the clocks do."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from noetl.dsl.times import find_zone, next_time, parse_time


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.spec("S-68")
@pytest.mark.parametrize(
    ("at", "zone", "now", "then"),
    [
        pytest.param(
            "09:00", "UTC", "2026-06-01T08:59:59Z", "2026-06-01T09:00:00Z", id="today"
        ),
        pytest.param(
            "09:00",
            "UTC",
            "2026-06-01T09:00:00Z",
            "2026-06-02T09:00:00Z",
            id="it is that time now: tomorrow",
        ),
        pytest.param(
            "09:00:30",
            "Europe/Berlin",
            "2026-06-01T00:00:00Z",
            "2026-06-01T07:00:30Z",
            id="in summer",
        ),
        pytest.param(
            "09:00",
            "Europe/Berlin",
            "2026-12-01T00:00:00Z",
            "2026-12-01T08:00:00Z",
            id="in winter",
        ),
        pytest.param(
            "00:30",
            "Pacific/Auckland",
            "2026-06-01T12:00:00Z",
            "2026-06-01T12:30:00Z",
            id="another date there",
        ),
        pytest.param(
            "02:30",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            "2026-03-29T01:30:00Z",
            id="left out by the clocks: later, at 03:30",
        ),
        pytest.param(
            "02:30",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            "2026-10-25T00:30:00Z",
            id="twice: the first",
        ),
        pytest.param(
            "02:30",
            "Europe/Berlin",
            "2026-10-25T00:30:00Z",
            "2026-10-26T01:30:00Z",
            id="twice: not the second",
        ),
        pytest.param(
            "09:00",
            "Europe/Berlin",
            "2026-03-28T09:00:00Z",
            "2026-03-29T07:00:00Z",
            id="a day of 23 hours",
        ),
        pytest.param(
            "09:00",
            "Pacific/Apia",
            "2011-12-29T20:00:00Z",
            "2011-12-30T19:00:00Z",
            id="a day that never was",
        ),
    ],
)
def test_the_next_time(at: str, zone: str, now: str, then: str) -> None:
    moment = datetime.fromtimestamp(next_time(at, zone, seconds(now)), UTC)

    assert moment == datetime.fromisoformat(then)


@pytest.mark.parametrize("text", ["", "9:00", "24:00", "09:60", "09:00 ", "nine"])
def test_invalid_times_of_day(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 09:00"):
        parse_time(text)


@pytest.mark.parametrize("name", ["", "Europe", "../../etc/passwd", "Nowhere/At All"])
def test_invalid_zones(name: str) -> None:
    with pytest.raises(ValueError, match="unknown time zone"):
        find_zone(name)
