"""Spec layering: kind < executor < step < loop < task."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl import Playbook
from noetl.dsl.grammar.earlier_forms import SCOPE_OWNED
from noetl.dsl.normalize import deep_merge, effective_spec
from noetl.types import JSON

KINDS = ("http", "postgres")


@pytest.mark.spec("SPEC-03", "SPEC-04", "SPEC-05")
@pytest.mark.parametrize(
    ("outer", "inner", "merged"),
    [
        pytest.param(1, 2, 2, id="of scalars the inner wins"),
        pytest.param(1, None, None, id="null is a value and wins"),
        pytest.param([1, 2], [3], [3], id="a list replaces a list"),
        pytest.param([1], [], [], id="even an empty list"),
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="mappings merge"),
        pytest.param(
            {"a": {"b": 1, "c": 1}},
            {"a": {"c": 2}},
            {"a": {"b": 1, "c": 2}},
            id="deeply, and the inner wins",
        ),
        pytest.param({"a": {"b": 1}}, {"a": 2}, {"a": 2}, id="a scalar over a mapping"),
        pytest.param({"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}, id="and the reverse"),
        pytest.param(
            {"a": [{"b": 1}]}, {"a": [{"c": 2}]}, {"a": [{"c": 2}]}, id="not inside"
        ),
    ],
)
def test_deep_merge(outer: JSON, inner: JSON, merged: JSON) -> None:
    assert deep_merge(outer, inner) == merged


scalars = st.sampled_from([None, 0, 1, "", "x", [], [1], [2, 3]])
# A key is always a mapping (m, n) or never one (a, b), as in every real spec.
leaves = {"a": scalars, "b": scalars}
branches: st.SearchStrategy[dict[str, JSON]] = st.fixed_dictionaries(
    {}, optional=leaves
)
twigs = st.fixed_dictionaries({}, optional={**leaves, "m": branches})
specs_tree: st.SearchStrategy[dict[str, JSON]] = st.fixed_dictionaries(
    {}, optional={**leaves, "m": twigs, "n": branches}
)


@pytest.mark.spec("SPEC-02", "SPEC-04")
@settings(deadline=None)
@given(specs_tree, specs_tree, specs_tree)
def test_layers_may_be_merged_in_any_grouping(
    a: dict[str, JSON], b: dict[str, JSON], c: dict[str, JSON]
) -> None:
    assert deep_merge(deep_merge(a, b), c) == deep_merge(a, deep_merge(b, c))


@pytest.mark.spec("SPEC-04")
@settings(deadline=None)
@given(specs_tree, specs_tree)
def test_merging_forgets_nothing_and_changes_no_argument(
    outer: dict[str, JSON], inner: dict[str, JSON]
) -> None:
    before = repr((outer, inner))
    merged = deep_merge(outer, inner)
    assert repr((outer, inner)) == before
    assert merged.keys() == outer.keys() | inner.keys()
    assert deep_merge(outer, {}) == outer == deep_merge({}, outer)
    assert deep_merge(merged, inner) == merged


LEVELS = ("kind", "executor", "step", "loop", "task")


def layered(specs: dict[str, dict[str, JSON]], kind: str = "http") -> dict[str, JSON]:
    outer = [specs.get(level, {}) for level in ("executor", "step", "loop")]
    defaults, task = specs.get("kind", {}), specs.get("task", {})
    return effective_spec(kind, defaults, outer, task, KINDS)


@pytest.mark.spec("SPEC-02", "SPEC-03")
@pytest.mark.parametrize("inner", range(len(LEVELS)))
@pytest.mark.parametrize("outer", range(len(LEVELS)))
def test_the_inner_level_wins(outer: int, inner: int) -> None:
    specs: dict[str, dict[str, JSON]] = {LEVELS[outer]: {"timeout": "outer"}}
    specs.setdefault(LEVELS[inner], {})["timeout"] = "inner"
    expected = "inner" if inner >= outer else "outer"
    assert layered(specs) == {"timeout": expected}


@pytest.mark.spec("SPEC-02", "SPEC-04", "SPEC-05")
def test_five_levels_at_once() -> None:
    specs: dict[str, dict[str, JSON]] = {
        "kind": {"timeout": {"connect": 1, "read": 1, "total": 1}, "a": "kind"},
        "executor": {"timeout": {"read": 2, "total": 2}, "b": "executor"},
        "step": {"timeout": {"total": 3}, "list": [1, 2]},
        "loop": {"list": [3], "b": "loop"},
        "task": {"timeout": {"total": 5}},
    }
    assert layered(specs) == {
        "timeout": {"connect": 1, "read": 2, "total": 5},
        "a": "kind",
        "b": "loop",
        "list": [3],
    }


@pytest.mark.spec("S-52")
@pytest.mark.parametrize("level", LEVELS[1:])
def test_a_kind_subtree_refines_its_level(level: str) -> None:
    spec: dict[str, JSON] = {"timeout": 1, "http": {"timeout": 2}, "pool": "p"}
    assert layered({level: spec}) == {"timeout": 2, "pool": "p"}
    assert layered({level: spec}, kind="postgres") == {"timeout": 1, "pool": "p"}


@pytest.mark.spec("S-52", "SPEC-02")
def test_an_inner_plain_key_beats_an_outer_kind_subtree() -> None:
    specs: dict[str, dict[str, JSON]] = {
        "executor": {"http": {"timeout": 1}},
        "step": {"timeout": 2},
    }
    assert layered(specs) == {"timeout": 2}


@pytest.mark.spec("S-52")
@pytest.mark.parametrize("key", [*SCOPE_OWNED])
@pytest.mark.parametrize("level", ["executor", "step", "loop"])
def test_what_a_scope_owns_does_not_descend(key: str, level: str) -> None:
    specs: dict[str, dict[str, JSON]] = {level: {key: 1, "pool": "p", "http": {key: 1}}}
    assert layered(specs) == {"pool": "p"}


@pytest.mark.spec("SPEC-06")
@pytest.mark.parametrize("level", ["executor", "step", "loop"])
def test_a_policy_stays_in_its_scope(level: str) -> None:
    policy: dict[str, JSON] = {"rules": [{"else": {"then": {"do": "fail"}}}]}
    specs: dict[str, dict[str, JSON]] = {
        level: {"policy": policy, "http": {"policy": policy, "verify": False}}
    }
    assert layered(specs) == {"verify": False}


ALL_SCOPES = """
- step: start
  spec:
    pool: step
    timeout: {read: 3}
    deadline: 60
    policy: {failure: best_effort, admit: {rules: [{else: {then: {allow: true}}}]}}
  loop:
    in: [1]
    iterator: x
    spec:
      mode: parallel
      max_in_flight: 2
      policy: {exec: local}
      http: {verify: false}
    loop:
      in: [2]
      iterator: y
      spec: {pool: inner-loop}
  tool:
    - call:
        kind: http
        url: https://example.com
        spec: {timeout: {total: 5}}
    - plain: {kind: noop}
  next:
    spec: {mode: inclusive, policy: {hint: 1}}
    arcs: [{step: end, spec: {hint: 2}}]
- step: end
  tool: {kind: noop}
"""
EXECUTOR = """
executor:
  spec:
    http: {timeout: {connect: 2, read: 2}, ok_status: [200, 404]}
    pool: executor
    limits: {step_runs: 10}
    policy: {any_hint: yes}
"""


@pytest.fixture
def everywhere(accept: Callable[..., Playbook]) -> Playbook:
    return accept(ALL_SCOPES, EXECUTOR)


@pytest.mark.spec("SPEC-01", "SPEC-02", "SPEC-06", "EXE-04", "EXE-05", "S-52")
def test_a_playbook_with_a_spec_at_every_scope(everywhere: Playbook) -> None:
    call, plain = everywhere.workflow[0].tasks
    assert call.spec == {
        "timeout": {"connect": 2, "read": 3, "total": 5},
        "follow_redirects": True,
        "verify": False,
        "ok_status": [200, 404],
        "pool": "inner-loop",
    }
    assert plain.spec == {"timeout": {"read": 3}, "pool": "inner-loop"}
    assert everywhere.workflow[1].tasks[0].spec == {"pool": "executor"}


@pytest.mark.spec("SPEC-06", "SPEC-08", "NEXT-03", "LOOP-06")
def test_each_scope_keeps_its_own(everywhere: Playbook) -> None:
    step = everywhere.workflow[0]
    assert step.deadline == 60
    assert step.best_effort
    assert step.loop is not None
    assert step.loop.placement == "local"
    assert step.loop.max_in_flight == 2
    assert step.loop.inner is not None
    assert step.loop.inner.mode == "sequential"  # the outer mode does not descend
    assert all(task.rules is None for task in step.tasks)


@pytest.mark.spec("SPEC-07")
@pytest.mark.parametrize(
    ("steps", "root"),
    [
        pytest.param(
            "- step: start\n  tool: {kind: noop}\n",
            "executor: {spec: {policy: {rules: [{then: {do: fail}}]}}}\n",
            id="the executor",
        ),
        pytest.param(
            "- step: start\n"
            "  spec: {policy: {rules: [{then: {do: fail}}]}}\n"
            "  tool: {kind: noop}\n",
            "",
            id="a step",
        ),
        pytest.param(
            "- step: start\n"
            "  loop: {in: [1], iterator: x, spec: {policy: {do: fail}}}\n"
            "  tool: {kind: noop}\n",
            "",
            id="a loop",
        ),
        pytest.param(
            "- step: start\n"
            "  next: {spec: {policy: {do: fail}}, arcs: [{step: start}]}\n",
            "",
            id="a router",
        ),
        pytest.param(
            "- step: start\n"
            "  next: {arcs: [{step: start, spec: {policy: {do: fail}}}]}\n",
            "",
            id="an arc",
        ),
        pytest.param(
            "- step: start\n  tool: {kind: noop}\n",
            "executor: {spec: {http: {policy: {rules: [{then: {do: fail}}]}}}}\n",
            id="a kind's subtree of the executor",
        ),
    ],
)
def test_directives_live_on_tasks_alone(
    document: Callable[..., str],
    say: Callable[..., list[tuple[str, str, int, int]]],
    steps: str,
    root: str,
) -> None:
    text = document(steps, root)
    [(code, severity, line, column)] = say(text)
    assert (code, severity) == ("VAL-20", "error")
    assert text.splitlines()[line - 1][column - 1 :].startswith("do: fail")
