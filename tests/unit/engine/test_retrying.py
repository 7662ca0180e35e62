"""Retries: finished iterations and branches are kept, the rest runs again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from noetl.engine.events import Event
from noetl.engine.evolve import evolve, replay
from noetl.engine.invariants import audit
from noetl.engine.state import State
from noetl.engine.undone import Undone
from noetl.net.net import build_net
from noetl.runtime.forks.points import Start, find_admissions, find_failures, unwind
from noetl.types import JSON

Prepare = Callable[..., Any]


class Log:
    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        assert execution_id == self._events[0].execution_id
        return self._events[after : None if limit is None else after + limit]


def start_of(origin: Any, step: str | None = None) -> Start:
    log: Any = Log(origin.log)
    name, net = origin.log[0].execution_id, build_net(origin.playbook)

    async def choose() -> Start:
        if step is None:
            return await find_failures(log, name, net)
        runs, at = await find_admissions(log, name, step)
        return Start(at, await unwind(log, name, at, runs[-1:], net, keep=False))

    return asyncio.run(choose())


def retried(
    prepare: Prepare, origin: Any, flow: str, step: str | None = None, **edits: Any
) -> Any:
    """A retry of an execution, run to its end."""
    start = start_of(origin, step)
    script, name = edits.pop("script", None), edits.pop("name", "new")
    fork = prepare(flow, execution_id=name, script=script)
    fork.fork(origin.log, start.at, undone=start.undone, **edits)
    while fork.step():
        pass
    assert fork.state.finished
    assert audit(fork.log) == []
    assert encode(replay(fork.log)) == encode(fork.state)
    return fork


def encode(state: State) -> bytes:
    return msgspec.json.encode(state, order="sorted")


def loop(collection: str, spec: str = "{mode: parallel, max_in_flight: 3}") -> str:
    return f"""
    - step: work
      spec: {{policy: {{failure: best_effort}}}}
      loop: {{in: "{collection}", iterator: x, spec: {spec}}}
      tool: [{{one: {{kind: noop, v: "{{{{ iter.x }}}}", spec: {{policy: {{rules: [
        {{when: "{{{{ outcome.status == 'error' }}}}", then: {{do: fail}}}},
        {{else: {{then: {{do: continue}}}}}}]}}}}}}}}]
      next: {{arcs: [{{step: after}}]}}
    - step: after
      tool: [{{two: {{kind: noop, v: after}}}}]
    """


def failing(*bad: JSON) -> dict[str, Any]:
    """Answers ten times the input, and an error for bad ones."""

    def answer(call: Any) -> JSON:
        value = call.inputs["v"]
        return "!tool.exit" if value in bad else value * 10

    return {"one": answer}


@pytest.mark.spec("S-76")
def test_only_failed_iterations_run_again(prepare: Prepare, run: Prepare) -> None:
    flow = loop("{{ range(9) | list }}")
    origin = run(flow, script=failing(2, 3, 7))
    whole = run(flow, script=failing())

    fork = retried(prepare, origin, flow, script=failing())

    assert origin.state.status == "completed"
    assert fork.seen == [2, 3, 7, "after"]
    assert fork.state.result == whole.state.result
    done = fork.events("loop.done")[-1].payload
    assert done == whole.event("loop.done").payload
    kept = fork.events("loop.started")[-1].payload["kept"]
    assert kept == {
        "step_run_id": "new-1",
        "done": 6,
        "ranges": [[0, 1], [4, 6], [8, 8]],
        "results": [0, 10, 40, 50, 60, 80],
    }


@pytest.mark.spec("S-76")
def test_iterations_that_never_began_run_as_well(
    prepare: Prepare, run: Prepare
) -> None:
    flow = loop("{{ range(6) | list }}", "{mode: sequential}")
    flow = flow.replace("spec: {policy: {failure: best_effort}}", "desc: x")
    origin = run(flow, script=failing(2))

    fork = retried(prepare, origin, flow, script=failing())

    assert origin.state.status == "failed"
    assert fork.seen[:4] == [2, 3, 4, 5]
    assert fork.events("loop.done")[-1].payload["results"] == [0, 10, 20, 30, 40, 50]


SUM = """
- step: work
  loop: {in: "{{ [1, 2, 3, 4] }}", iterator: x}
  tool:
    - add: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue,
        set_ctx: {sum: "{{ (ctx.sum | default(0)) + iter.x }}"}}}}]}}}
    - one: {kind: noop, v: "{{ iter.x }}", spec: {policy: {rules: [
        {when: "{{ outcome.status == 'error' }}", then: {do: fail}},
        {else: {then: {do: continue, set_ctx: {last: "{{ iter.x }}"}}}}]}}}
"""


@pytest.mark.spec("S-76")
def test_failed_iterations_leave_no_patch_in_a_retry(
    prepare: Prepare, run: Prepare
) -> None:
    origin = run(SUM, script=failing(3))

    fork = retried(prepare, origin, SUM, script=failing())

    assert (origin.state.ctx, origin.state.status) == ({"sum": 6, "last": 2}, "failed")
    assert (
        fork.state.ctx == run(SUM, script=failing()).state.ctx == {"sum": 10, "last": 4}
    )
    assert fork.labels == ["add", "one", "add", "one"]


@pytest.mark.spec("S-76")
def test_a_second_retry_keeps_the_iterations_of_the_first(
    prepare: Prepare, run: Prepare
) -> None:
    flow = loop("{{ range(9) | list }}")
    origin = run(flow, script=failing(1, 2, 3))
    first = retried(prepare, origin, flow, script=failing(2), name="first")

    second = retried(prepare, first, flow, script=failing(), name="second")

    assert first.seen == [1, 2, 3, "after"]
    assert second.seen == [2, "after"]
    whole = run(flow, script=failing())
    assert second.events("loop.done")[-1].payload == whole.event("loop.done").payload


@pytest.mark.spec("S-76")
def test_a_changed_collection_runs_again_as_a_whole(
    prepare: Prepare, run: Prepare
) -> None:
    flow = loop("{{ range(workload.n) | list }}")
    origin = prepare(flow, workload={"n": 4}, script=failing(2))
    origin.run()

    other = retried(prepare, origin, flow, workload={"n": 3}, script=failing())
    same = retried(prepare, origin, flow, workload={"n": 4, "a": 1}, script=failing())

    assert other.seen == [0, 1, 2, "after"]
    assert "kept" not in other.events("loop.started")[-1].payload
    assert same.seen == [2, "after"]


@pytest.mark.spec("S-76", "S-48")
def test_large_results_survive_two_retries(prepare: Prepare, run: Prepare) -> None:
    flow = loop("{{ range(12) | list }}")

    def large(*bad: int) -> dict[str, Any]:
        def answer(call: Any) -> JSON:
            value = call.inputs["v"]
            return "!tool.exit" if value in bad else str(value) * 20_000

        return {"one": answer}

    origin = run(flow, script=large(3, 4, 9))
    first = retried(prepare, origin, flow, script=large(4), name="first")
    second = retried(prepare, first, flow, script=large(), name="second")

    results = second.events("loop.done")[-1].payload["results"]
    assert results["key"].startswith("log:second-")
    second._blobs.put({**origin._blobs._blobs, **first._blobs._blobs})
    assert second.whole(results) == [str(value) * 20_000 for value in range(12)]


NESTED = """
- step: work
  %s
  loop:
    in: "{{ [1, 2, 3] }}"
    iterator: x
    loop: {in: "{{ [1, 2, 3] }}", iterator: y, spec: {mode: parallel}}
  tool: [{one: {kind: noop, v: "{{ [iter.parent.x, iter.y] }}", spec: {policy: {rules: [
    {when: "{{ outcome.status == 'error' }}", then: {do: fail}},
    {else: {then: {do: continue}}}]}}}}]
"""


@pytest.mark.spec("S-76")
@pytest.mark.parametrize("spec", ["spec: {policy: {failure: best_effort}}", "desc: x"])
def test_only_innermost_iterations_run_again(
    prepare: Prepare, run: Prepare, spec: str
) -> None:
    flow = NESTED % spec
    origin = run(flow, script={"one": lambda call: answer_pair(call, [[2, 2]])})
    before = [call.inputs["v"] for call in origin.calls]

    fork = retried(prepare, origin, flow, script={"one": answer_pair})

    whole = run(flow, script={"one": answer_pair})
    assert fork.state.result == whole.state.result
    failed = {"work"} if spec == "desc: x" else set()
    again = [pair for pair in whole.seen if pair not in before]
    assert sorted(fork.seen) == sorted([[2, 2], *(again if failed else [])])


def answer_pair(call: Any, bad: Sequence[JSON] = ()) -> JSON:
    value = call.inputs["v"]
    return "!tool.exit" if value in bad else value[0] * 10 + value[1]


@pytest.mark.spec("S-76")
@pytest.mark.parametrize("seed", range(40))
def test_retries_come_to_the_end_of_an_undisturbed_run(
    prepare: Prepare, run: Prepare, seed: int
) -> None:
    """Each call that succeeded is made once, however often the rest is retried."""
    dice = random.Random(seed)
    flow = NESTED % dice.choice(["spec: {policy: {failure: best_effort}}", "desc: x"])
    calls: dict[str, int] = {}

    def answer(call: Any) -> JSON:
        if dice.random() < 0.3:
            return "!tool.exit"
        calls[str(call.inputs["v"])] = calls.get(str(call.inputs["v"]), 0) + 1
        return answer_pair(call)

    latest = run(flow, script={"one": answer})
    for number in range(30):
        if not failures_of(latest):
            break
        latest = retried(
            prepare, latest, flow, script={"one": answer}, name=f"r{number}"
        )

    whole = run(flow, script={"one": answer_pair})
    assert latest.state.result == whole.state.result
    assert calls == dict.fromkeys(map(str, whole.seen), 1)


def failures_of(execution: Any) -> bool:
    if execution.state.status == "failed":
        return True
    results = execution.events("loop.done")[-1].payload["results"]
    return any(None in (inner or [None]) for inner in results)


DIAMOND = """
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}
- step: a
  tool: [{one: {kind: noop, v: a}}]
  next: {arcs: [{step: join, args: {a: "{{ event.payload.result }}"}}]}
- step: b
  tool: [{one: {kind: noop, v: b}}]
  next: {arcs: [{step: join, args: {b: "{{ event.payload.result }}"}}]}
- step: c
  tool: [{one: {kind: noop, v: c, spec: {policy: {rules: [{else: {then: {do: continue,
    set_ctx: {c: done}}}}]}}}}]
- step: join
  spec: {join: {mode: all}}
  tool: [{one: {kind: noop, v: "{{ args.a }}{{ args.b }}"}}]
"""


@pytest.mark.spec("S-76")
def test_a_step_and_what_follows_from_it_run_again_and_nothing_else(
    prepare: Prepare, run: Prepare
) -> None:
    echo = {"one": lambda call: call.inputs["v"]}
    origin = run(DIAMOND, script=echo)

    fork = retried(prepare, origin, DIAMOND, "a", script={"one": ["A", "end"]})

    assert fork.seen == ["a", "Ab"]
    assert fork.state.ctx == {"c": "done"}
    assert fork.state.status == "completed"
    middle = retried(prepare, origin, DIAMOND, "join", script=echo)
    assert middle.seen == ["ab"]


@pytest.mark.spec("S-76")
def test_open_branches_go_on_beside_the_step(prepare: Prepare) -> None:
    flow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
    - step: a
      tool: [{one: {kind: noop, v: a}}]
    - step: b
      tool: [{nap: {kind: wait, signal: go}}, {two: {kind: noop, v: b}}]
    """
    origin = prepare(flow)
    origin.start()
    while origin.step():
        pass
    origin.cancel()
    start = start_of(origin, "a")

    fork = prepare(flow, execution_id="new")
    fork.fork(origin.log, start.at, undone=start.undone)
    while fork.step():
        pass
    fork.signal("go", 1)
    while fork.step():
        pass

    assert origin.state.status == "cancelled"
    assert (fork.state.status, fork.seen) == ("completed", ["a", "b"])


@pytest.mark.spec("S-76")
def test_an_answer_that_an_undone_wait_took_is_asked_for_again(
    prepare: Prepare,
) -> None:
    flow = """
    - {step: a, tool: [{one: {kind: noop, v: a}}], next: {arcs: [{step: b}]}}
    - {step: b, tool: [{nap: {kind: wait, signal: go}}]}
    """
    origin = prepare(flow)
    origin.start()
    while origin.step():
        pass
    origin.signal("go", 1)
    while origin.step():
        pass
    start = start_of(origin, "a")

    fork = prepare(flow, execution_id="new")
    fork.fork(origin.log, start.at, undone=start.undone)
    while fork.step():
        pass

    assert origin.state.finished
    assert not fork.state.finished


@pytest.mark.spec("S-76")
def test_a_wait_for_a_time_that_is_undone_waits_again(
    prepare: Prepare, run: Prepare
) -> None:
    flow = """
    - {step: a, tool: [{one: {kind: noop, v: a}}], next: {arcs: [{step: b}]}}
    - {step: b, tool: [{nap: {kind: wait, for: 90}}]}
    """
    origin = run(flow)

    assert retried(prepare, origin, flow, "a").clock == 90.0


@pytest.mark.spec("S-76", "S-38")
def test_a_retry_goes_on_from_a_snapshot_anywhere(
    prepare: Prepare, run: Prepare
) -> None:
    flow = loop("{{ range(9) | list }}")
    fork = retried(prepare, run(flow, script=failing(2, 3)), flow, script=failing())

    for cut in range(1, len(fork.log)):
        before = replay(fork.log[:cut])
        thawed = msgspec.json.decode(msgspec.json.encode(before), type=State)
        for event in fork.log[cut:]:
            evolve(thawed, event)
        assert encode(thawed) == encode(fork.state)


@pytest.mark.spec("S-76")
def test_failed_iterations_run_before_the_step_that_failed_after_them(
    prepare: Prepare, run: Prepare
) -> None:
    flow = loop("{{ range(4) | list }}").replace(
        "v: after}", "v: after, spec: {policy: {rules: [{else: {then: {do: fail}}}]}}}"
    )
    origin = run(flow, script={**failing(2), "two": ["!tool.exit"]})
    good = flow.replace("do: fail}}}]", "do: continue}}}]")

    fork = retried(prepare, origin, good, script=failing())

    assert origin.state.status == "failed"
    assert (fork.state.status, fork.seen) == ("completed", [2, "after"])


@pytest.mark.spec("S-76")
def test_a_retry_of_an_earlier_version_is_read_and_retried(
    prepare: Prepare, run: Prepare
) -> None:
    """It put the token of a failed run back in `workflow.forked`."""
    flow = "- {step: a, tool: [{one: {kind: noop, v: 1, spec: {policy: {rules: ["
    flow += "{else: {then: {do: fail}}}]}}}}]}"
    origin = run(flow, script={"one": ["!tool.exit"]})
    failed = origin.event("step.failed")
    back = {"failed": failed.entity_id, "token_id": "sim.t2"}
    back |= {"step": "a", "args": {}, "event": None}
    kept = list(origin.log[: failed.seq])
    payload: dict[str, JSON] = {"from": {}, "deadline": None, "deadlines": {}}
    forked = msgspec.structs.replace(
        failed, seq=failed.seq + 1, name="workflow.forked", step_run_id=None
    )
    forked = msgspec.structs.replace(forked, payload={**payload, "again": [back]})

    state = replay([*kept, forked])

    assert [token.id for token in state.tokens.values()] == ["sim.t2"]
    assert state.failures == {}
    undone = Undone(forked.seq, [(1, 1)], [], [])
    before = evolve(State(), kept[0])
    before.undone = undone
    later = replay([*kept[1:], forked], before)
    assert [token.id for token in later.tokens.values()] == ["sim.t1"]
    assert later.token_count == 2


@pytest.mark.spec("S-76")
def test_a_step_that_has_more_loops_now_begins_as_a_whole(
    prepare: Prepare, run: Prepare
) -> None:
    flow = loop("{{ range(3) | list }}")
    origin = run(flow, script=failing(2))
    inner = "iterator: x, loop: {in: [7], iterator: y}"
    assert "iterator: x" in flow

    newer = flow.replace("iterator: x", inner, 1)
    fork = retried(prepare, origin, newer, newer=True, script=failing())

    at = fork.event("workflow.forked").seq
    begun = [event for event in fork.events("loop.started") if event.seq > at]
    assert [event.payload["total"] for event in begun] == [3, 1, 1, 1]
    assert not any("kept" in event.payload for event in begun)
