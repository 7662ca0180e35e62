"""Forks: what is kept, what begins again, what a newer playbook may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.engine.forks import (
    Fork,
    Renaming,
    ask,
    find_obstacles,
    is_firm,
    is_idle,
)
from noetl.engine.invariants import audit
from noetl.engine.recorder import Recorder
from noetl.engine.state import State
from noetl.engine.undone import Unwinding

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
        (TWO, "task.done", TWO.replace("step: a", "step: aa"),
         "no step 'a' any more, and it is running (did you mean 'aa'?)"),
        (TWO, "task.done",
         TWO.replace("step: a", "step: a\n  loop: {in: [1], iterator: x}"),
         "step 'a' is running with no loop, and has a loop now"),
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


def test_the_request_for_a_fork_names_who_asked_and_where_it_belongs(run: Run) -> None:
    origin = run(TWO, parent={"execution_id": "up", "depth": 2, "iter": {"x": 1}})
    first = origin.log[0]
    first.payload["labels"] = {"team": "data"}
    caller, initiator = {"account": "ana"}, {"account": "bo", "roles": ["author"]}
    fork = Fork("new", "sim", 5, {}, caller=caller, initiator=initiator)
    recorder = Recorder(State())

    ask(recorder, fork, first)

    [event] = recorder.events
    assert (event.payload["fork"]["depth"], event.payload["fork"]["iter"]) == (
        3,
        {"x": 1},
    )
    assert event.payload["caller"] == caller
    assert event.payload["initiator"] == initiator
    assert event.payload["labels"] == {"team": "data"}


def test_an_execution_without_tokens_and_runs_is_idle(prepare: Run) -> None:
    execution = prepare(TWO)
    assert is_idle(execution.state)
    execution.start()

    assert not is_idle(execution.state)


def test_members_that_name_ids_are_renamed() -> None:
    rename = Renaming("sim", "new")
    stored = {
        **{"store": "noetl", "key": "a" * 64, "size": 9, "checksum": "sha256:" + "a"},
        "schema_hint": "object",
    }
    token = {"token_id": "sim.t3", "step": "a", "failed": "sim-1"}
    loop = {**stored, "key": "log:sim-1", "range": "1-2", "schema_hint": "list"}
    del loop["checksum"]
    payload = {
        **{"again": [token], "kept": {"step_run_id": "sim-1"}},
        **{"refused": {"key": "k", "by": "sim-1/0"}, "rows": [loop, stored]},
    }

    renamed = rename._payload(payload)

    assert renamed == {
        "again": [{**token, "token_id": "new.t3", "failed": "new-1"}],
        "kept": {"step_run_id": "new-1"},
        "refused": {"key": "k", "by": "new-1/0"},
        "rows": [{**loop, "key": "log:new-1"}, stored],
    }
    assert rename._payload({"kept": stored}) == {"kept": stored}


@pytest.mark.spec("S-76")
def test_failures_that_an_earlier_version_undid_begin_again(run: Run) -> None:
    """Logs of that version name the failed runs and denials in ``again``."""
    flow = TWO.replace("next: {arcs: [{step: b}]}", "")
    log = run(flow, script={"one": "!x"}).log
    at = next(n for n, event in enumerate(log) if event.name == "workflow.finished")
    sent = {"token_id": "sim.t2", "step": "a", "args": {}, "event": None}
    other = {**sent, "token_id": "sim.t3", "failed": "sim-7"}
    again = [{**sent, "failed": "sim-1"}, other]
    plain = {"from": {"execution_id": "o", "seq": at}, "deadline": None}
    payload = {**plain, "deadlines": {}, "again": again}
    changes = {"name": "workflow.forked", "status": "in_progress"}
    forked = replace(log[at], payload=payload, **changes)
    before = replay(log[:at])

    after = replay([*log[:at], forked])

    assert (list(before.failures), list(after.failures)) == (["sim-1"], [])
    assert list(after.tokens) == ["sim.t2"]
    assert after.token_count == before.token_count + 2
    unwinding = Unwinding(["sim-1"], None, lambda *args: False)
    unwinding.take(forked)
    follower = next(event for event in log if event.name == "step.scheduled")
    follower = replace(follower, step_run_id="sim-2", payload={"tokens": ["sim.t2"]})
    unwinding.take(replace(follower, entity_id="sim-2"))
    assert unwinding.end(at, ()).runs == [(2, 2)]
    lineage = {"execution_id": "o", "seq": at, "undone": {"last": 0, "runs": [(7, 7)]}}
    fork = replace(log[0], payload={**log[0].payload, "fork": lineage})
    for first in (log[0], fork):
        assert audit([first, *log[1:at], forked]) == []


def test_a_fork_cannot_start_where_an_inner_loop_has_an_iteration_without_tasks(
    run: Run,
) -> None:
    inner = "loop: {in: [1], iterator: y, loop: {in: [2], iterator: z}}"
    log = run(LOOPS.replace("loop: {in: [1], iterator: y}", inner)).log
    begun = [event for event in log if event.name == "loop.iteration.started"][1]
    state = replay(log[: begun.seq])

    assert begun.entity_id == "sim-1/0/0"
    assert not is_firm(state, begun)
