"""ACC-04: 404 jumps to ``store_404``, 200 to ``store_200``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: by_status, path: acceptance/by_status}
workflow:
  - step: start
    tool:
      - fetch:
          kind: http
          url: "https://api.example.com/item"
          spec:
            policy:
              rules:
                - when: "{{ outcome.http.status == 404 }}"
                  then: {do: jump, to: store_404}
                - when: "{{ outcome.http.status == 200 }}"
                  then: {do: jump, to: store_200}
                - else:
                    then: {do: fail}
      - store_200:
          kind: noop
          row: "{{ _prev }}"
          spec: {policy: {rules: [{else: {then: {do: break}}}]}}
      - store_404:
          kind: noop
          row: "{{ _prev }}"
"""


@pytest.mark.spec("ACC-04", "LOOP-25", "DIR-09", "DIR-11")
@pytest.mark.parametrize(
    ("status", "stored", "end"),
    [
        pytest.param(200, [("store_200", {"id": 1})], "completed", id="200 is stored"),
        pytest.param(404, [("store_404", None)], "completed", id="404 is noted"),
        pytest.param(500, [], "failed", id="anything else fails"),
    ],
)
def test_storage_by_status(
    accept: Callable[..., Any],
    http: Callable[..., Any],
    status: int,
    stored: list[tuple[str, Any]],
    end: str,
) -> None:
    rows = []

    def script(call: Any) -> Any:
        if call.task.label == "fetch":
            return http(status, {"id": 1})
        rows.append((call.task.label, call.inputs["row"]))
        return http(200)

    simulation = accept(PLAYBOOK, script)

    assert rows == stored
    assert simulation.state.status == end
