"""Commands that are offered after the end of an execution."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.commands.output.endings import next_commands

pytestmark = pytest.mark.spec("OUT-04")


def document(status: str, error: dict[str, Any] | None = None) -> dict[str, Any]:
    steps = [{"step": "a"}]
    return {"execution_id": "e1", "status": status, "error": error, "steps": steps}


FAILED = {"kind": "http.server", "message": "500", "details": {}}


@pytest.mark.parametrize(
    ("ended", "commands"),
    [
        (document("completed"), []),
        (document("cancelled"), []),
        (document("paused"), ["continue with: noetl resume e1"]),
        (
            document("failed", FAILED),
            ["look: noetl show e1 --html", "again: noetl retry e1"],
        ),
        (
            {**document("running"), "interrupted": {"resume": "noetl resume e1"}},
            ["continue with: noetl resume e1"],
        ),
    ],
)
def test_the_end_offers_what_can_be_done_next(
    ended: dict[str, Any], commands: list[str]
) -> None:
    assert next_commands(ended, refused=False) == commands


def test_a_refused_request_offers_no_command() -> None:
    assert next_commands(document("failed", FAILED), refused=True) == []
