"""Loops: the collection, the order, the bound, failures, nesting, results."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.events import Event

Run = Callable[..., Any]


def loop(head: str, task: str = "", step: str = "") -> str:
    return f"""
    - step: start
      {step}
      loop: {{{head}}}
      tool: [{{work: {{kind: noop, v: "{{{{ iter.x }}}}" {task}}}}}]
      next: {{arcs: [{{step: end, when: "{{{{ event.status == 'success' }}}}"}}]}}
    - {{step: end, tool: [{{last: {{kind: noop}}}}]}}
    """


def index(event: Event) -> int:
    return int(event.entity_id.rsplit("/", 1)[1])


def spans(execution: Any) -> list[str]:
    """``+0 -0 +1``: which iteration began and ended when."""
    signs = {"loop.iteration.started": "+"}
    names = ("loop.iteration.started", "loop.iteration.done", "loop.iteration.failed")
    return [f"{signs.get(e.name, '-')}{index(e)}" for e in execution.events(*names)]


@pytest.mark.spec("LOOP-02", "LOOP-03", "LOOP-07", "S-24", "S-26", "S-33")
@pytest.mark.parametrize(
    ("items", "seen"),
    [
        pytest.param("[1, 'b', null]", [1, "b", None], id="a literal list"),
        pytest.param('[1, "{{ workload.n }}"]', [1, 3], id="with a template in it"),
        pytest.param('"{{ workload.list }}"', [5, 6], id="a template"),
        pytest.param('"{{ (1, 2) }}"', [1, 2], id="a tuple"),
        pytest.param('"{{ [3, 1] | sort }}"', [1, 3], id="a filter's list"),
        pytest.param("\"{{ ['1', '2'] | map('int') }}\"", [1, 2], id="a generator"),
        pytest.param('"{{ range(3) }}"', [0, 1, 2], id="a range"),
        pytest.param('"{{ range(3) | list }}"', [0, 1, 2], id="a range as a list"),
        pytest.param('"{{ range(5, 0, -2) }}"', [5, 3, 1], id="a range downwards"),
    ],
)
def test_what_can_be_iterated(run: Run, items: str, seen: list[object]) -> None:
    execution = run(
        loop(f"in: {items}, iterator: x"), "workload: {n: 3, list: [5, 6]}\n"
    )

    assert execution.seen[:-1] == seen
    assert execution.event("loop.started").payload["total"] == len(seen)


@pytest.mark.spec("S-26", "S-65", "LOOP-03")
@pytest.mark.parametrize(
    ("items", "found"),
    [
        pytest.param("workload.map", "a mapping", id="a mapping"),
        pytest.param("'text'", "text", id="text"),
        pytest.param("5", "a number", id="a number"),
        pytest.param("1.5", "a number", id="a fraction"),
        pytest.param("true", "a boolean", id="a boolean"),
        pytest.param("none", "null", id="null"),
        pytest.param("ctx.nothing.here", "undefined", id="undefined"),
    ],
)
def test_what_cannot_be_iterated(run: Run, items: str, found: str) -> None:
    execution = run(
        loop(f'in: "{{{{ {items} }}}}", iterator: x'), "workload: {map: {a: 1}}\n"
    )
    error = execution.event("step.failed").payload["error"]

    assert (error["kind"], execution.state.status) == ("loop.in_type", "failed")
    assert found in error["message"]
    assert execution.events("loop.started", "loop.done") == []


@pytest.mark.spec("S-32")
def test_a_collection_that_cannot_be_rendered_fails_the_step(run: Run) -> None:
    execution = run(loop('in: "{{ 1 // 0 }}", iterator: x'))

    assert execution.event("step.failed").payload["error"]["kind"] == "template.error"


@pytest.mark.spec("S-25", "LOOP-22", "C-11")
def test_an_empty_list_is_a_success(run: Run) -> None:
    execution = run(loop("in: [], iterator: x"))
    mine = [event.name for event in execution.log if event.step == "start"]

    assert mine == [
        *("step.scheduled", "step.started", "loop.started", "loop.done"),
        *("next.evaluated", "step.done"),
    ]
    assert execution.event("loop.done").payload == {
        **{"total": 0, "done": 0, "failed": 0, "skipped": 0},
        "results": [],
    }
    assert execution.labels == ["last"]


@pytest.mark.spec("S-71", "S-24")
def test_a_whole_range_is_recorded_lazily(prepare: Run) -> None:
    execution = prepare(loop('in: "{{ range(1000000) }}", iterator: x'))
    execution.start()
    started = execution.event("loop.started")

    assert started.payload["items"] == {"start": 0, "stop": 1000000, "step": 1}
    assert started.payload["total"] == 1000000
    assert len(execution.state.runs["sim-1"].loop.open) == 1


@pytest.mark.spec("S-70", "S-65")
def test_a_million_items_are_the_most(run: Run) -> None:
    many = {"list": [0] * 1_000_001}
    execution = run(loop('in: "{{ workload.list }}", iterator: x'), workload=many)

    assert execution.event("step.failed").payload["error"]["kind"] == "loop.too_many"


@pytest.mark.spec("LOOP-04", "LOOP-10", "S-27")
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("", id="by default"),
        pytest.param(", spec: {mode: sequential}", id="sequential"),
        pytest.param(
            ", spec: {mode: sequential, max_in_flight: 3}", id="whatever the bound"
        ),
    ],
)
def test_sequential_is_one_after_the_other(run: Run, spec: str) -> None:
    execution = run(
        loop(f"in: [5, 6, 7], iterator: x{spec}"), choose=random.Random(1).randrange
    )

    assert spans(execution) == ["+0", "-0", "+1", "-1", "+2", "-2"]
    assert execution.seen[:-1] == [5, 6, 7]


@pytest.mark.spec("LOOP-05", "LOOP-11", "S-27")
@pytest.mark.parametrize(
    ("spec", "bound"),
    [
        pytest.param("{mode: parallel, max_in_flight: 3}", 3, id="its own bound"),
        pytest.param("{mode: parallel}", 10, id="ten by default"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_parallel_fills_up_to_the_bound(
    run: Run, spec: str, bound: int, seed: int
) -> None:
    execution = run(
        loop(f'in: "{{{{ range(25) }}}}", iterator: x, spec: {spec}'),
        choose=random.Random(seed).randrange,
    )
    open_ = highest = 0
    for mark in spans(execution):
        open_ += 1 if mark[0] == "+" else -1
        highest = max(highest, open_)
    begun = [int(mark[1:]) for mark in spans(execution) if mark[0] == "+"]
    ended = [int(mark[1:]) for mark in spans(execution) if mark[0] == "-"]

    assert highest == bound
    assert begun == list(range(25))
    assert sorted(ended) == begun != ended
    assert execution.event("loop.done").payload["results"] == [None] * 25


@pytest.mark.spec("LOOP-12", "S-23", "C-25")
def test_iteration_ids_are_the_run_and_the_index(run: Run) -> None:
    execution = run(loop("in: [5, 6], iterator: x"))

    assert [e.entity_id for e in execution.events("loop.iteration.started")] == [
        "sim-1/0",
        "sim-1/1",
    ]
    tasks = execution.events("task.started", step="start")
    assert [e.iteration_id for e in tasks] == ["sim-1/0", "sim-1/1"]


@pytest.mark.spec("LOOP-09", "LOOP-13", "POL-10")
@pytest.mark.parametrize("seed", range(4))
def test_iter_is_isolated(run: Run, seed: int) -> None:
    flow = """
    - step: start
      loop: {in: [1, 2, 3, 4], iterator: x, spec: {mode: parallel}}
      tool:
        - write: {kind: noop, v: "{{ iter.note is defined }}",
            spec: {policy: {rules: [{else: {then:
              {do: continue, set_iter: {note: "{{ iter.x * 10 + iter.index }}"}}}}]}}}
        - read: {kind: noop, v: "{{ iter.note }}"}
    """
    script = {"read": lambda call: call.inputs["v"]}
    execution = run(flow, script=script, choose=random.Random(seed).randrange)

    assert execution.event("loop.done").payload["results"] == [10, 21, 32, 43]
    assert not any(c.inputs["v"] for c in execution.calls if c.task.label == "write")


@pytest.mark.spec("S-12", "LOOP-22", "S-11")
def test_results_are_in_the_order_of_the_items(run: Run) -> None:
    flow = loop("in: [5, 6, 7], iterator: x, spec: {mode: parallel}")
    script = {"work": lambda call: call.inputs["v"] * 2}
    execution = run(flow, script=script, choose=lambda count: count - 1)
    done = execution.event("loop.done").payload

    assert done == {
        **{"total": 3, "done": 3, "failed": 0, "skipped": 0},
        "results": [10, 12, 14],
    }
    assert execution.event("step.done", step="start").payload["result"] == [10, 12, 14]
    assert spans(execution)[3:] == ["-2", "-1", "-0"]


@pytest.mark.spec("S-12", "DIR-11")
def test_break_ends_its_iteration_only(run: Run) -> None:
    rule = ", spec: {policy: {rules: [{else: {then: {do: break}}}]}}"
    execution = run(loop("in: [1, 2], iterator: x", rule), script={"work": [4, 5]})

    assert execution.event("loop.done").payload["results"] == [4, 5]


FAIL_AT_2 = {"work": lambda call: "!boom" if call.inputs["v"] == 2 else 1}


@pytest.mark.spec("LOOP-20", "S-28", "S-11", "S-71")
def test_a_failed_iteration_fails_the_step(run: Run) -> None:
    execution = run(loop("in: [1, 2, 3, 4], iterator: x"), script=FAIL_AT_2)

    assert spans(execution) == ["+0", "-0", "+1", "-1"]
    assert execution.events("loop.done") == []
    assert execution.event("step.failed").payload["error"] == {
        **{"kind": "boom", "message": "scripted", "retryable": False, "details": {}},
        **{"task": "work", "iteration": 1, "iteration_id": "sim-1/1"},
    }
    assert execution.state.status == "failed"


@pytest.mark.spec("S-28")
def test_fail_fast_lets_what_runs_finish(run: Run) -> None:
    head = (
        'in: "{{ range(1, 9) }}", iterator: x, spec: {mode: parallel, max_in_flight: 3}'
    )
    execution = run(loop(head), script=FAIL_AT_2, choose=lambda count: 1 % count)

    assert spans(execution) == ["+0", "+1", "+2", "-1", "-2", "-0"]
    assert execution.state.status == "failed"


@pytest.mark.spec("LOOP-21", "S-28", "S-12")
def test_best_effort_ends_in_counts(run: Run) -> None:
    execution = run(
        loop(
            "in: [1, 2, 3], iterator: x", "", "spec: {policy: {failure: best_effort}}"
        ),
        script=FAIL_AT_2,
    )

    assert execution.event("loop.done").payload == {
        **{"total": 3, "done": 2, "failed": 1, "skipped": 0},
        "results": [1, None, 1],
        "errors": [{"index": 1, "kind": "boom", "message": "scripted"}],
        "error_kinds": {"boom": 1},
    }
    assert (execution.labels[-1], execution.state.status) == ("last", "completed")


@pytest.mark.spec("C-11", "NEXT-07", "C-09", "LOOP-22")
@pytest.mark.parametrize(
    ("guard", "boundaries"),
    [
        pytest.param("event.name == 'loop.done'", ["loop.done"], id="on loop.done"),
        pytest.param(
            "event.name == 'step.done'",
            ["loop.done", "step.done"],
            id="on step.done, where nothing fired before",
        ),
        pytest.param("true", ["loop.done"], id="once, although both would do"),
    ],
)
def test_a_loop_step_routes_once(run: Run, guard: str, boundaries: list[str]) -> None:
    flow = f"""
    - step: start
      loop: {{in: [1], iterator: x}}
      tool: {{kind: noop}}
      next: {{arcs: [{{step: end, when: "{{{{ {guard} }}}}"}}]}}
    - {{step: end, tool: [{{last: {{kind: noop}}}}]}}
    """
    execution = run(flow)
    routed = execution.events("next.evaluated")

    assert [event.payload["on"] for event in routed] == boundaries
    assert execution.runs_of("end") == 1


NESTED = """
- step: start
  loop:
    in: [a, b]
    iterator: x
    spec: {mode: %s}
    loop:
      in: "{{ range(iter.index + 1) }}"
      iterator: y
      loop: {in: [7, 8], iterator: z}
  tool:
    - work:
        kind: noop
        v: "{{ [iter.parent.parent.x, iter.parent.y, iter.z, iter.index] }}"
"""


@pytest.mark.spec("C-25", "LOOP-23", "S-12")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_loops_in_loops(run: Run, mode: str) -> None:
    execution = run(NESTED % mode, script={"work": lambda call: call.inputs["v"]})
    a = [[["a", 0, 7, 0], ["a", 0, 8, 1]]]
    b = [[["b", y, 7, 0], ["b", y, 8, 1]] for y in (0, 1)]

    assert execution.event("step.done").payload["result"] == [a, b]
    loops = sorted(e.entity_id for e in execution.events("loop.started"))
    assert loops == [
        *("sim-1", "sim-1/0", "sim-1/0/0", "sim-1/1", "sim-1/1/0", "sim-1/1/1"),
    ]
    assert sorted(e.entity_id for e in execution.events("loop.done")) == loops
    assert execution.log[-3].name == "step.done"


@pytest.mark.spec("C-25", "S-28")
@pytest.mark.parametrize(
    ("effort", "iterations", "status"),
    [
        pytest.param("fail_fast", ["0", "0/0", "0/1"], "failed", id="fail fast"),
        pytest.param(
            "best_effort",
            ["0", "0/0", "0/1", "0/2", "1", "1/0", "1/1", "1/2"],
            "completed",
            id="best effort",
        ),
    ],
)
def test_an_inner_failure(
    run: Run, effort: str, iterations: list[str], status: str
) -> None:
    policy = f"spec: {{policy: {{failure: {effort}}}}}" if effort[0] == "b" else ""
    flow = f"""
    - step: start
      {policy}
      loop: {{in: [1, 2], iterator: a, loop: {{in: [1, 2, 3], iterator: x}}}}
      tool: [{{work: {{kind: noop, v: "{{{{ iter.x }}}}"}}}}]
    """
    execution = run(flow, script=FAIL_AT_2)
    begun = execution.events("loop.iteration.started")

    assert [e.entity_id.partition("/")[2] for e in begun] == iterations
    assert execution.state.status == status
    inner = [e.payload["results"] for e in execution.events("loop.done")]
    assert inner == (
        [] if status == "failed" else [[1, None, 1]] * 2 + [[[1, None, 1]] * 2]
    )


@pytest.mark.spec("C-25", "S-26")
def test_an_inner_collection_that_is_none_fails_the_outer_iteration(run: Run) -> None:
    flow = """
    - step: start
      loop: {in: [1], iterator: a, loop: {in: "{{ iter.a }}", iterator: b}}
      tool: {kind: noop}
    """
    execution = run(flow)

    assert execution.event("loop.iteration.failed").entity_id == "sim-1/0"
    assert execution.state.error["kind"] == "loop.in_type"


WRITER = """
- step: start
  spec: {policy: {failure: best_effort}}
  loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel}}
  tool:
    - work: {kind: noop, v: "{{ iter.x }}", spec: {policy: {rules: [{else: {then:
        {do: continue, set_ctx: {%s}}}}]}}}
    - after: {kind: noop}
"""


@pytest.mark.spec("S-21", "LOOP-14")
@pytest.mark.parametrize(
    ("patch", "failed", "ctx"),
    [
        pytest.param("k: 1", 0, {"k": 1}, id="equal values pass"),
        pytest.param("d.k: 1", 0, {"d": {"k": 1}}, id="equal values of a path pass"),
        pytest.param('k: "{{ iter.x }}"', 2, {"k": 1}, id="a second value is refused"),
        pytest.param(
            'd.k: "{{ iter.x }}"', 2, {"d": {"k": 1}}, id="so is one under a path"
        ),
        pytest.param(
            'k: "{{ 1 if iter.x == 1 else true }}"', 2, {"k": 1}, id="true is not 1"
        ),
    ],
)
def test_a_key_of_ctx_is_written_once(
    run: Run, patch: str, failed: int, ctx: object
) -> None:
    execution = run(WRITER % patch)

    assert execution.event("loop.done").payload["failed"] == failed
    assert execution.state.ctx == ctx
    for event in execution.events("loop.iteration.failed"):
        assert event.payload["error"]["kind"] == "ctx.conflict"
    refused = [
        event.payload["refused"]
        for event in execution.events("task.done")
        if "refused" in event.payload
    ]
    assert [each["by"] for each in refused] == ["sim-1/0"] * failed
    assert execution.labels.count("after") == 3 - failed


@pytest.mark.spec("S-21")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("a: {b: 1}", "a.b: 2", id="a part of what was written"),
        pytest.param("a.b: 1", "a: 2", id="the whole of it"),
    ],
)
def test_overlapping_keys_are_one_key(run: Run, first: str, second: str) -> None:
    flow = f"""
    - step: start
      loop: {{in: [1, 2], iterator: x, spec: {{mode: parallel}}}}
      tool:
        - work: {{kind: noop, spec: {{policy: {{rules: [
            {{when: "{{{{ iter.x == 1 }}}}",
              then: {{do: continue, set_ctx: {{{first}}}}}}},
            {{else: {{then: {{do: continue, set_ctx: {{{second}}}}}}}}}]}}}}}}
    """
    assert run(flow).state.error["kind"] == "ctx.conflict"


@pytest.mark.spec("S-21")
def test_a_key_from_before_the_loop_may_be_written_once(run: Run) -> None:
    flow = """
    - step: start
      tool: [{a: {kind: noop, spec: {policy: {rules: [{else: {then:
        {do: continue, set_ctx: {k: 0}}}}]}}}}]
      next: {arcs: [{step: work}]}
    - step: work
      loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
      tool: [{b: {kind: noop, spec: {policy: {rules: [{else: {then:
        {do: continue, set_ctx: {k: 5}}}}]}}}}]
    """
    execution = run(flow)

    assert (execution.state.ctx, execution.state.status) == ({"k": 5}, "completed")


@pytest.mark.spec("S-21", "C-25")
@pytest.mark.parametrize(
    ("outer", "inner", "status"),
    [
        pytest.param(
            "sequential", "sequential", "completed", id="nothing is beside it"
        ),
        pytest.param(
            "parallel", "sequential", "failed", id="outer items are beside it"
        ),
        pytest.param(
            "sequential", "parallel", "failed", id="inner items are beside it"
        ),
    ],
)
def test_only_iterations_that_may_run_at_once_conflict(
    run: Run, outer: str, inner: str, status: str
) -> None:
    flow = f"""
    - step: start
      loop:
        in: [1, 2]
        iterator: a
        spec: {{mode: {outer}}}
        loop: {{in: [1, 2], iterator: b, spec: {{mode: {inner}}}}}
      tool:
        - work:
            kind: noop
            spec: {{policy: {{rules: [{{else: {{then: {{do: continue,
              set_ctx: {{k: "{{{{ [iter.parent.a, iter.b] }}}}"}}}}}}}}]}}}}
    """
    assert run(flow).state.status == status


@pytest.mark.spec("S-21", "C-25")
def test_an_inner_sequence_may_rewrite_its_own_key(run: Run) -> None:
    flow = """
    - step: start
      loop:
        in: [1]
        iterator: a
        spec: {mode: parallel}
        loop: {in: [1, 2, 3], iterator: b}
      tool: [{work: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue,
        set_ctx: {k: "{{ iter.b }}"}}}}]}}}}]
    """
    execution = run(flow)

    assert (execution.state.status, execution.state.ctx) == ("completed", {"k": 3})


@pytest.mark.spec("S-12", "RES-03")
@pytest.mark.parametrize(
    "failing",
    [
        pytest.param(False, id="large results"),
        pytest.param(True, id="very many failures"),
    ],
)
def test_results_too_large_for_one_event_stay_in_the_log(
    run: Run, failing: bool
) -> None:
    count = 12000 if failing else 60
    text = "!x" if failing else "x" * 1000
    flow = loop(
        f'in: "{{{{ range({count}) }}}}", iterator: x',
        step="spec: {policy: {failure: best_effort}}",
    )
    execution = run(flow, script={"work": [text]})
    done = execution.event("loop.done")

    assert done.payload["results"] == {
        "store": "noetl",
        "key": "log:sim-1",
        "range": f"{execution.event('loop.started').seq}-{done.seq - 1}",
        "size": 60_000 if failing else 60 * (1002 + 1),
        "schema_hint": "list",
    }
    assert (
        execution.event("step.done", step="start").payload["result"]
        == (done.payload["results"])
    )


@pytest.mark.spec("S-70", "S-71")
def test_a_range_with_too_many_numbers_is_refused_before_it_is_made(run: Run) -> None:
    execution = run(loop('in: "{{ range(1000001) }}", iterator: x'))
    error = execution.event("step.failed").payload["error"]

    assert error["kind"] == "loop.too_many"
    assert "1,000,001" in error["message"]
