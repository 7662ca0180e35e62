"""The log, folded: at every position what the live state was, from any snapshot."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

import noetl.engine.evolve
from noetl.engine.events import EVENTS, Event
from noetl.engine.evolve import _FOLDS, evolve, replay
from noetl.engine.recorder import Batch
from noetl.engine.state import State

Run = Callable[..., Any]

encode = msgspec.json.encode

FLOWS = {
    "a pipeline with retries and patches": """
    - step: start
      tool:
        - a: {kind: noop, spec: {policy: {rules: [
            {when: "{{ _attempt < 3 }}", then: {do: retry, delay: 1, set_ctx: {n: 1}}},
            {else: {then: {do: continue, set_ctx: {d.e: [1, {f: null}]}}}}]}}}
        - b: {kind: noop, spec: {policy: {rules: [{when: true, then: {do: skip}}]}}}
      next: {arcs: [{step: end, args: {k: "{{ event.payload }}"}}]}
    - {step: end, next: {arcs: [{step: last, when: "{{ args.k }}"}]}}
    - {step: last, tool: {kind: noop}}
    """,
    "parallel loops in a sequential one": """
    - step: start
      loop: {in: [1, 2], iterator: x, loop: {in: "{{ range(7) }}", iterator: y,
        spec: {mode: parallel, max_in_flight: 3}}}
      tool: [{a: {kind: noop, spec: {policy: {rules: [{else: {then:
        {do: continue, set_iter: {z: 1}, set_ctx: {k: 1}}}}]}}}}, {b: {kind: noop}}]
      next: {arcs: [{step: end, when: "{{ event.name == 'step.done' }}"}]}
    - {step: end, tool: {kind: noop}}
    """,
    "forks, joins and late tokens": """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}
    - {step: a, tool: [{x: {kind: noop}}], next: {spec: {mode: inclusive},
        arcs: [{step: any}, {step: all}]}}
    - {step: b, tool: [{y: {kind: noop}}], next: {spec: {mode: inclusive},
        arcs: [{step: any}, {step: all}]}}
    - {step: c, tool: [{z: {kind: noop}}], next: {arcs: [{step: all}]}}
    - {step: any, spec: {join: {mode: any}}, tool: {kind: noop}}
    - {step: all, spec: {join: {mode: all}}, tool: {kind: noop}}
    """,
    "a failed loop and an unhandled failure": """
    - step: start
      loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel}}
      tool: [{a: {kind: noop}}, {boom: {kind: noop}}]
      next: {arcs: [{step: end, when: "{{ event.name == 'step.failed' }}"}]}
    - {step: end, tool: [{again: {kind: noop}}]}
    """,
    "waits, deadlines and values that are too large": """
    - step: start
      loop: {in: "{{ range(4) }}", iterator: x, spec: {mode: parallel}}
      tool:
        - nap: {kind: wait, for: "{{ iter.x * 10 }}"}
        - big: {kind: noop, result: "{{ 'x' * (iter.x * 50000) }}", spec: {policy:
            {rules: [{else: {then: {do: continue, set_iter: {y: "{{ _prev }}"},
              set_ctx: {last: "{{ outcome.result | length }}"}}}}]}}}
      next: {arcs: [{step: late, args: {all: "{{ event.payload.results }}"}}]}
    - step: late
      spec: {deadline: 5}
      tool:
        - ask: {kind: wait, signal: go, timeout: "{{ args.all | length }}", spec:
            {policy: {rules: [{else: {then: {do: continue}}}]}}}
        - long: {kind: wait, for: 1h}
      next: {arcs: [{step: end, when: "{{ event.name == 'step.failed' }}"}]}
    - {step: end, tool: {kind: noop}}
    """,
}
SCRIPT = {
    "boom": ["!x"],
    "again": ["!y"],
    "big": lambda call: call.inputs["result"],
}


class Recorded(Batch):
    """Keeps the live state after each event, as bytes."""

    states: list[bytes]

    def emit(self, *args: Any, **options: Any) -> Event:
        event = super().emit(*args, **options)
        self.states.append(encode(self.state))
        return event


def watch(execution: Any) -> list[bytes]:
    states: list[bytes] = []

    def make() -> Batch:
        batch = Recorded(
            execution.playbook,
            execution.net,
            execution.state,
            execution.clock,
            execution._values,
        )
        batch.states = states
        return batch

    execution._batch = make
    return states


def live(prepare: Run, flow: str, seed: int, control: bool = False) -> Any:
    execution = prepare(flow, script=dict(SCRIPT), choose=random.Random(seed).randrange)
    states = watch(execution)
    execution.start()
    execution.step()
    if control:
        execution.pause()
        execution.step()
        execution.resume()
    while execution.step():
        if control and len(execution.log) > 25:
            execution.cancel()
    assert execution.state.finished
    return execution.log, states


@pytest.mark.spec("REP-01", "REP-02", "REP-03", "REP-05", "EVT-01")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "control", [False, True], ids=["alone", "paused and cancelled"]
)
@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_every_prefix_folds_to_the_live_state(
    prepare: Run, flow: str, control: bool, seed: int
) -> None:
    log, states = live(prepare, flow, seed, control)

    assert len(states) == len(log)
    for length in range(1, len(log) + 1):
        assert encode(replay(log[:length])) == states[length - 1], log[length - 1].name


@pytest.mark.spec("REP-04")
@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_every_snapshot_leads_to_the_same_end(prepare: Run, flow: str) -> None:
    log, states = live(prepare, flow, 0)
    for position in range(len(log)):
        snapshot = encode(replay(log[:position]))
        restored = msgspec.json.decode(snapshot, type=State)
        assert encode(restored) == snapshot
        assert encode(replay(log[position:], restored)) == states[-1]


@pytest.mark.spec("REP-01")
def test_events_survive_being_written_down(prepare: Run) -> None:
    log, states = live(prepare, FLOWS["parallel loops in a sequential one"], 1)
    written = [msgspec.json.decode(encode(event), type=Event) for event in log]

    assert encode(replay(written)) == states[-1]


@pytest.mark.spec("REP-01", "S-68")
@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_a_lost_host_goes_on_from_the_log(prepare: Run, flow: str) -> None:
    """After every move the state is thrown away and folded anew."""
    steady = prepare(flow, script=dict(SCRIPT))
    steady.run()
    shaky = prepare(flow, script=dict(SCRIPT))
    shaky.start()
    while True:
        shaky.state = replay(shaky.log)
        if not shaky.step():
            break

    assert shaky.log == steady.log


@pytest.mark.spec("REP-05")
def test_folding_asks_no_template_no_clock_and_no_chance() -> None:
    source = Path(noetl.engine.evolve.__file__).read_text()

    for word in ("templates", "holds(", "evaluate(", "time", "random", "datetime"):
        assert word not in source.replace("timestamp", "")


def test_a_name_that_nothing_folds_changes_only_the_position() -> None:
    state = State()
    event = Event(
        event_id="e.1",
        execution_id="e",
        seq=1,
        timestamp="T",
        source="worker",
        name="step.started",
        entity_type="step",
        parent_id=None,
        entity_id="e-1",
        status="in_progress",
    )
    evolve(state, event)
    expected = State()
    expected.seq = 1

    assert encode(state) == encode(expected)


@pytest.mark.parametrize("name", _FOLDS)
def test_a_fold_takes_the_payload_of_its_event(name: str) -> None:
    """The table of folds is not typed by event: this is what mypy cannot see."""
    hints = get_type_hints(_FOLDS[name])

    assert hints["payload"] is EVENTS[name].payload
