"""Backfills: every missing slot once, never more at a time than allowed."""

from __future__ import annotations

import pytest

from noetl.triggers.backfill import (
    Flight,
    Progress,
    land,
    moment_in,
)
from noetl.triggers.cron import Cron

HOURLY = Cron("0 * * * *", "UTC")
HOUR = 3600.0


def test_what_has_ended_is_counted_by_how() -> None:
    flights = (Flight(1.0, "a"), Flight(2.0, "b"), Flight(3.0), Flight(4.0, "d"))

    landed = land(
        Progress(cursor=9.0, flights=flights, completed=5),
        {"a": "completed", "b": "failed", "x": "completed"},
    )

    assert landed.flights == (Flight(3.0), Flight(4.0, "d"))
    assert (landed.completed, landed.failed) == (6, 1)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-29", "2026-03-28T23:00:00+00:00"),
        ("2026-07-01T06:00", "2026-07-01T04:00:00+00:00"),
        ("2026-07-01T06:00:00Z", "2026-07-01T06:00:00+00:00"),
    ],
)
def test_a_day_is_one_of_the_zone(text: str, moment: str) -> None:
    berlin = Cron("0 2 * * *", "Europe/Berlin")

    assert moment_in(berlin, text) == moment_in(berlin, moment)


@pytest.mark.parametrize("text", ["yesterday", "", "2026-13-01", "9" * 99])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        moment_in(HOURLY, text)
