"""ACC-03: a transient HTTP 500 is retried N times, then the step fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: transient, path: acceptance/transient}
workflow:
  - step: start
    tool:
      - fetch:
          kind: http
          method: GET
          url: "https://api.example.com/items"
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' and outcome.http.status in [429, 500, 502, 503] }}"
                  then: {do: retry, attempts: 5, backoff: exponential, delay: 1}
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: fail}
                - else:
                    then: {do: continue}
    next:
      arcs:
        - step: end
          when: "{{ event.name == 'step.done' }}"
  - step: end
    tool: {kind: noop}
"""  # noqa: E501 (the guard is the specification's)


@pytest.mark.spec("ACC-03", "DIR-07", "OUT-13", "C-28")
@pytest.mark.parametrize(
    ("statuses", "calls", "status", "seconds"),
    [
        pytest.param([500], 5, "failed", 15, id="500 for ever: five calls, then fail"),
        pytest.param([500, 503, 200], 3, "completed", 3, id="it recovers in time"),
        pytest.param([404], 1, "failed", 0, id="404 is not transient"),
        pytest.param([200], 1, "completed", 0, id="200 at once"),
    ],
)
def test_transient_errors(
    accept: Callable[..., Any],
    http: Callable[..., Any],
    statuses: list[int],
    calls: int,
    status: str,
    seconds: float,
) -> None:
    made = []

    def script(call: Any) -> Any:
        if call.task.label == "fetch":
            made.append(call.attempt)
            return http(statuses[min(len(made), len(statuses)) - 1])
        return http(200)

    simulation = accept(PLAYBOOK, script)

    assert made == list(range(1, calls + 1))
    assert simulation.state.status == status
    assert simulation.clock == seconds
    if status == "failed" and calls > 1:
        assert simulation.state.error["kind"] == "http.server"
        assert simulation.state.error["details"] == {"attempts": 5}
