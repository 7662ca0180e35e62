"""The executor block is optional: a playbook without it is valid and runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]

FLOW = """
- step: start
  loop: {in: [1, 2], iterator: x}
  tool: [{a: {kind: http, url: "http://x"}}]
  next: {arcs: [{step: end}]}
- {step: end, tool: [{b: {kind: noop}}]}
"""


@pytest.mark.spec("EXE-01")
@pytest.mark.parametrize("root", ["", "executor: {}\n", "executor: {spec: {}}\n"])
def test_without_an_executor_it_runs_as_with_an_empty_one(run: Run, root: str) -> None:
    execution, plain = run(FLOW, root), run(FLOW)

    assert execution.state.status == "completed"
    assert execution.labels == ["a", "a", "b"]
    assert execution.log == plain.log
    assert [call.spec for call in execution.calls] == [
        call.spec for call in plain.calls
    ]
