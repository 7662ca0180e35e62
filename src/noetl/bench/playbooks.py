"""What is measured: a chain of steps, and a loop that spreads. The body is `x + 1`."""

from __future__ import annotations

from typing import Literal

Body = Literal["python", "noop"]

WIDTH = 64
"""Iterations of the loop that are in flight at once."""

_HEAD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: %(name)s, path: bench/%(name)s}
workload: {n: 1}
workflow:
"""
_CHAIN = """
  - step: work
    tool: %(body)s
    next:
      arcs:
        - step: work
          when: "{{ event.payload.result < workload.n }}"
          args: {x: "{{ event.payload.result }}"}
"""
_FANOUT = """
  - step: spread
    loop:
      in: "{{ range(workload.n) }}"
      iterator: x
      spec: {mode: parallel, max_in_flight: %(width)s}
    tool: %(body)s
    next:
      arcs:
        - step: total
          when: "{{ event.name == 'loop.done' }}"
          args: {results: "{{ event.payload.results }}"}
  - step: total
    tool: {kind: noop, result: "{{ args.results | sum }}"}
"""
_BODIES: dict[Body, str] = {
    "python": '{kind: python, args: {x: "{{ %s }}"}, code: "result = x + 1"}',
    "noop": '{kind: noop, result: "{{ (%s) + 1 }}"}',
}


def playbooks(body: Body) -> dict[str, str]:
    """By name. `chain` answers n, `fanout` the sum of 1 to n."""
    texts = {"chain": (_CHAIN, "args.x | default(0)"), "fanout": (_FANOUT, "iter.x")}
    return {
        name: _HEAD % {"name": name}
        + text % {"body": _BODIES[body] % x, "width": WIDTH}
        for name, (text, x) in texts.items()
    }
