"""Which slots are due: on time, after an outage, with delays, one at a time."""

from __future__ import annotations

from datetime import datetime

import pytest

from noetl.triggers.definition import MAX_CATCH_UP, CatchUp, Schedule
from noetl.triggers.slots import ON_TIME, decide, delay, first_at, left_out, slot_name

NOON = datetime.fromisoformat("2026-05-01T12:00:00Z").timestamp()
MINUTE, HOUR, YEAR = 60.0, 3600.0, 366 * 86400.0


def every_10_minutes(**more: object) -> Schedule:
    return Schedule(cron="*/10 * * * *", **more)


def names(slots: tuple[float, ...]) -> list[str]:
    return [slot_name(slot)[11:16] for slot in slots]


def test_a_slot_is_due_when_it_is_there_and_not_before() -> None:
    schedule = every_10_minutes()

    early = decide("a", schedule, NOON, NOON + 599)
    due = decide("a", schedule, NOON, NOON + 600)

    assert (early.slots, early.cursor, early.next_at) == ((), NOON, NOON + 600)
    assert (names(due.slots), due.cursor, due.next_at) == (
        ["12:10"],
        NOON + 600,
        NOON + 1200,
    )


@pytest.mark.parametrize("catch_up", ["none", "last", "all"])
def test_who_is_late_by_seconds_has_missed_nothing(catch_up: CatchUp) -> None:
    schedule = every_10_minutes(catch_up=catch_up)

    due = decide("a", schedule, NOON, NOON + 600 + ON_TIME)

    assert names(due.slots) == ["12:10"]


@pytest.mark.parametrize(
    ("catch_up", "most", "found"),
    [
        ("none", 100, []),
        ("last", 100, ["13:00"]),
        ("all", 100, ["12:10", "12:20", "12:30", "12:40", "12:50", "13:00"]),
        ("all", 2, ["12:50", "13:00"]),
    ],
)
def test_an_hour_of_outage(catch_up: CatchUp, most: int, found: list[str]) -> None:
    schedule = every_10_minutes(catch_up=catch_up, most=most)

    due = decide("a", schedule, NOON, NOON + HOUR + 2 * MINUTE)

    assert names(due.slots) == found
    assert due.cursor == NOON + HOUR, "the others are passed over for good"
    assert due.next_at == NOON + HOUR + 10 * MINUTE


def test_a_year_of_outage_is_bounded() -> None:
    schedule = Schedule(cron="* * * * *", catch_up="all", most=1_000)

    due = decide("a", schedule, NOON - YEAR, NOON)

    assert len(due.slots) == 1_000
    assert (due.slots[-1], due.cursor) == (NOON, NOON)


def test_without_overlap_they_come_one_at_a_time() -> None:
    schedule = every_10_minutes(catch_up="all", overlap=False)
    cursor, found = NOON, []
    for _ in range(6):
        due = decide("a", schedule, cursor, NOON + HOUR)
        assert len(due.slots) == 1
        found += names(due.slots)
        cursor = due.cursor

    assert found == ["12:10", "12:20", "12:30", "12:40", "12:50", "13:00"]
    assert decide("a", schedule, cursor, NOON + HOUR).slots == ()


def test_a_delay_is_waited_for() -> None:
    schedule = every_10_minutes(jitter="5m")
    due_at = NOON + 600 + delay("a", NOON + 600, 300.0)

    assert first_at("a", schedule, NOON) == due_at
    assert decide("a", schedule, NOON, due_at - 0.01).slots == ()
    assert decide("a", schedule, NOON, due_at).slots == (NOON + 600,)


def test_slots_that_a_decision_does_not_run_are_left_out() -> None:
    schedule = Schedule(cron="*/10 * * * *", catch_up="last")
    due = decide("t", schedule, 0.0, 3600.0)

    assert due.slots == (3600.0,)
    assert left_out(schedule, 0.0, due) == (600.0, 1200.0, 1800.0, 2400.0, 3000.0)
    assert left_out(schedule, 3000.0, decide("t", schedule, 3000.0, 3600.0)) == ()
    assert left_out(schedule, 0.0, decide("t", schedule, 0.0, 300.0)) == ()
    year = decide("t", schedule, 0.0, 366 * 86400.0)
    assert len(left_out(schedule, 0.0, year)) == MAX_CATCH_UP - 1
