"""Steps are transitions: what is produced is consumed, each token once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from noetl.engine.events import Event
from noetl.engine.evolve import replay

Run = Callable[..., Any]

FLOWS = {
    "a chain through a routing step": """
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: via}]}}
    - {step: via, next: {arcs: [{step: end}]}}
    - {step: end, tool: {kind: noop}}
    """,
    "a fork whose branches meet without a join": """
    - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
    - {step: a, tool: {kind: noop}, next: {arcs: [{step: end}]}}
    - {step: b, tool: {kind: noop}, next: {arcs: [{step: end}]}}
    - {step: end, tool: {kind: noop}}
    """,
    "a fork, a join, and a token that comes too late": """
    - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
    - {step: a, tool: {kind: noop}, next: {arcs: [{step: end}]}}
    - {step: b, tool: {kind: noop}, next: {arcs: [{step: end}]}}
    - {step: end, spec: {join: {mode: any}}, tool: {kind: noop}}
    """,
    "a fork, and a join of both branches": """
    - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
    - {step: a, tool: {kind: noop}, next: {arcs: [{step: end}]}}
    - {step: b, tool: {kind: noop}, next: {arcs: [{step: end}]}}
    - {step: end, spec: {join: {mode: all}}, tool: {kind: noop}}
    """,
    "a gate that denies": """
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: shut}]}}
    - {step: shut, spec: {policy: {admit: {rules: [{else: {then: {allow: false}}}]}}},
       tool: {kind: noop}, next: {arcs: [{step: end}]}}
    - {step: end, tool: {kind: noop}}
    """,
    "a cycle that ends": """
    - step: start
      tool: {kind: noop}
      next: {arcs: [{step: start, when: "{{ (args.n | default(0)) < 3 }}",
        args: {n: "{{ (args.n | default(0)) + 1 }}"}}]}
    """,
    "a loop": """
    - step: start
      loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel}}
      tool: {kind: noop}
      next: {arcs: [{step: end}]}
    - {step: end, tool: {kind: noop}}
    """,
}


def produced(log: Iterable[Event]) -> Counter[str]:
    tokens: Counter[str] = Counter()
    for event in log:
        if event.name == "workflow.started":
            tokens[event.payload["token"]["token_id"]] += 1
        for token in event.payload.get("fired", ()):
            tokens[token["token_id"]] += 1
    return tokens


def consumed(log: Iterable[Event]) -> Counter[str]:
    tokens: Counter[str] = Counter()
    for event in log:
        if event.name in ("step.scheduled", "step.skipped"):
            tokens.update(event.payload["tokens"])
        elif event.payload.get("discarded"):
            tokens[event.payload["token_id"]] += 1
    return tokens


@pytest.mark.spec("STEP-06")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_every_token_is_produced_once_and_consumed_once(
    run: Run, flow: str, seed: int
) -> None:
    execution = run(flow, choose=random.Random(seed).randrange)

    assert execution.state.status == "completed"
    assert set(produced(execution.log).values()) == {1}
    assert consumed(execution.log) == produced(execution.log)


@pytest.mark.spec("STEP-06", "STEP-05")
@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_at_every_event_the_marking_is_what_was_not_yet_consumed(
    run: Run, flow: str
) -> None:
    """A token leaves its place when its step is enabled, not when the run ends."""
    log = run(flow).log
    for length in range(1, len(log) + 1):
        state = replay(log[:length])
        waiting = {
            token.id
            for queues in state.joining.values()
            for queue in queues.values()
            for token in queue
        }
        left = produced(log[:length]) - consumed(log[:length])
        assert state.tokens.keys() | waiting == left.keys()


@pytest.mark.spec("STEP-06", "NEXT-06", "STEP-05")
def test_a_firing_produces_one_token_per_arc_that_fires_and_none_without_arcs(
    run: Run,
) -> None:
    execution = run(FLOWS["a fork whose branches meet without a join"])
    routed = execution.events("next.evaluated")

    assert {event.step: len(event.payload["fired"]) for event in routed} == {
        "start": 2,
        "a": 1,
        "b": 1,
    }
    assert execution.runs_of("end") == 2


@pytest.mark.spec("STEP-06", "S-04")
def test_a_join_consumes_a_token_of_each_source_in_one_firing(run: Run) -> None:
    execution = run(FLOWS["a fork, and a join of both branches"])
    scheduled = execution.event("step.scheduled", "end")

    assert len(scheduled.payload["tokens"]) == 2
