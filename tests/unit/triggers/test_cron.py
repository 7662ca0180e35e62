"""Cron lines: slots on ordinary days, and when the clock is put forward or back."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from noetl.triggers.cron import Cron
from noetl.triggers.slots import after, delay, slot_name

DAY = 86400.0


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def on_day(line: str, zone: str, start: str) -> list[str]:
    """Local times of the slots within a day after ``start``."""
    cron = Cron(line, zone)
    begin = datetime.fromisoformat(start).replace(tzinfo=cron.zone).timestamp()
    return [
        cron.local(slot).strftime("%d %H:%M%z")
        for slot in after(cron, begin, begin + DAY)
    ]


def test_slots_come_in_the_zone_of_the_schedule() -> None:
    cron = Cron("30 2 * * *", "Europe/Berlin")

    assert slot_name(cron.next(at("2026-01-10T00:00:00Z"))) == "2026-01-10T01:30:00Z"
    assert slot_name(cron.next(at("2026-07-10T00:00:00Z"))) == "2026-07-10T00:30:00Z"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("30 2 * * *", ["29 03:00+0200"]),
        ("15,45 2 * * *", ["29 03:00+0200"]),
        ("0 2,3 * * *", ["29 03:00+0200"]),
        ("30 1,3 * * *", ["29 01:30+0100", "29 03:30+0200"]),
        ("*/30 2 * * *", []),
        ("0 0-4 * * *", ["29 00:00+0100", "29 01:00+0100", "29 03:00+0200"]),
        ("0 */3 * * *", ["28 15:00+0100", "28 18:00+0100", "28 21:00+0100"]),
    ],
)
def test_when_the_clock_is_put_forward(line: str, found: list[str]) -> None:
    """In Berlin, 2026-03-29: 02:00 is 03:00."""
    slots = on_day(line, "Europe/Berlin", "2026-03-28T12:00")

    assert slots[: len(found) or None] == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("30 2 * * *", ["25 02:30+0200"]),
        ("15,45 2 * * *", ["25 02:15+0200", "25 02:45+0200"]),
        ("*/30 2 * * *", ["25 02:00+0200", "25 02:30+0200"]),
        ("0 3 * * *", ["25 03:00+0100"]),
    ],
)
def test_when_the_clock_is_put_back(line: str, found: list[str]) -> None:
    """In Berlin, 2026-10-25: 03:00 is 02:00 again."""
    slots = on_day(line, "Europe/Berlin", "2026-10-24T12:00")

    assert slots[: len(found)] == found
    if not line.startswith("*"):
        assert slots == found


def test_in_the_hour_that_is_there_twice_the_second_time_has_no_slot() -> None:
    cron = Cron("30 2 * * *", "Europe/Berlin")

    found = cron.next(at("2026-10-25T02:15:00+01:00"))

    assert found == at("2026-10-26T02:30:00+01:00")


def test_what_goes_by_the_hour_goes_by_the_time_that_passes() -> None:
    for start in ("2026-03-28T20:00", "2026-10-24T20:00"):
        cron = Cron("0 * * * *", "Europe/Berlin")
        begin = datetime.fromisoformat(start).replace(tzinfo=cron.zone).timestamp()
        slots = list(after(cron, begin, begin + DAY))

        assert {b - a for a, b in pairwise(slots)} == {3600.0}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "five fields"),
        ("0 2 * *", "found 4"),
        ("0 0 2 * * *", "found 6"),
        ("61 * * * *", "'61' is not a valid minute"),
        ("0 24 * * *", "'24' is not a valid hour"),
        ("0 0 32 * *", "'32' is not a valid day of the month"),
        ("0 0 * FOO *", "'FOO' is not a valid month"),
        ("0 0 * * 9", "'9' is not a valid day of the week"),
        ("0 0 30 2 *", "no month has such a day"),
        ("*/0 * * * *", "'*/0' is not a valid minute"),
        ("5-1 * * * *", "'5-1' is not a valid minute"),
        ("MON#1/2 * * * *", "is not a valid minute"),
        ("0 0 * * MON#1/2", "is not a valid day of the week"),
        ("$(id) * * * *", "a cron line has digits"),
        ("٣ * * * *", "a cron line has digits"),
        ("1," * 200 + "1 * * * *", "a cron line has digits"),
    ],
)
def test_a_line_that_is_none_says_what_is_wrong(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("*", r"\*")):
        Cron(line, "UTC")


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "", "../etc/passwd", "/etc/localtime", "UTC\0", "x" * 999]
)
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="unknown time zone"):
        Cron("* * * * *", zone)


def test_a_line_that_never_comes_has_no_next() -> None:
    assert Cron("* * */20 * 1L", "UTC").next(at("2026-01-01T00:00:00Z")) is None


def test_delays_are_spread() -> None:
    slots = [datetime(2026, 1, day, tzinfo=UTC).timestamp() for day in range(1, 29)]
    delays = [delay("nightly", slot, 600.0) for slot in slots]

    assert max(delays) > 400
    assert min(delays) < 200
