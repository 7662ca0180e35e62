"""Sums of campaigns and measurements of soaks: parts add up, and growth is found."""

from __future__ import annotations

import pytest
from faults.parts import Part, Total
from faults.samples import Sample, judge, percentile

CALM = {"memory (MB)": 150.0, "descriptors": 60.0, "bytes an execution": 4000.0}


def sample(session: int = 1, p99_ms: float = 50.0, **changed: float) -> Sample:
    renamed = {name.replace("_", " "): value for name, value in changed.items()}
    figures = {
        name: renamed.get(name.partition(" (")[0], value)
        for name, value in CALM.items()
    }
    return Sample(
        session=session,
        seconds=600.0,
        executions=1000,
        faults=20,
        figures=figures,
        p99_ms=p99_ms,
    )


def test_flat_figures_of_a_soak_are_accepted() -> None:
    assert judge([sample(memory=120.0), sample(), sample(memory=153.0)]) == []


@pytest.mark.parametrize(
    ("later", "told"),
    [
        (sample(memory=170.0), "memory (MB) 150, then 170"),
        (sample(descriptors=80.0), "descriptors 60, then 80"),
        (sample(bytes_an_execution=5000.0), "bytes an execution 4000, then 5000"),
        (sample(p99_ms=120.0), "p99 50 ms, then 120 ms"),
    ],
)
def test_growth_within_a_session_of_a_soak_is_found(later: Sample, told: str) -> None:
    assert judge([sample(), sample(), later]) == [f"session 1: {told}"]


def test_new_processes_of_a_later_session_are_compared_among_themselves() -> None:
    resumed = sample(session=2, memory=300.0, descriptors=200.0)

    assert judge([sample(), sample(), resumed, resumed, resumed]) == []


def test_a_percentile_of_no_values_is_zero() -> None:
    assert percentile([], 0.99) == 0.0
    assert percentile([*range(100)], 0.99) == 99


def test_parts_of_a_campaign_add_up_and_keep_the_longest() -> None:
    total = Total()
    figures = [{"events": 2.0, "longest gap (s)": gap} for gap in (1.5, 1.0)]
    for number, each in enumerate(figures):
        part = Part(seed=number, seconds=30.0, faults={"kill": 2}, figures=each)
        part.lists["gaps (s)"] = [each["longest gap (s)"]]
        total.add(part)

    assert (total.parts, total.faults) == (2, {"kill": 4})
    assert total.describe() == (
        "1.0 min in 2 parts; 4 kill; events 4, longest gap (s) 1.5; gaps (s) 1.5 1.0"
    )
