"""The audit of a log: whole ones pass, and each kind of damage is named."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from noetl.engine.events import Event
from noetl.engine.invariants import Audit, audit
from noetl.engine.invariants.catalog import INVARIANTS
from noetl.engine.runs import path_of
from noetl.engine.waits.signals import receive

Run = Callable[..., Any]
Log = list[Event]

FLOW = """
- step: start
  loop: {in: [1, 2, 3, 4], iterator: x, spec: {mode: parallel, max_in_flight: 2}}
  tool: [{a: {kind: noop, spec: {policy: {rules: [
    {when: "{{ _attempt < 2 }}", then: {do: retry}},
    {else: {then: {do: continue, set_ctx: {k: 1}}}}]}}}},
    {b: {kind: noop}}]
  next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
- {step: left, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- {step: right, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- {step: end, spec: {join: {mode: all}}, tool: {kind: noop}}
"""


def numbered(log: Log) -> Log:
    return [
        replace(event, seq=seq, event_id=f"{event.execution_id}.{seq}")
        for seq, event in enumerate(log, 1)
    ]


def find(log: Log, name: str) -> int:
    return next(at for at, event in enumerate(log) if event.name == name)


def without(log: Log, name: str) -> Log:
    at = find(log, name)
    return numbered([*log[:at], *log[at + 1 :]])


def doubled(log: Log, name: str) -> Log:
    at = find(log, name)
    return numbered([*log[: at + 1], log[at], *log[at + 1 :]])


def swapped(log: Log, name: str) -> Log:
    """The event comes one later than it did."""
    at = find(log, name)
    return numbered([*log[:at], log[at + 1], log[at], *log[at + 2 :]])


def inserted(log: Log, before: str, event: Event) -> Log:
    at = find(log, before)
    return numbered([*log[:at], event, *log[at:]])


def edited(log: Log, name: str, path: str, value: Any) -> Log:
    """Change one member of the payload of the first event of a name."""
    at = find(log, name)
    payload = deepcopy(log[at].payload)
    *outer, last = path.split(".")
    place: Any = payload
    for part in outer:
        place = place[int(part) if part.isdecimal() else part]
    place[int(last) if last.isdecimal() else last] = value
    return [*log[:at], replace(log[at], payload=payload), *log[at + 1 :]]


def names_in(log: Log, playbook: Any = None) -> set[str]:
    return {breach.invariant for breach in audit(log, playbook)}


@pytest.fixture(scope="module")
def flow(run: Run) -> Any:
    return run(FLOW, script={"b": lambda call: call.attempt})


def test_a_whole_log_and_each_beginning_of_it_are_sound(flow: Any) -> None:
    for length in range(len(flow.log) + 1):
        assert audit(flow.log[:length], flow.playbook) == []


@pytest.mark.parametrize(
    ("change", "name", "invariant"),
    [
        (without, "step.scheduled", "I-15"),
        (without, "step.done", "I-14"),
        (without, "loop.started", "I-22"),
        (without, "loop.iteration.started", "I-22"),
        (without, "loop.iteration.done", "I-24"),
        (without, "task.started", "I-17"),
        (without, "task.done", "I-27"),
        (without, "next.evaluated", "I-11"),
        (without, "loop.done", "I-12"),
        (without, "workflow.finished", "I-14"),
        (without, "workflow.started", "I-11"),
        (doubled, "playbook.execution.requested", "I-01"),
        (doubled, "workflow.started", "I-31"),
        (doubled, "step.done", "I-15"),
        (doubled, "step.scheduled", "I-11"),
        (doubled, "next.evaluated", "I-12"),
        (doubled, "token.joined", "I-11"),
        (doubled, "task.started", "I-27"),
        (doubled, "task.done", "I-27"),
        (doubled, "loop.started", "I-22"),
        (doubled, "loop.done", "I-24"),
        (doubled, "loop.iteration.started", "I-22"),
        (doubled, "loop.iteration.done", "I-15"),
        (doubled, "workflow.finished", "I-14"),
        (doubled, "playbook.processed", "I-14"),
        (swapped, "task.started", "I-17"),
        (swapped, "loop.iteration.started", "I-22"),
        (swapped, "workflow.finished", "I-14"),
    ],
)
def test_damage_is_named(flow: Any, change: Any, name: str, invariant: str) -> None:
    assert invariant in names_in(change(flow.log, name), flow.playbook)


@pytest.mark.parametrize(
    ("name", "path", "value", "invariant"),
    [
        ("workflow.started", "token.token_id", "sim.t7", "I-11"),
        ("workflow.started", "token.step", "other", "I-11"),
        ("step.scheduled", "admit.allow", False, "I-11"),
        ("step.scheduled", "tokens", [], "I-11"),
        ("next.evaluated", "arcs.0.fired", False, "I-12"),
        ("next.evaluated", "arcs.0.step", "other", "I-12"),
        ("next.evaluated", "mode", "exclusive", "I-12"),
        ("next.evaluated", "fired.0.token_id", "sim.t1", "I-11"),
        ("loop.started", "total", 5, "I-22"),
        ("loop.started", "mode", "sequential", "I-23"),
        ("loop.iteration.started", "item", 9, "I-22"),
        ("loop.done", "done", 3, "I-24"),
        ("loop.done", "total", 3, "I-24"),
        ("loop.done", "results", [1, 1, 1], "I-24"),
        ("loop.done", "error_kinds", {"timeout": 1}, "I-24"),
        ("loop.iteration.done", "result", 9, "I-26"),
        ("step.done", "result", 9, "I-26"),
        ("task.done", "outcome.status", "error", "I-26"),
        ("task.done", "directive.do", "fail", "I-27"),
        ("task.done", "directive.delay", -1, "I-28"),
        ("task.started", "in_doubt", 1, "I-27"),
        ("task.done", "directive", {"do": "jump", "to": "b", "next": "a"}, "I-29"),
        ("task.done", "directive", {"do": "continue", "next": "z"}, "I-29"),
        ("task.done", "directive", {"do": "fail", "next": "b"}, "I-26"),
        ("token.joined", "token_id", "sim.t2", "I-11"),
        ("workflow.finished", "status", "failed", "I-14"),
        ("workflow.finished", "status", "cancelled", "I-14"),
        ("task.done", "outcome.result", "x" * 70_000, "I-35"),
        ("task.done", "spilled", ["outcome.result"], "I-35"),
    ],
)
def test_an_edited_event_is_named(
    flow: Any, name: str, path: str, value: Any, invariant: str
) -> None:
    assert invariant in names_in(edited(flow.log, name, path, value), flow.playbook)


@pytest.mark.parametrize(
    ("name", "changes", "invariant"),
    [
        ("step.scheduled", {"source": "worker"}, "I-13"),
        ("step.scheduled", {"name": "step.dreamt"}, "I-13"),
        ("step.scheduled", {"step_run_id": "sim-8"}, "I-15"),
        ("task.started", {"attempt": 2}, "I-27"),
        ("task.started", {"task_label": "b"}, "I-27"),
        ("task.started", {"task_run_id": "sim-1/0:a.2"}, "I-27"),
        ("task.done", {"status": "skipped"}, "I-26"),
        ("step.done", {"status": "paused"}, "I-26"),
        ("step.done", {"execution_id": "other"}, "I-04"),
        ("step.done", {"event_id": "sim.999"}, "I-04"),
        ("step.done", {"payload": {}}, "I-26"),
        ("next.evaluated", {"payload": {}}, "I-07"),
        ("loop.started", {"payload": {"total": 3}}, "I-07"),
    ],
)
def test_a_wrong_envelope_is_named(
    flow: Any, name: str, changes: dict[str, Any], invariant: str
) -> None:
    at, log = find(flow.log, name), list(flow.log)
    log[at] = replace(log[at], **changes)

    assert invariant in names_in(log)


def test_a_gap_is_named_with_its_place(flow: Any) -> None:
    log = flow.log
    [breach] = [b for b in audit(log[:4] + log[5:]) if b.invariant == "I-04"]

    assert (breach.seq, breach.message) == (6, "expected event 5, found 6")
    assert breach.expected == "event 5"


def test_more_open_iterations_than_the_playbook_allows_are_named(
    run: Run, prepare: Run
) -> None:
    log = run(FLOW.replace("max_in_flight: 2", "max_in_flight: 3")).log
    narrow = prepare(FLOW).playbook

    [first, *_] = audit(log, narrow)

    assert (first.invariant, first.message, first.expected) == (
        "I-23",
        "3 iterations of sim-1 are open",
        "at most 2",
    )


@pytest.mark.spec("S-38")
def test_a_start_after_a_cancel_is_named(prepare: Run) -> None:
    execution = prepare("- {step: start, tool: [{a: {kind: noop}}, {b: {kind: noop}}]}")
    execution.start()
    execution.step()
    started = execution.event("task.started")
    scheduled = execution.event("step.scheduled")
    execution.cancel()
    log = execution.log
    assert audit(log) == []
    at = find(log, "workflow.cancelled") + 1

    for event in (started, scheduled):
        assert "I-32" in names_in(numbered([*log[:at], event, *log[at:]]))
    assert "I-34" in names_in(doubled(log, "workflow.cancelled"))


@pytest.mark.spec("S-39")
def test_a_start_during_a_pause_is_named(prepare: Run) -> None:
    execution = prepare(FLOW)
    execution.start()
    execution.pause()
    execution.resume()
    while execution.step():
        pass
    log = execution.log
    assert audit(log) == []

    moved = swapped(log, "workflow.resumed")
    begun = inserted(log, "workflow.resumed", execution.events("step.scheduled")[1])
    for changed in (
        begun,
        doubled(log, "workflow.paused"),
        doubled(log, "workflow.resumed"),
        without(log, "workflow.paused"),
    ):
        assert "I-33" in names_in(changed)
    assert moved != log


def test_a_deadline_before_its_time_is_named(prepare: Run) -> None:
    execution = prepare(
        "- {step: start, spec: {deadline: 60}, tool: {kind: wait, for: 1h}}"
    )
    execution.run()
    log = execution.log
    assert audit(log) == []
    assert execution.state.status == "failed"
    at = find(log, "step.failed")
    early = replace(log[at], timestamp="1970-01-01T00:00:59.000000Z")

    [breach] = audit([*log[:at], early, *log[at + 1 :]])

    assert (breach.invariant, breach.seq) == ("I-28", early.seq)
    assert breach.expected == "at 1970-01-01T00:01:00.000000Z or later"


def test_a_wait_that_ends_before_its_time_is_named(run: Run) -> None:
    log = run(
        """
        - step: start
          tool: [{a: {kind: wait, for: 1h}}, {b: {kind: noop}}]
        """
    ).log
    assert audit(log) == []
    again = inserted(log, "task.done", log[find(log, "task.started")])
    at = find(again, "task.done") - 1
    late = replace(again[at], timestamp="1970-01-01T01:00:00.000000Z")

    assert "I-28" in names_in(again)
    assert "I-28" not in names_in([*again[:at], late, *again[at + 1 :]])


@pytest.mark.spec("S-21")
def test_two_writers_of_one_key_are_named(run: Run) -> None:
    log = run(FLOW).log
    ends = [e for e in log if e.name == "task.done" and e.payload.get("set_ctx")]
    second = ends[1]
    other = {**second.payload, "set_ctx": {"k": 2}}
    changed = [replace(e, payload=other) if e is second else e for e in log]

    [breach, *_] = audit(changed)

    assert (breach.invariant, breach.seq) == ("I-30", second.seq)
    assert breach.message == "ctx.k is written by sim-1/1 and by sim-1/0"
    # One after the other, they may.
    sequential = edited(changed, "loop.started", "mode", "sequential")
    assert "I-30" not in names_in(sequential)


def test_a_signal_that_two_pipelines_take_is_named(prepare: Run) -> None:
    execution = prepare("- {step: start, tool: {kind: wait, signal: go}}")
    execution.run()
    execution.command(receive, "go", {"n": 1})
    while execution.step():
        pass
    log = execution.log
    assert audit(log) == []
    assert "task.resumed" in execution.names

    assert "I-49" in names_in(doubled(log, "task.resumed"))
    assert "I-49" in names_in(without(log, "message.received"))


@pytest.mark.spec("S-76")
@pytest.mark.parametrize(
    ("kept", "invariant"),
    [
        ({"done": 2, "ranges": [[0, 1]], "results": [None, None]}, None),
        ({"done": 1, "ranges": [[0, 1]], "results": [None]}, "I-48"),
        ({"done": 2, "ranges": [[3, 4]], "results": [None, None]}, "I-48"),
        ({"done": 2, "ranges": [[1, 1], [0, 0]], "results": [None, None]}, "I-48"),
    ],
)
def test_kept_iterations_are_counted(
    prepare: Run, kept: dict[str, Any], invariant: str | None
) -> None:
    execution = prepare(FLOW)
    execution.start()
    at = find(execution.log, "loop.started")
    log = execution.log[: at + 1]
    given = {"step_run_id": "sim-0", **kept}
    log[at] = replace(log[at], payload={**log[at].payload, "kept": given})
    third = replace(
        execution.events("loop.iteration.started")[0],
        entity_id="sim-1/2",
        iteration_id="sim-1/2",
        payload={"item": 3, "first": "a"},
    )

    found = names_in(numbered([*log, third]))

    assert found == (set() if invariant is None else found | {invariant})


def test_each_invariant_is_described() -> None:
    numbers = [int(name.removeprefix("I-")) for name in INVARIANTS]

    assert numbers == list(range(1, len(INVARIANTS) + 1))
    for name, each in INVARIANTS.items():
        assert each.sentence.endswith("."), name
        assert each.how, name
        assert each.cure, name


def messages_in(log: Log, playbook: Any = None) -> list[str]:
    return [breach.message for breach in audit(log, playbook)]


def test_an_end_with_something_open_is_named(flow: Any) -> None:
    log = without(without(flow.log, "workflow.finished"), "loop.iteration.done")
    at = max(n for n, event in enumerate(log) if event.name == "step.done")
    log = numbered([*log[:at], *log[at + 1 :]])

    assert "the execution has finished, but sim-4 has not" in messages_in(log)


def test_a_step_without_arcs_or_with_two_boundaries_is_named(
    flow: Any, prepare: Run
) -> None:
    at = find(flow.log, "step.done")
    first = flow.event("next.evaluated", step="start")
    routed = replace(first, payload={**first.payload, "on": "step.done"})
    twice = numbered([*flow.log[: at + 1], routed, *flow.log[at + 1 :]])
    other = prepare("- {step: start, tool: {kind: noop}}").playbook

    assert "step.done of sim-1 is routed" in messages_in(twice)
    assert "start is routed" in messages_in(flow.log, other)


NESTED = """
- step: start
  spec: {policy: {failure: best_effort}}
  loop:
    in: [1, 2]
    iterator: x
    spec: {mode: sequential}
    loop: {in: [3, 4], iterator: y, spec: {mode: parallel}}
  tool: [{a: {kind: noop}}]
"""


def test_damage_of_inner_loops_is_named(run: Run) -> None:
    log = run(NESTED).log
    assert audit(log) == []
    inner = [n for n, e in enumerate(log) if e.name == "loop.started"][1]
    outer = [n for n, e in enumerate(log) if e.entity_id == "sim-1/0"]
    begun = next(n for n in outer if log[n].name == "loop.iteration.started")
    ended = next(n for n in outer if log[n].name == "loop.iteration.done")
    early = log[ended]
    rest = [*log[:ended], *log[ended + 1 :]]

    orphan = numbered([*log[:begun], *log[begun + 1 :]])
    cut = numbered([*rest[: inner + 3], early, *rest[inner + 3 :]])

    assert "the loop sim-1/0 begins" in messages_in(orphan)
    assert "sim-1/0 ends with 2 open iterations inside it" in messages_in(cut)


def test_the_errors_of_a_loop_are_those_of_its_iterations(run: Run) -> None:
    log = run(NESTED, script={"a": ["!timeout", None]}).log
    assert audit(log) == []
    assert any("errors" in event.payload for event in log)
    at = next(n for n, event in enumerate(log) if "errors" in event.payload)
    payload = {**log[at].payload, "errors": []}

    changed = [*log[:at], replace(log[at], payload=payload), *log[at + 1 :]]

    assert "errors differs from the failed iterations" in messages_in(changed)


def test_a_deadline_of_the_execution_before_its_time_is_named(prepare: Run) -> None:
    root = "executor: {spec: {deadline: 60}}\n"
    execution = prepare("- {step: start, tool: {kind: wait, for: 1h}}", root)
    execution.run()
    log = execution.log
    assert audit(log) == []
    at = find(log, "workflow.cancelled")
    early = replace(log[at], timestamp="1970-01-01T00:00:59.000000Z")

    [breach] = audit([*log[:at], early, *log[at + 1 :]])

    assert (breach.invariant, breach.seq) == ("I-28", early.seq)
    completed = edited(log, "workflow.finished", "status", "completed")
    assert "status completed after a cancellation" in messages_in(completed)


def test_an_admission_and_an_end_out_of_turn_are_named(flow: Any, prepare: Run) -> None:
    execution = prepare("- {step: start, tool: {kind: noop}}")
    execution.start()
    execution.pause()
    paused = execution.event("workflow.paused")
    admitted = replace(paused, name="workflow.admitted", payload={"deadline": None})
    admitted = replace(admitted, status="in_progress")

    late = inserted(flow.log, "workflow.finished", paused)
    strange = inserted(flow.log, "step.started", admitted)

    assert "the execution finishes while paused" in messages_in(late)
    assert "an execution is admitted that did not wait" in messages_in(strange)


def test_a_success_before_the_last_task_is_named(flow: Any) -> None:
    done = edited(flow.log, "task.done", "directive", {"do": "continue", "next": "b"})
    at = find(done, "task.done")
    end = flow.events("loop.iteration.done")[0]
    early = numbered([*done[: at + 1], end, *done[at + 1 :]])

    assert "sim-1/0 succeeds before its task 'b'" in messages_in(early)


def test_a_pipeline_beyond_its_limit_is_named(run: Run, prepare: Run) -> None:
    tasks = ", ".join(f"{{{label}: {{kind: noop}}}}" for label in "abc")
    flow = f"- {{step: start, tool: [{tasks}]}}"
    root = "executor: {spec: {limits: {task_runs: 1}}}\n"
    narrow = prepare(flow, root).playbook

    assert "the pipeline has run 3 tasks" in messages_in(run(flow).log, narrow)


def test_a_refusal_that_does_not_fail_is_named(run: Run) -> None:
    log = run(FLOW).log
    at = next(n for n, e in enumerate(log) if e.payload.get("set_ctx"))
    payload = {**log[at].payload, "refused": {"key": "k", "by": "sim-1/1"}}
    changed = [*log[:at], replace(log[at], payload=payload), *log[at + 1 :]]

    assert "ctx.k is refused" in messages_in(changed)


@pytest.mark.spec("S-48")
def test_references_are_compared_with_what_they_refer_to(run: Run) -> None:
    log = run(
        "- {step: start, loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}, "
        "tool: [{a: {kind: noop}}]}",
        script={"a": ["x" * 30_000]},
    ).log
    assert audit(log) == []
    large = run(
        "- {step: start, tool: [{a: {kind: noop}}]}", script={"a": ["x" * 70_000]}
    )
    assert audit(large.log) == []

    for path, value, words in (
        ("results.range", "1-9", "the results are those of log:sim-1 in 1-9"),
        ("results.key", "log:sim-2", "the results are those of log:sim-2 in"),
        ("results.size", 7, "the results have 7 bytes"),
    ):
        assert any(
            message.startswith(words)
            for message in messages_in(edited(log, "loop.done", path, value))
        ), path
    forged = edited(large.log, "task.done", "outcome.result.checksum", "sha256:0")
    words = "the reference at outcome.result has sha256:0"
    assert words in messages_in(forged)


# -- size ------------------------------------------------------------------------


def loop_of(count: int, head: Log, last: Event) -> Iterator[Event]:
    """The log of one sequential loop with so many iterations."""
    begun, started, done, ended = (
        next(each for each in head if each.name == name)
        for name in (
            "loop.iteration.started",
            "task.started",
            "task.done",
            "loop.iteration.done",
        )
    )
    seq = begun.seq
    for index in range(count):
        name = f"sim-1/{index}"
        task = f"{name}:a.1"
        ids = {"iteration_id": name}
        parts = (
            (begun, name, {**ids, "payload": {**begun.payload, "item": index}}),
            (started, task, {**ids, "task_run_id": task}),
            (done, task, {**ids, "task_run_id": task}),
            (ended, name, {**ids, "payload": {"result": None, "size": 99}}),
        )
        for event, entity, changes in parts:
            own = {"event_id": f"sim.{seq}", "seq": seq, "entity_id": entity}
            yield replace(event, **own, **changes)
            seq += 1
    span, size = f"{begun.seq - 1}-{seq - 1}", count * 100
    store = {"store": "noetl", "key": "log:sim-1", "range": span, "size": size}
    sums = {"total": count, "done": count, "failed": 0, "skipped": 0}
    payload = {**sums, "results": {**store, "schema_hint": "list"}}
    yield replace(last, event_id=f"sim.{seq}", seq=seq, payload=payload)


def test_a_long_loop_is_audited_in_bounded_memory(run: Run) -> None:
    count = 4_000
    log = run(
        "- {step: start, loop: {in: '{{ range(2) }}', iterator: x, "
        "spec: {mode: sequential}}, tool: [{a: {kind: noop}}]}"
    ).log
    items = {"start": 0, "stop": count, "step": 1}
    log = edited(
        edited(log, "loop.started", "total", count), "loop.started", "items", items
    )
    watch, at = Audit(), find(log, "loop.iteration.started")
    for event in log[:at]:
        assert not watch.take(event)
    tracemalloc.start()
    sizes = []
    for number, event in enumerate(loop_of(count, log, log[find(log, "loop.done")])):
        assert not watch.take(event)
        if number in (count * 2, count * 4 - 1):
            path_of.cache_clear()
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()

    half, whole = sizes
    assert whole < half + 20_000
