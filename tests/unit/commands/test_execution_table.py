"""Rows of the table of executions."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from noetl.commands.output.execution_table import print_table
from noetl.ports import Summary


@pytest.mark.parametrize(
    ("trigger", "note"),
    [
        (
            {"name": "nightly", "slot": "2026-01-05T01:00:00Z"},
            "  (trigger nightly 2026-01-05T01:00:00Z)",
        ),
        ({"name": "push", "slot": None}, "  (trigger push)"),
        (None, ""),
    ],
)
def test_a_row_names_the_trigger_that_started_the_execution(
    trigger: Mapping[str, str] | None, note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"path": "sales/nightly"}
    started = "2026-01-05T01:00:00Z"
    line = Summary("0192abcd-1", "running", about, started, trigger=trigger)

    print_table([line])

    assert capsys.readouterr().out.splitlines()[1].endswith(f"sales/nightly{note}")
