"""Cron lines: slots on ordinary days, and when the clock is put forward or back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from noetl.triggers.cron import Cron
from noetl.triggers.slots import after, delay, first, latest, slot_name

ZONES = (
    *("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"),
    *("Asia/Kathmandu", "America/Santiago", "Africa/Casablanca", "Pacific/Apia"),
)
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
        ("61 * * * *", "'61' is no minute"),
        ("0 24 * * *", "'24' is no hour"),
        ("0 0 32 * *", "'32' is no day of the month"),
        ("0 0 * FOO *", "'FOO' is no month"),
        ("0 0 * * 9", "'9' is no day of the week"),
        ("0 0 30 2 *", "no month has such a day"),
        ("*/0 * * * *", "'*/0' is no minute"),
        ("5-1 * * * *", "'5-1' is no minute"),
        ("MON#1/2 * * * *", "is no minute"),
        ("0 0 * * MON#1/2", "is no day of the week"),
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
    with pytest.raises(ValueError, match="there is no time zone"):
        Cron("* * * * *", zone)


def test_a_line_that_never_comes_has_no_next() -> None:
    assert Cron("* * */20 * 1L", "UTC").next(at("2026-01-01T00:00:00Z")) is None


def field(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high)
    return st.one_of(
        st.just("*"),
        numbers.map(str),
        st.lists(numbers, min_size=2, max_size=4).map(
            lambda found: ",".join(map(str, found))
        ),
        st.integers(1, max(2, high // 2)).map(lambda step: f"*/{step}"),
        st.tuples(numbers, numbers).map(lambda two: f"{min(two)}-{max(two)}"),
    )


LINES = st.tuples(
    field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)
).map(" ".join) | st.tuples(field(0, 59), field(1, 3)).map(
    lambda two: " ".join((*two, "* * *"))
)
MOMENTS = st.integers(1_600_000_000, 2_100_000_000).map(float)
# Around both changes of the clock in Berlin, New York and Lord Howe.
CHANGES = st.sampled_from(
    (
        *("2026-03-29T01:00Z", "2026-10-25T01:00Z", "2026-03-08T07:00Z"),
        *("2026-11-01T06:00Z", "2026-04-04T15:00Z", "2026-10-03T15:30Z"),
    )
).flatmap(lambda text: st.integers(-9000, 9000).map(lambda shift: at(text) + shift))


@settings(max_examples=400, deadline=None)
@example("* 2 * * *", "Australia/Lord_Howe", at("2026-04-04T15:00Z"), 0.5)
@given(LINES, st.sampled_from(ZONES), MOMENTS | CHANGES, st.floats(0, 1))
def test_the_next_slot_does_not_depend_on_who_asks_when(
    line: str, zone: str, moment: float, part: float
) -> None:
    """So that two servers, which ask at different moments, mean the same slot."""
    cron = Cron(line, zone)
    slot = cron.next(moment)
    assert slot is not None
    assert slot > moment
    between = float(int(moment + (slot - moment) * part * 0.999999))

    assert cron.next(between) == slot
    assert cron.next(slot - 1) == slot


@settings(max_examples=300, deadline=None)
@given(LINES, st.sampled_from(ZONES), MOMENTS | CHANGES)
def test_a_slot_is_what_its_line_says(line: str, zone: str, moment: float) -> None:
    """Except that the first moment after a gap stands for all that it swallowed."""
    cron = Cron(line, zone)
    slot = cron.next(moment)
    assert slot is not None
    local = cron.local(slot)
    minute, hour, *_ = line.split()
    before = cron.local(slot - 60)
    gap = (local.utcoffset() or timedelta()) > (before.utcoffset() or timedelta())

    assert local.second == 0
    assert gap or (_fits(minute, local.minute) and _fits(hour, local.hour))


def _fits(field: str, value: int) -> bool:
    if field == "*":
        return True
    if field.startswith("*/"):
        return value % int(field[2:]) == 0
    if "-" in field:
        low, high = map(int, field.split("-"))
        return low <= value <= high
    return value in map(int, field.split(","))


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["*/7 * * * *", "0 * * * *", "30 2 * * *", "0 0 1 * *"]),
    st.sampled_from(ZONES),
    MOMENTS | CHANGES,
    st.integers(0, 40 * 86400),
    st.integers(1, 30),
)
def test_the_latest_are_the_end_of_all(
    line: str, zone: str, until: float, span: int, most: int
) -> None:
    cron = Cron(line, zone)
    every = list(after(cron, until - span, until))

    assert latest(cron, until - span, until, most) == every[-most:]
    whole = [slot for slot in every if slot < until]
    assert first(cron, until - span + 1, until, most) == whole[:most]


@given(st.text(max_size=20), MOMENTS, st.floats(0, 3600))
def test_a_delay_is_the_same_for_everybody_and_within_bounds(
    name: str, slot: float, jitter: float
) -> None:
    found = delay(name, slot, jitter)

    assert found == delay(name, slot, jitter)
    assert 0 <= found <= jitter


def test_delays_are_spread() -> None:
    slots = [datetime(2026, 1, day, tzinfo=UTC).timestamp() for day in range(1, 29)]
    delays = [delay("nightly", slot, 600.0) for slot in slots]

    assert max(delays) > 400
    assert min(delays) < 200
