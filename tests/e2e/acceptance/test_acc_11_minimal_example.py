"""ACC-11: the minimal example of the specification validates and runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

GUARD = "outcome.status == 'error' and outcome.http.status in [429,500,502,503,504]"
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook

metadata:
  name: minimal
  path: examples/minimal
  version: "2.0"

workload:
  api_url: "https://api.example.com"

workflow:
  - step: start
    next:
      spec: { mode: exclusive }
      arcs:
        - step: fetch

  - step: fetch
    tool:
      - call:
          kind: http
          method: GET
          url: "{{ workload.api_url }}/ping"
          spec:
            policy:
              rules:
                - when: "{{ GUARD }}"
                  then: { do: retry, attempts: 5, backoff: exponential, delay: 2 }
                - when: "{{ outcome.status == 'error' }}"
                  then: { do: fail }
                - else:
                    then: { do: break }
    next:
      spec: { mode: exclusive }
      arcs:
        - step: end
          when: "{{ event.name == 'step.done' }}"

  - step: end
    tool:
      - done:
          kind: noop
""".replace("GUARD", GUARD)


@pytest.mark.spec("ACC-11", "ACC-03", "DIR-08", "S-09")
@pytest.mark.parametrize(
    ("statuses", "attempts", "steps", "status", "seconds"),
    [
        pytest.param(
            [503, 503, 200],
            3,
            ["start", "fetch", "end"],
            "completed",
            6,
            id="503, 503, 200 ends in success with three attempts",
        ),
        pytest.param(
            [503],
            5,
            ["start", "fetch"],
            "failed",
            30,
            id="503 for ever fails unhandled",
        ),
        pytest.param([401], 1, ["start", "fetch"], "failed", 0, id="401 fails at once"),
    ],
)
def test_minimal_example(
    accept: Callable[..., Any],
    http: Callable[..., Any],
    statuses: list[int],
    attempts: int,
    steps: list[str],
    status: str,
    seconds: float,
) -> None:
    urls: list[str] = []

    def script(call: Any) -> Any:
        if call.task.label == "done":
            return http(200)
        urls.append(call.inputs["url"])
        return http(statuses[min(len(urls), len(statuses)) - 1], "pong")

    simulation = accept(PLAYBOOK, script)

    assert urls == ["https://api.example.com/ping"] * attempts
    assert [e.step for e in simulation.log if e.name == "step.scheduled"] == steps
    assert simulation.state.status == status
    assert simulation.clock == seconds
    if status == "failed":
        assert simulation.state.error["step"] == "fetch"
