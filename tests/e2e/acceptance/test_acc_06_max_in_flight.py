"""ACC-06: a parallel loop never exceeds ``max_in_flight``."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: bounded, path: acceptance/bounded}
workflow:
  - step: start
    loop:
      in: "{{ range(30) }}"
      iterator: item
      spec: {mode: parallel, max_in_flight: 4}
    tool:
      - one: {kind: noop}
      - two: {kind: noop}
      - three: {kind: noop}
"""
ENDS = ("loop.iteration.done", "loop.iteration.failed")


@pytest.mark.spec("ACC-06", "LOOP-05", "LOOP-15")
@pytest.mark.parametrize("seed", range(10))
def test_max_in_flight(
    accept: Callable[..., Any], http: Callable[..., Any], seed: int
) -> None:
    simulation = accept(
        PLAYBOOK, lambda call: http(200), choose=random.Random(seed).randrange
    )
    open_: set[str] = set()
    sizes = set()
    for event in simulation.log:
        if event.name == "loop.iteration.started":
            open_.add(event.entity_id)
        elif event.name in ENDS:
            open_.remove(event.entity_id)
        elif event.name == "task.started":
            assert event.iteration_id in open_
        sizes.add(len(open_))

    assert max(sizes) == 4
    assert [e.name for e in simulation.log].count("loop.iteration.done") == 30
