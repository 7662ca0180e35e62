"""ACC-09: the same graph fires one arc under ``exclusive``, all under ``inclusive``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: modes, path: acceptance/modes}
workload: {size: 12}
workflow:
  - step: start
    tool: {kind: noop}
    next:
      spec: {mode: MODE}
      arcs:
        - {step: huge, when: "{{ workload.size > 100 }}"}
        - {step: large, when: "{{ workload.size > 10 }}"}
        - {step: even, when: "{{ workload.size % 2 == 0 }}"}
        - {step: audit}
  - {step: huge, tool: {kind: noop}}
  - {step: large, tool: {kind: noop}}
  - {step: even, tool: {kind: noop}}
  - {step: audit, tool: {kind: noop}}
"""


@pytest.mark.spec("ACC-09", "NEXT-05", "NEXT-06")
@pytest.mark.parametrize(
    ("mode", "steps"),
    [
        pytest.param("exclusive", ["large"], id="exclusive fires the first match"),
        pytest.param(
            "inclusive", ["large", "even", "audit"], id="inclusive fires all that match"
        ),
    ],
)
def test_router_modes(
    accept: Callable[..., Any], http: Callable[..., Any], mode: str, steps: list[str]
) -> None:
    simulation = accept(PLAYBOOK.replace("MODE", mode), lambda call: http(200))
    scheduled = [e.step for e in simulation.log if e.name == "step.scheduled"]

    assert scheduled == ["start", *steps]
