"""ACC-08: outer items in parallel, the pages of one item in sequence."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: nested, path: acceptance/nested}
workload: {cities: [oslo, rome, lima]}
workflow:
  - step: start
    loop:
      in: "{{ workload.cities }}"
      iterator: city
      spec: {mode: parallel}
      loop:
        in: [hotels, museums]
        iterator: topic
    tool:
      - fetch:
          kind: http
          url: "https://api.example.com/{{ iter.parent.city }}/{{ iter.topic }}"
          params: {page: "{{ iter.page | default(1) }}"}
          spec:
            policy:
              rules:
                - when: "{{ outcome.result.has_more }}"
                  then:
                    do: jump
                    to: fetch
                    set_iter: {page: "{{ (iter.page | default(1)) + 1 }}"}
                - else:
                    then: {do: break}
"""
CITIES = {"oslo": 3, "rome": 1, "lima": 2}


@pytest.mark.spec("ACC-08", "LOOP-23", "LOOP-26", "C-25")
@pytest.mark.parametrize("seed", range(8))
def test_nested_pagination(
    accept: Callable[..., Any], http: Callable[..., Any], seed: int
) -> None:
    calls: list[tuple[str, str, int]] = []

    def script(call: Any) -> Any:
        city, topic = call.inputs["url"].split("/")[-2:]
        page = call.inputs["params"]["page"]
        calls.append((city, topic, page))
        return http(200, {"has_more": page < CITIES[city], "page": page})

    simulation = accept(PLAYBOOK, script, choose=random.Random(seed).randrange)

    for city, pages in CITIES.items():
        mine = [call[1:] for call in calls if call[0] == city]
        assert mine == [
            (topic, page)
            for topic in ("hotels", "museums")
            for page in range(1, pages + 1)
        ]
    order = [call[0] for call in calls]
    changes = sum(one != other for one, other in itertools.pairwise(order))
    assert changes > 2, "the cities were not served in parallel"
    (result,) = (e.payload["result"] for e in simulation.log if e.name == "step.done")
    assert [[r["page"] for r in city] for city in result] == [[3, 3], [1, 1], [2, 2]]
