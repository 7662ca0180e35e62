"""Cron lines of any form, in zones that put the clock forward and back."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from noetl.triggers.cron import Cron
from noetl.triggers.slots import after, delay, first, latest

ZONES = (
    *("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"),
    *("Asia/Kathmandu", "America/Santiago", "Africa/Casablanca", "Pacific/Apia"),
)


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


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
def test_a_delay_is_deterministic_and_within_bounds(
    name: str, slot: float, jitter: float
) -> None:
    found = delay(name, slot, jitter)

    assert found == delay(name, slot, jitter)
    assert 0 <= found <= jitter
