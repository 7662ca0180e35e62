"""Playbooks of simulations, and the scenarios that start them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from noetl.engine.steps.concurrency import Concurrency

_HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: t, path: {path}}}\n"
_RETRY = (
    "{policy: {rules: [{when: \"{{ outcome.status == 'error' }}\", "
    "then: {do: retry, attempts: 6, delay: DELAY}}, "
    "{else: {then: {do: continue}}}]}}"
)


def _call(script: str, spec: str = "") -> str:
    more = f", spec: {spec}" if spec else ""
    return f'{{kind: http, url: "http://sim/", json: {script}{more}}}'


_QUICK = _call('{v: "{{ (args.x | default(0)) + 1 }}"}')
_NEXT = '{arcs: [{step: STEP, args: {x: "{{ event.payload.result }}"}}]}'
_ITEM = _call('{v: "{{ iter.i + 1 }}", secs: "{{ workload.secs }}"}')

_BODIES = {
    "chain": f"""
workflow:
  - step: start
    tool: {_call('{v: 1, secs: "{{ workload.secs }}"}')}
    next: {_NEXT.replace("STEP", "middle")}
  - step: middle
    tool:
      - a: {_QUICK}
      - b: {_call('{v: "{{ _prev + 1 }}", pure: true}')}
    next: {_NEXT.replace("STEP", "last")}
  - step: last
    tool: {_QUICK}
""",
    "fan": f"""
workflow:
  - step: start
    next:
      spec: {{mode: inclusive}}
      arcs: [{{step: a}}, {{step: b}}, {{step: c, when: "{{{{ workload.wide }}}}"}}]
  - step: a
    tool: {_call('{v: 1, secs: "{{ workload.secs }}"}')}
    next: {{arcs: [{{step: join, args: {{a: "{{{{ event.payload.result }}}}"}}}}]}}
  - step: b
    tool: {_call("{v: 2}")}
    next: {{arcs: [{{step: join, args: {{b: "{{{{ event.payload.result }}}}"}}}}]}}
  - step: c
    tool: {_call("{v: 4}")}
    next: {{arcs: [{{step: join, args: {{c: "{{{{ event.payload.result }}}}"}}}}]}}
  - step: join
    spec: {{join: {{mode: all, from: [a, b, c]}}}}
    tool: {_call('{v: "{{ args.a + args.b + (args.c | default(0)) }}"}')}
""",
    "parallel": f"""
workflow:
  - step: start
    loop:
      in: "{{{{ range(workload.count) }}}}"
      iterator: i
      spec: {{mode: parallel, max_in_flight: 2}}
    tool:
      - a: {_ITEM}
      - b: {_call('{v: "{{ _prev * 2 }}"}')}
    next:
      arcs:
        - step: sum
          when: "{{{{ event.name == 'loop.done' }}}}"
          args: {{all: "{{{{ event.payload.results }}}}"}}
  - step: sum
    tool: {_call('{v: "{{ args.all | sum }}"}')}
""",
    "sequential": f"""
workflow:
  - step: start
    loop:
      in: "{{{{ range(workload.count) }}}}"
      iterator: i
      spec: {{mode: sequential}}
    tool:
      - a:
          kind: http
          url: "http://sim/"
          json: {{v: "{{{{ iter.i + 1 }}}}", secs: "{{{{ workload.secs }}}}"}}
          spec:
            policy:
              rules:
                - else:
                    then:
                      do: continue
                      set_ctx:
                        sum: "{{{{ (ctx.sum | default(0)) + outcome.result }}}}"
    next: {{arcs: [{{step: end, when: "{{{{ event.name == 'loop.done' }}}}"}}]}}
  - step: end
    tool: {_call('{v: "{{ ctx.sum }}"}')}
""",
    "nested": f"""
workflow:
  - step: start
    loop:
      in: [0, 1]
      iterator: i
      spec: {{mode: parallel, max_in_flight: 2}}
      loop:
        in: "{{{{ range(2) }}}}"
        iterator: j
        spec: {{mode: sequential}}
    tool: {_call('{v: "{{ iter.parent.i * 10 + iter.j }}", secs: 0.1}')}
""",
    "retry": f"""
workflow:
  - step: start
    tool:
      - a: {_call("{v: 7, fails: 2}", _RETRY.replace("DELAY", "1500ms"))}
      - b: {_call('{v: "{{ _prev + 1 }}", fails: 1}', _RETRY.replace("DELAY", "100ms"))}
""",
    "timer": f"""
workflow:
  - step: start
    tool:
      - rest: {{kind: wait, for: 2s}}
      - a: {_call("{v: 3}")}
    next: {_NEXT.replace("STEP", "end")}
  - step: end
    tool: {_QUICK}
""",
    "signal": f"""
workflow:
  - step: start
    tool:
      - a: {_call("{v: 3}")}
      - ask: {{kind: wait, signal: go}}
      - b: {_call('{v: "{{ _prev.n + 1 }}"}')}
""",
    "caller": f"""
workflow:
  - step: start
    tool:
      - child: {{kind: playbook, path: chain, args: {{secs: 0.05}}}}
      - a: {_call('{v: "{{ _prev + 1 }}"}')}
""",
    "callers": """
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: i, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: playbook, path: brief, args: {n: "{{ iter.i }}"}}
""",
    "recaller": """
workflow:
  - step: start
    tool:
      - child:
          kind: playbook
          path: moody
          args: {n: 1}
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: retry, attempts: 3, delay: 50ms}
                - else: {then: {do: continue}}
""",
    "moody": f"""
workflow:
  - step: start
    tool: {_call("{v: 1, fails: 9}")}
""",
    "brief": f"""
workflow:
  - step: start
    tool: {_call('{v: "{{ workload.n * 2 }}"}')}
""",
    "keyed": f"""
executor:
  spec: {{concurrency: {{key: one, limit: 1, on_limit: queue}}}}
workflow:
  - step: start
    tool: {_call('{v: 1, secs: "{{ workload.secs }}", held: one}')}
    next: {_NEXT.replace("STEP", "end")}
  - step: end
    tool: {_QUICK}
""",
    "slots": """
workflow:
  - step: start
    loop:
      in: "{{ range(workload.count) }}"
      iterator: i
      spec: {mode: parallel, max_in_flight: 4}
    tool:
      kind: http
      url: "http://sim/"
      json: {v: "{{ iter.i }}", secs: 0.3, slot: s}
      spec: {slots: {key: s, limit: 1}}
""",
    "rate": f"""
workflow:
  - step: start
    loop:
      in: "{{{{ range(3) }}}}"
      iterator: i
      spec: {{mode: parallel, max_in_flight: 3}}
    tool:
      kind: http
      url: "http://sim/"
      json: {{v: "{{{{ iter.i }}}}", rated: r}}
      spec: {{rate: {{key: r, limit: 2/s, burst: 1}}}}
    next: {{arcs: [{{step: end, when: "{{{{ event.name == 'loop.done' }}}}"}}]}}
  - step: end
    tool: {_QUICK}
""",
    "handled": f"""
workflow:
  - step: start
    tool: {_call("{v: 0, fails: 9}")}
    next:
      arcs:
        - {{step: sorry, when: "{{{{ event.name == 'step.failed' }}}}"}}
        - {{step: fine}}
  - step: fine
    tool: {_QUICK}
  - step: sorry
    tool: {_call("{v: sorry}")}
""",
    "deadline": f"""
workflow:
  - step: start
    spec: {{deadline: 2s}}
    tool: {_call("{v: 1, secs: 25}")}
    next: {{arcs: [{{step: late, when: "{{{{ event.name == 'step.failed' }}}}"}}]}}
  - step: late
    tool: {_call("{v: late}")}
""",
    "cycle": f"""
workflow:
  - step: start
    tool: {_QUICK}
    next:
      arcs:
        - step: start
          when: "{{{{ event.payload.result < 4 }}}}"
          args: {{x: "{{{{ event.payload.result }}}}"}}
        - step: end
  - step: end
    tool: {_call("{v: done}")}
""",
    "large": f"""
workflow:
  - step: start
    loop:
      in: "{{{{ range(2) }}}}"
      iterator: i
      spec: {{mode: parallel}}
    tool: {_call("{fill: 150000}")}
    next:
      arcs:
        - step: middle
          when: "{{{{ event.name == 'loop.done' }}}}"
          args: {{all: "{{{{ event.payload.results }}}}"}}
  - step: middle
    tool: {_call('{v: "{{ args.all }}"}')}
    next:
      arcs:
        - step: end
          args: {{x: "{{{{ event.payload.result | map('length') | sum }}}}"}}
  - step: end
    tool: {_call('{v: "{{ args.x }}"}')}
""",
    "slow": f"""
workflow:
  - step: start
    tool: {_call("{v: 1, secs: 9}")}
""",
    "poison": f"""
workflow:
  - step: start
    tool: {_call("{v: 1, dies: true}")}
    next: {{arcs: [{{step: end, when: "{{{{ event.name == 'step.failed' }}}}"}}]}}
  - step: end
    tool: {_call("{v: over}")}
""",
}
_DEFAULTS = "workload: {secs: 0.05, count: 3, wide: true, n: 1}\n"
TEXTS: dict[str, bytes] = {
    path: (_HEAD.format(path=path) + _DEFAULTS + body).encode()
    for path, body in _BODIES.items()
}
IN_FLIGHT = {
    "parallel": 2,
    "sequential": 1,
    "nested": 2,
    "callers": 2,
    "slots": 4,
    "rate": 3,
    "large": 10,
}
"""The most iterations of the outer loop that may be open at a time."""
End = tuple[str, Any]
ENDS: dict[str, Callable[[dict[str, Any]], End]] = {
    "chain": lambda w: ("completed", 4),
    "fan": lambda w: ("completed", 7 if w["wide"] else 3),
    "parallel": lambda w: ("completed", sum(2 * (i + 1) for i in range(w["count"]))),
    "sequential": lambda w: ("completed", sum(i + 1 for i in range(w["count"]))),
    "nested": lambda w: ("completed", [[0, 1], [10, 11]]),
    "retry": lambda w: ("completed", 8),
    "timer": lambda w: ("completed", 4),
    "signal": lambda w: ("completed", 5),
    "caller": lambda w: ("completed", 5),
    "callers": lambda w: ("completed", [2, 4, 6]),
    "brief": lambda w: ("completed", 2 * w["n"]),
    "keyed": lambda w: ("completed", 2),
    "slots": lambda w: ("completed", list(range(w["count"]))),
    "rate": lambda w: ("completed", 1),
    "handled": lambda w: ("completed", "sorry"),
    "deadline": lambda w: ("completed", "late"),
    "cycle": lambda w: ("completed", "done"),
    "poison": lambda w: ("completed", "over"),
    "slow": lambda w: ("completed", 1),
    "large": lambda w: ("completed", 300_000),
    "recaller": lambda w: ("failed", None),
    "moody": lambda w: ("failed", None),
}
"""How an execution ends that nobody cancels, by its workload: status and result."""
USUAL = tuple(sorted(set(_BODIES) - {"poison", "brief", "moody", "large", "slow"}))


@dataclass(frozen=True)
class Job:
    """One request of a client: what it starts, when, and with which key."""

    number: int
    path: str
    at: float
    workload: dict[str, Any] = field(default_factory=dict)
    is_repeated: bool = False

    @property
    def key(self) -> str:
        return f"job-{self.number}"

    @property
    def concurrency(self) -> Concurrency | None:
        return Concurrency("one", 1, "queue", "keyed") if self.path == "keyed" else None


def make_jobs(
    seed: str,
    most: int | None,
    usual: Sequence[str] = USUAL,
    *,
    poison: bool,
    more: bool,
) -> list[Job]:
    """Draw the requests of a seed; ``more`` adds one with values outside of its log to
    some seeds."""
    draw = random.Random(f"{seed}:jobs")
    jobs: list[Job] = []
    count = draw.choice((1, 1, 2, 2, 3))
    paths = [draw.choice(usual) for _ in range(count)]
    if "keyed" in paths:
        paths.append("keyed")
    for path in paths[: most or None]:
        workload = {
            "secs": draw.choice((0.02, 0.02, 0.3, 1.0, 4.0, 9.0)),
            "count": draw.randint(1, 4),
            "wide": draw.random() < 0.5,
        }
        at = draw.random() * draw.choice((0.2, 3.0))
        jobs.append(Job(len(jobs), path, at, workload, draw.random() < 0.3))
    if poison:
        jobs.append(Job(len(jobs), "poison", draw.random(), {}))
    apart = random.Random(f"{seed}:large")
    if more and apart.random() < 0.15:
        jobs.append(Job(len(jobs), "large", apart.random() * 2, {}))
    return jobs
