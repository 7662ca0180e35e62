"""A settlement in several batches makes the same events as one in a single batch."""

from __future__ import annotations

import pytest

from noetl import load
from noetl.engine.decide import SETTLE, Request, accept, expire
from noetl.engine.events import Event
from noetl.engine.recorder import Batch
from noetl.engine.state import State
from noetl.net.net import build_net

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
ROUNDS = """
workflow:
  - step: start
    next: {arcs: [{step: round, args: {n: 0}}]}
  - step: round
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: round, when: "{{ args.n < 20 }}", args: {n: "{{ args.n + 1 }}"}}
        - {step: all}
  - {step: all}
"""
JOINED = """
workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
  - {step: a, next: {arcs: [{step: both}]}}
  - {step: b, next: {arcs: [{step: both}]}}
  - {step: both, spec: {join: {mode: all}}}
"""
NESTED = """
workflow:
  - step: start
    loop:
      in: [0, 1, 2]
      iterator: a
      spec: {mode: parallel, max_in_flight: 3}
      loop: {in: [0, 1, 2], iterator: b, spec: {mode: parallel, max_in_flight: 3}}
    tool: {kind: noop}
"""


def settle(text: str, share: int | None) -> tuple[list[Event], int]:
    """All events until nothing is left to move, and in how many batches."""
    playbook = load(HEAD + text).playbook
    assert playbook is not None
    net, state = build_net(playbook), State()
    events: list[Event] = []
    batches = 0
    while True:
        batch = Batch(playbook, net, state, 1.8e9, share=share)
        if batches == 0:
            request = Request("e", {"name": "t", "path": "tests/t"}, playbook.workload)
            accept(batch, request)
        else:
            expire(batch, SETTLE)
        events += batch.events
        batches += 1
        assert batch.events, "a batch moved nothing"
        if not batch.is_cut:
            return events, batches


@pytest.mark.parametrize("text", [ROUNDS, NESTED], ids=["rounds", "loops"])
@pytest.mark.parametrize("share", [1, 300, 1_000, 5_000])
def test_what_is_cut_goes_on_where_it_was(text: str, share: int) -> None:
    whole, once = settle(text, None)
    parts, batches = settle(text, share)
    assert once == 1
    assert batches > 1 or share > 1_000
    assert sorted(each.name for each in parts) == sorted(each.name for each in whole)
    assert parts[-1].name == whole[-1].name


def test_a_join_waits_for_tokens_that_a_cut_has_left() -> None:
    whole, _ = settle(JOINED, None)
    parts, _ = settle(JOINED, 1)
    assert parts == whole
