"""The lines of ``noetl show``: a step, and its time in the queue."""

from __future__ import annotations

import msgspec
import pytest

from noetl.commands.show import _line
from noetl.engine.execution_document import StepLine


@pytest.mark.spec("S-79")
@pytest.mark.parametrize(
    ("queued", "line"),
    [
        (None, "✓ fetch: done in 3.00 s"),
        (40.0, "✓ fetch: done in 3.00 s"),
        (2000.0, "✓ fetch: done in 1.00 s, after 2.00 s in the queue"),
    ],
)
def test_a_long_time_in_the_queue_is_apart_from_the_run_time(
    queued: float | None, line: str
) -> None:
    step = StepLine("fetch", "x-1", "done", {}, duration_ms=3000.0, queued_ms=queued)

    assert _line(msgspec.to_builtins(step)) == line
