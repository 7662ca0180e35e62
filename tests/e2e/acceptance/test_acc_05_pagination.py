"""ACC-05: ``has_more`` jumps back to the fetch; pagination ends with ``break``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: pages, path: acceptance/pages}
workload: {endpoints: [users]}
workflow:
  - step: start
    loop: {in: "{{ workload.endpoints }}", iterator: endpoint}
    tool:
      - fetch:
          kind: http
          url: "https://api.example.com/{{ iter.endpoint }}"
          params: {page: "{{ iter.page | default(1) }}"}
          spec:
            policy:
              rules:
                - when: "{{ outcome.error.retryable }}"
                  then: {do: retry, attempts: 3}
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: fail}
                - else:
                    then:
                      do: continue
                      set_iter: {has_more: "{{ outcome.result.has_more }}"}
      - transform: {kind: noop, rows: "{{ _prev.rows }}"}
      - store: {kind: noop, rows: "{{ _prev }}"}
      - decide:
          kind: noop
          spec:
            policy:
              rules:
                - when: "{{ iter.has_more }}"
                  then:
                    do: jump
                    to: fetch
                    set_iter: {page: "{{ (iter.page | default(1)) + 1 }}"}
                - else:
                    then: {do: break}
      - never: {kind: noop}
"""


@pytest.mark.spec("ACC-05", "LOOP-24", "S-14", "POL-15")
def test_pagination(accept: Callable[..., Any], http: Callable[..., Any]) -> None:
    pages, stored, labels = [], [], []
    flaky = {2, 3}  # each of these pages fails twice: attempts are counted per page

    def script(call: Any) -> Any:
        labels.append(call.task.label)
        if call.task.label == "fetch":
            page = call.inputs["params"]["page"]
            pages.append((page, call.attempt))
            if page in flaky and call.attempt < 3:
                return http(503)
            return http(200, {"rows": [page, page * 10], "has_more": page < 4})
        if call.task.label == "store":
            stored.append(call.inputs["rows"])
        return http(200, call.inputs.get("rows"))

    simulation = accept(PLAYBOOK, script)

    assert pages == [(1, 1), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3), (4, 1)]
    assert stored == [[1, 10], [2, 20], [3, 30], [4, 40]]
    assert "never" not in labels
    assert simulation.state.status == "completed"
    assert [e.name for e in simulation.log].count("loop.iteration.started") == 1
