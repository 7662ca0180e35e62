"""Patches of ctx and iter, and the names that templates see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.tasks.scope import (
    Scope,
    apply_patch,
    is_equal,
    iteration_scope,
    read_path,
)

Run = Callable[..., Any]


@pytest.mark.spec("S-19")
@pytest.mark.parametrize(
    ("base", "patch", "result"),
    [
        pytest.param({"a": {"b": 1}}, {"a": 2}, {"a": 2}, id="a plain key replaces"),
        pytest.param(
            {"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"c": 2}}, id="whole, not merged"
        ),
        pytest.param(
            {"a": {"b": 1, "c": 2}},
            {"a.b": 9},
            {"a": {"b": 9, "c": 2}},
            id="a dotted key sets a nested path",
        ),
        pytest.param({}, {"a.b.c": 1}, {"a": {"b": {"c": 1}}}, id="and makes the way"),
        pytest.param(
            {"a": 5}, {"a.b": 1}, {"a": {"b": 1}}, id="over what is no mapping"
        ),
        pytest.param({"a": 1}, {"a": None}, {"a": None}, id="null is a value"),
        pytest.param({"a": 1}, {}, {"a": 1}, id="nothing changes nothing"),
    ],
)
def test_apply_patch(
    base: dict[str, object], patch: dict[str, object], result: dict[str, object]
) -> None:
    before = repr(base)

    assert apply_patch(base, patch) == result
    assert repr(base) == before


@pytest.mark.spec("S-19")
def test_values_are_rendered_before_any_of_them_applies(run: Run) -> None:
    flow = """
    - step: start
      tool:
        - a: {kind: noop, spec: {policy: {rules: [{else: {then:
            {do: continue, set_ctx: {x: 1, y: 2}}}}]}}}
        - b: {kind: noop, spec: {policy: {rules: [{else: {then:
            {do: continue, set_ctx: {x: "{{ ctx.y }}", y: "{{ ctx.x }}", z: null}}}}]}}}
    """
    assert run(flow).state.ctx == {"x": 2, "y": 1, "z": None}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("a", {"b": 1}, id="a plain key"),
        pytest.param("a.b", 1, id="a path"),
        pytest.param("a.b.c", None, id="a path past a value"),
        pytest.param("z", None, id="nothing"),
    ],
)
def test_read_path(key: str, value: object) -> None:
    assert read_path({"a": {"b": 1}}, key) == value


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, True, id="order is nothing"),
        pytest.param(1, True, False, id="1 is not true"),
        pytest.param(1, 1.0, False, id="1 is not 1.0"),
    ],
)
def test_is_equal(one: object, other: object, equal: bool) -> None:
    assert is_equal(one, other) is equal


@pytest.mark.spec("C-34", "TPL-08")
@pytest.mark.parametrize(
    ("missing", "value"),
    [
        pytest.param([], "args", id="args first"),
        pytest.param(["args"], "ctx", id="then ctx"),
        pytest.param(["args", "ctx"], "iter", id="then iter"),
        pytest.param(["args", "ctx", "iter"], "workload", id="then workload"),
    ],
)
def test_a_bare_name_is_looked_up_in_order(missing: list[str], value: str) -> None:
    spaces = ("workload", "iter", "ctx", "args")
    scope = Scope({s: {} if s in missing else {"n": s} for s in spaces})

    assert scope["n"] == value


@pytest.mark.spec("C-34")
def test_a_namespace_wins_over_a_key_of_its_name() -> None:
    scope = Scope(args={"ctx": 1, "workload": 2}, ctx={"a": 0}, workload={})

    assert scope["ctx"] == {"a": 0}
    assert scope["workload"] == {}
    with pytest.raises(KeyError):
        scope["nowhere"]


@pytest.mark.spec("C-34", "LOOP-07")
def test_bare_names_resolve_in_every_template(run: Run) -> None:
    flow = """
    - step: start
      next: {arcs: [{step: work, when: "{{ size == 3 }}", args: {n: "{{ size }}"}}]}
    - step: work
      spec: {policy: {admit: {rules: [{when: "{{ n == 3 }}", then: {allow: true}}]}}}
      loop: {in: "{{ range(n) }}", iterator: item}
      tool: [{a: {kind: noop, v: "{{ item + n }}"}}]
    """
    assert run(flow, "workload: {size: 3}\n").seen == [3, 4, 5]


ALWAYS = ["workload", "ctx", "args", "execution_id", "execution.started_at"]
PIPELINE = [*ALWAYS, "_prev", "_task", "_attempt", "_action_id"]


def probe(names: list[str]) -> str:
    """A template that says of each name whether it is there (null counts)."""
    pairs = (f"'{name}': {name} is defined" for name in names)
    return '"{{ {' + ", ".join(pairs) + '} }}"'


@pytest.mark.spec("TPL-03", "TPL-04", "TPL-05", "TPL-06", "TPL-07", "S-71")
def test_every_place_has_its_namespaces(run: Run) -> None:
    flow = """
    - step: start
      next: {arcs: [{step: work, args: {arc: ARC}}]}
    - step: work
      tool:
        - plain:
            kind: noop
            v: INPUT
            spec: {policy: {rules: [
              {else: {then: {do: continue, set_ctx: {rule: RULE}}}}]}}
      next: {arcs: [{step: looped}]}
    - step: looped
      loop: {in: [1], iterator: x}
      tool: [{inside: {kind: noop, v: INSIDE}}]
    """
    for place, names in {
        "ARC": [*ALWAYS, "event"],
        "INPUT": PIPELINE,
        "RULE": [*PIPELINE, "outcome"],
        "INSIDE": [*PIPELINE, "iter"],
    }.items():
        flow = flow.replace(place, probe(names))
    execution = run(flow)
    found = [
        *execution.seen,
        execution.state.ctx["rule"],
        execution.event("step.scheduled", step="work").payload["args"]["arc"],
    ]

    assert [name for each in found for name, there in each.items() if not there] == []
    assert [len(each) for each in found] == [9, 10, 10, 6]


@pytest.mark.spec("ADM-07", "ADM-08", "C-38", "C-05")
def test_admission_sees_the_event_that_sent_the_token(run: Run) -> None:
    rule = (
        "{{ event.name == 'step.done' and event.event_type == event.name "
        "and event.entity == 'step' and event.data == event.payload }}"
    )
    flow = f"""
    - step: start
      tool: [{{a: {{kind: noop}}}}]
      next: {{arcs: [{{step: next}}]}}
    - step: next
      spec: {{policy: {{admit: {{rules: [
        {{when: "{rule}", then: {{allow: true}}}}]}}}}}}
      tool: [{{b: {{kind: noop}}}}]
    """
    assert run(flow).runs_of("next") == 1


@pytest.mark.spec("LOOP-07", "LOOP-08", "LOOP-23", "S-23")
def test_an_iteration_scope_has_item_index_and_parent() -> None:
    outer = iteration_scope("x", "a", 0, None)

    assert outer == {"x": "a", "index": 0}
    assert iteration_scope("y", "b", 1, outer) == {
        "y": "b",
        "index": 1,
        "parent": {"x": "a", "index": 0},
    }


@pytest.mark.spec("WRK-01", "S-40", "WRK-03")
def test_the_workload_is_merged_deeply_and_stays(run: Run) -> None:
    flow = "- {step: start, tool: [{a: {kind: noop, v: '{{ workload }}'}}]}"
    root = "workload: {a: {b: 1, c: 2}, list: [1, 2]}\n"
    execution = run(flow, root, workload={"a": {"b": None}, "list": [3], "new": 4})
    merged = {"a": {"b": None, "c": 2}, "list": [3], "new": 4}

    assert execution.seen == [merged]
    assert execution.event("workflow.started").payload["workload"] == merged


@pytest.mark.spec("SCOPE-01", "SCOPE-02", "SCOPE-03")
def test_ctx_begins_empty_and_is_shared_by_the_steps(run: Run) -> None:
    flow = """
    - step: start
      tool: [{a: {kind: noop, v: "{{ ctx }}", spec: {policy: {rules: [{else: {then:
        {do: continue, set_ctx: {from_start: "{{ outcome.result }}"}}}}]}}}}]
      next: {arcs: [{step: end}]}
    - {step: end, tool: [{b: {kind: noop, v: "{{ ctx.from_start }}"}}]}
    """
    assert run(flow, script={"a": [5]}).seen == [{}, 5]
