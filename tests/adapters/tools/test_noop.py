"""Kind ``noop``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.adapters.tools.engine_kinds import NoopTool
from noetl.engine.tasks.outcome import Outcome


@pytest.mark.spec("PIPE-19")
@pytest.mark.parametrize(
    ("inputs", "result"),
    [
        pytest.param({}, None, id="nothing gives null"),
        pytest.param(
            {"result": {"a": [1]}}, {"a": [1]}, id="it gives its result input"
        ),
        pytest.param({"remark": "x"}, None, id="other inputs are ignored"),
    ],
)
def test_noop_succeeds(
    inputs: dict[str, Any],
    result: Any,
    call: Callable[..., Any],
    once: Callable[..., Outcome],
) -> None:
    assert once(NoopTool(), call("noop", inputs)) == Outcome.ok(result)


@pytest.mark.spec("PIPE-19")
def test_a_note_is_recorded_with_the_outcome(
    call: Callable[..., Any], once: Callable[..., Outcome]
) -> None:
    given = {"result": 1, "note": {"why": "x"}}
    assert once(NoopTool(), call("noop", given)) == Outcome.ok(1, note={"why": "x"})
