"""ACC-07: in a parallel loop every iteration has an ``iter`` of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: isolated, path: acceptance/isolated}
workflow:
  - step: start
    loop:
      in: [3, 1, 4, 1, 5]
      iterator: count
      spec: {mode: parallel}
    tool:
      - add:
          kind: noop
          seen: "{{ iter.total | default(0) }}"
          spec:
            policy:
              rules:
                - when: "{{ (iter.visits | default(1)) < iter.count }}"
                  then:
                    do: jump
                    to: add
                    set_iter:
                      visits: "{{ (iter.visits | default(1)) + 1 }}"
                      total: "{{ (iter.total | default(0)) + iter.count }}"
                - else:
                    then: {do: break}
"""


@pytest.mark.spec("ACC-07", "LOOP-09", "LOOP-13")
@pytest.mark.parametrize("seed", range(10))
def test_iter_isolation(
    accept: Callable[..., Any], http: Callable[..., Any], seed: int
) -> None:
    simulation = accept(
        PLAYBOOK,
        lambda call: http(200, call.inputs["seen"]),
        choose=random.Random(seed).randrange,
    )
    (done,) = (e for e in simulation.log if e.name == "loop.done")

    assert done.payload["results"] == [6, 0, 12, 0, 20]
