"""Forks: what is kept, what begins again, what a newer playbook may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.engine.forks import Renaming, find_obstacles, is_firm
from noetl.engine.invariants import audit

Run = Callable[..., Any]

TWO = """
- step: a
  tool: [{one: {kind: noop}}, {two: {kind: noop, v: "{{ workload }}"}}]
  next: {arcs: [{step: b}]}
- {step: b, tool: {kind: noop}}
"""


def forked(prepare: Run, origin: Any, seq: int, flow: str, **edits: Any) -> Any:
    """A fork of an execution, run to its end."""
    script = edits.pop("script", None)
    fork = prepare(flow, execution_id="new", script=script)
    fork.fork(origin.log, seq, **edits)
    while fork.step():
        pass
    assert fork.state.finished
    assert audit(fork.log) == []
    return fork


def position(execution: Any, name: str, number: int = -1) -> int:
    return int(execution.events(name)[number].seq)


def test_what_was_begun_begins_again_with_its_attempt(prepare: Run, run: Run) -> None:
    retry = "spec: {policy: {rules: [{when: '{{ outcome.status == \"error\" }}', then: "
    retry += "{do: retry, attempts: 3, delay: 60}}]}}"
    flow = f"- {{step: a, tool: [{{one: {{kind: noop, {retry}}}}}]}}"
    origin = run(flow, script={"one": ["!timeout", 1]})
    at = position(origin, "task.started")

    fork = forked(prepare, origin, at, flow, script={"one": [2]})

    last = fork.events("task.started")[-1]
    assert (last.attempt, last.payload) == (2, {})
    assert (fork.labels, fork.state.result, fork.clock) == (["one"], 2, 0.0)


@pytest.mark.spec("S-54")
def test_a_wait_begins_again_unless_its_answer_has_come(prepare: Run) -> None:
    flow = "- {step: a, tool: [{w: {kind: wait, signal: go, timeout: 60}}]}"
    origin = prepare(flow)
    origin.start()
    origin.step()
    waiting = len(origin.log)
    origin.signal("go", 7)
    while origin.step():
        pass
    answered = position(origin, "task.resumed")

    late = forked(prepare, origin, waiting, flow)
    told = forked(prepare, origin, answered, flow)

    assert (late.state.status, late.clock) == ("failed", 60.0)
    assert (told.state.status, told.state.result) == ("completed", 7)


def test_an_untaken_signal_stays_buffered(prepare: Run) -> None:
    flow = """
    - {step: a, tool: {kind: noop}, next: {arcs: [{step: b}]}}
    - {step: b, tool: [{w: {kind: wait, signal: go}}]}
    """
    origin = prepare(flow)
    origin.start()
    origin.signal("go", 7)

    assert forked(prepare, origin, len(origin.log), flow).state.result == 7


def test_edits_hold_from_the_fork_on(prepare: Run, run: Run) -> None:
    origin = run(TWO)
    at = position(origin, "task.done", 0)

    fork = forked(prepare, origin, at, TWO, workload={"n": 1}, set_ctx={"a.b": 2})

    assert (fork.seen, fork.state.workload) == ([{"n": 1}, None], {"n": 1})
    assert fork.state.ctx == {"a": {"b": 2}}
    assert origin.state.workload == {}


def test_a_pause_of_the_origin_is_over(prepare: Run) -> None:
    origin = prepare(TWO)
    origin.start()
    origin.pause()

    fork = forked(prepare, origin, len(origin.log), TWO)

    assert fork.state.status == "completed"


def test_values_stay_and_names_change() -> None:
    rename = Renaming("sim", "new")
    reference = {"store": "noetl", "key": "log:sim-1", "range": "2-3", "size": 9}
    payload = {
        "tokens": ["sim.t1"],
        "args": {"file": "sim-1.csv", "rows": reference, "sim": "sim"},
        "fired": [{"token_id": "sim.t2", "step": "b", "args": {"token_id": "sim.t2"}}],
        "error": {"message": "sim-1", "iteration_id": "sim-1/0"},
    }
    event = Event(
        event_id="sim.4",
        execution_id="sim",
        seq=4,
        timestamp="",
        source="server",
        name="next.evaluated",
        entity_type="next",
        entity_id="sim-1",
        parent_id="sim",
        status="success",
        step="sim",
        step_run_id="sim-1",
        iteration_id="sim-1/0",
        task_run_id="sim-1/0:sim.1",
        action_id="a1sim",
        payload=payload,
    )

    renamed = rename.event(event)

    assert renamed.payload == {
        "tokens": ["new.t1"],
        "args": {
            "file": "sim-1.csv",
            "rows": {**reference, "key": "log:new-1"},
            "sim": "sim",
        },
        "fired": [{"token_id": "new.t2", "step": "b", "args": {"token_id": "sim.t2"}}],
        "error": {"message": "sim-1", "iteration_id": "new-1/0"},
    }
    assert renamed.task_run_id == "new-1/0:sim.1"
    assert (renamed.step, renamed.action_id) == ("sim", "a1sim")
    assert rename.name("simple-1") == "simple-1"


LOOPS = """
- step: a
  loop: {in: [1, 2], iterator: x, loop: {in: [1], iterator: y}}
  tool: {kind: noop}
  next: {arcs: [{step: b}]}
- {step: b, next: {arcs: [{step: c}]}}
- {step: c, tool: {kind: noop}}
"""


def test_a_fork_cannot_start_inside_a_decision(run: Run) -> None:
    log = run(LOOPS).log
    over = next(e.seq for e in log if e.name == "workflow.finished")
    firm = [
        event.name
        for event in log[: over - 1]
        if is_firm(replay(log[: event.seq]), event)
    ]

    assert firm == [
        "workflow.started",
        *(["loop.started", "loop.started", "loop.iteration.started"]),
        *(["task.started", "task.done", "loop.iteration.done", "loop.iteration.done"]),
        *(["loop.started", "loop.iteration.started"]),
        *(["task.started", "task.done", "loop.iteration.done", "loop.iteration.done"]),
        *(["step.done", "next.evaluated", "step.scheduled"]),
        *(["step.started", "task.started", "task.done", "step.done"]),
    ]


def test_a_newer_playbook_brings_a_new_first_task(prepare: Run, run: Run) -> None:
    newer = TWO.replace("tool: [", "tool: [{zero: {kind: noop}}, ")
    origin = run(TWO)

    begun = forked(
        *(prepare, origin, position(origin, "task.started", 0), newer), newer=True
    )
    under_way = forked(
        *(prepare, origin, position(origin, "task.done", 0), newer), newer=True
    )

    assert begun.labels == ["zero", "one", "two", "task_1"]
    assert under_way.labels == ["two", "task_1"]


@pytest.mark.parametrize("at", ["task.done", "step.done"])
def test_a_newer_playbook_brings_other_arcs(prepare: Run, run: Run, at: str) -> None:
    none = TWO.replace("  next: {arcs: [{step: b}]}\n", "").split("- {step: b")[0]
    other = TWO.replace("step: b}]", "step: c}]").replace("{step: b", "{step: c")
    long, short = run(TWO), run(none)
    seq = 9 if at == "task.done" else 10
    assert long.log[seq - 1].name == short.log[seq - 1].name == at

    removed = forked(prepare, long, seq, none, newer=True)
    added = forked(prepare, short, 9, TWO, newer=True)
    changed = forked(prepare, long, seq, other, newer=True)

    assert [removed.runs_of("b"), added.runs_of("b")] == [0, 1]
    assert (changed.runs_of("b"), changed.runs_of("c")) == (0, 1)


JOIN = """
- {step: a, next: {spec: {mode: inclusive}, arcs: [{step: x}, {step: y}]}}
- {step: x, tool: {kind: noop}, next: {arcs: [{step: j}]}}
- {step: y, tool: {kind: noop}, next: {arcs: [{step: j}]}}
- {step: j, spec: {join: {mode: all}}, tool: {kind: noop}}
"""


@pytest.mark.parametrize(
    ("flow", "at", "newer", "words"),
    [
        (TWO, "next.evaluated", TWO.replace("step: b", "step: bb"),
         "no step 'b' any more, and a token waits for it (did you mean 'bb'?)"),
        (TWO, "task.done", TWO.replace("two", "second"),
         "step 'a' has no task 'two' any more, which is the next one in it"),
        (TWO, "task.done", "- {step: a, next: {arcs: [{step: b}]}}\n- {step: b}",
         "step 'a' has no task any more, and it is running"),
        (LOOPS, "task.started", LOOPS.replace(", loop: {in: [1], iterator: y}", ""),
         "step 'a' is running with more loops than the 1 it has now"),
        (LOOPS, "task.started",
         LOOPS.replace("iterator: y}", "iterator: y, loop: {in: [1], iterator: z}}"),
         "step 'a' is running with 2 loops, and has 3"),
        (JOIN, "token.joined", JOIN.replace("spec: {join: {mode: all}}, ", ""),
         "step 'j' has no join any more, and tokens wait in it"),
        (JOIN, "token.joined", JOIN.replace("step: j", "step: k"),
         "there is no step 'j' any more, and tokens wait there for others"),
    ],
)  # fmt: skip
def test_what_is_open_must_be_known_to_a_newer_playbook(
    prepare: Run, run: Run, flow: str, at: str, newer: str, words: str
) -> None:
    origin = run(flow)
    state = replay(origin.log[: position(origin, at, 0)])

    found = find_obstacles(prepare(newer).playbook, state)

    assert words in " ".join(found)
    assert find_obstacles(origin.playbook, state) == []


def test_steps_that_are_over_may_be_gone(prepare: Run, run: Run) -> None:
    origin = run(TWO)
    newer = "- {step: b, tool: {kind: noop}}"
    at = position(origin, "next.evaluated")

    assert find_obstacles(prepare(newer).playbook, replay(origin.log[:at])) == []
    assert forked(prepare, origin, at, newer, newer=True).labels == ["task_1"]
