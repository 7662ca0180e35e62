"""Fan-in: tokens that wait for each other (S-04, sentence by sentence)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


def diamond(join: str, *, mode: str = "inclusive", guards: str = "") -> str:
    """start → a, b, c → end, where the tokens meet."""
    arcs = []
    for name in "abc":
        when = f', when: "{{{{ {name} }}}}"' if name in guards else ""
        arcs.append(f"{{step: {name}{when}}}")
    branches = "".join(
        f"""
    - step: {name}
      tool: [{{{name}_work: {{kind: noop}}}}]
      next: {{arcs: [{{step: end, args: {{{name}: 1, who: {name}}}}}]}}"""
        for name in "abc"
    )
    return f"""
    - step: start
      next: {{spec: {{mode: {mode}}}, arcs: [{", ".join(arcs)}]}}{branches}
    - step: end
      spec: {{{join}}}
      tool: [{{last: {{kind: noop, v: "{{{{ args }}}}"}}}}]
    """


def order(*picks: int) -> Callable[[int], int]:
    """Which of the ready pipelines moves: these first, then the first one."""
    left = list(picks)
    return lambda count: min(left.pop(0), count - 1) if left else 0


ABC = {"a": 1, "b": 1, "c": 1}


@pytest.mark.spec("S-04", "SRV-14")
@pytest.mark.parametrize(
    ("join", "seen"),
    [
        pytest.param(
            "",
            [{"a": 1, "who": "a"}, {"b": 1, "who": "b"}, {"c": 1, "who": "c"}],
            id="without a join every token fires its own run",
        ),
        pytest.param("join: {}", [{**ABC, "who": "c"}], id="mode defaults to all"),
        pytest.param(
            "join: {mode: all}", [{**ABC, "who": "c"}], id="all fires once, merged"
        ),
        pytest.param(
            "join: {mode: all, from: [c, b, a]}",
            [{**ABC, "who": "a"}],
            id="args merge in the order of from",
        ),
        pytest.param(
            "join: {mode: any}", [{"a": 1, "who": "a"}], id="any fires on the first"
        ),
        pytest.param(
            "join: {mode: 2}", [{"a": 1, "b": 1, "who": "b"}], id="n on the n-th"
        ),
    ],
)
def test_modes(run: Run, join: str, seen: list[object]) -> None:
    execution = run(diamond(join))

    assert [
        call.inputs["v"] for call in execution.calls if call.task.label == "last"
    ] == (seen)
    assert execution.state.status == "completed"


@pytest.mark.spec("S-04")
@pytest.mark.parametrize("seed", range(12))
def test_all_merges_the_same_args_in_every_schedule(run: Run, seed: int) -> None:
    execution = run(diamond("join: {mode: all}"), choose=random.Random(seed).randrange)

    assert execution.runs_of("end") == 1
    assert execution.seen[-1] == {**ABC, "who": "c"}


@pytest.mark.spec("S-04")
@pytest.mark.parametrize(
    ("picks", "seen"),
    [
        pytest.param((2,), {"c": 1, "who": "c"}, id="c comes first"),
        pytest.param((1,), {"b": 1, "who": "b"}, id="b comes first"),
    ],
)
def test_any_takes_the_first_tokens_and_discards_the_late(
    run: Run, picks: tuple[int, ...], seen: object
) -> None:
    execution = run(diamond("join: {mode: any}"), choose=order(*picks))
    ends = [call.inputs["v"] for call in execution.calls if call.task.label == "last"]
    late = [e for e in execution.events("token.joined") if e.payload.get("discarded")]

    assert ends == [seen]
    assert len(late) == 2


@pytest.mark.spec("S-04")
@pytest.mark.parametrize(
    ("workload", "merged"),
    [
        pytest.param("{a: true, b: false, c: false}", {"a": 1}, id="one branch"),
        pytest.param(
            "{a: false, b: true, c: true}", {"b": 1, "c": 1}, id="two branches"
        ),
    ],
)
def test_a_branch_not_taken_never_blocks_all(
    run: Run, workload: str, merged: dict[str, int]
) -> None:
    flow = diamond("join: {mode: all}", guards="abc")
    execution = run(flow, f"workload: {workload}\n")

    assert execution.runs_of("end") == 1
    assert execution.seen[-1].items() >= merged.items()
    assert execution.state.status == "completed"


@pytest.mark.spec("S-04")
def test_an_exclusive_choice_does_not_block_all(run: Run) -> None:
    execution = run(diamond("join: {mode: all}", mode="exclusive"))

    assert execution.seen[-1] == {"a": 1, "who": "a"}


@pytest.mark.spec("S-04", "REP-01")
def test_tokens_that_wait_are_part_of_the_state(prepare: Run) -> None:
    execution = prepare(diamond("join: {mode: all}"))
    execution.start()
    waiting = []
    for _ in range(3):
        execution.step()
        waiting.append(sorted(execution.state.joining.get("end", {})))

    assert waiting == [["a"], ["a", "b"], []]
    assert execution.runs_of("end") == 1


@pytest.mark.spec("S-04")
def test_a_step_that_is_not_in_from_fires_on_its_own(run: Run) -> None:
    execution = run(diamond("join: {from: [a, b]}"))
    ends = [call.inputs["v"] for call in execution.calls if call.task.label == "last"]

    assert sorted(map(repr, ends)) == sorted(
        map(repr, [{"a": 1, "who": "b", "b": 1}, {"c": 1, "who": "c"}])
    )


@pytest.mark.spec("S-04")
def test_a_join_at_the_entry_does_not_hold_the_first_token(run: Run) -> None:
    flow = """
    - step: start
      spec: {join: {mode: all}}
      next: {arcs: [{step: again, when: "{{ not args.n }}", args: {n: 1}}]}
    - {step: again, next: {arcs: [{step: start}]}}
    """
    execution = run(flow)

    assert execution.runs_of("start") == 2
    assert execution.state.status == "completed"


@pytest.mark.spec("S-04", "S-65")
@pytest.mark.parametrize(
    ("guards", "workload", "join"),
    [
        pytest.param(
            "abc", "{a: true, b: false, c: false}", "join: {mode: 2}", id="two"
        ),
        pytest.param("c", "{c: false}", "join: {mode: 3}", id="three"),
    ],
)
def test_too_few_tokens_for_n_is_an_error(
    run: Run, guards: str, workload: str, join: str
) -> None:
    execution = run(diamond(join, guards=guards), f"workload: {workload}\n")

    assert execution.state.status == "failed"
    assert execution.state.error["kind"] == "join.unreachable"
    assert execution.runs_of("end") == 0


TWICE = """
- step: start
  next:
    spec: {mode: inclusive}
    arcs: [{step: a, args: {n: 1}}, {step: a, args: {n: 2}}, {step: b, args: {n: 3}}]
- step: a
  tool: [{x: {kind: noop}}]
  next: {arcs: [{step: end, args: {a: "{{ n }}"}}]}
- step: b
  tool: [{y: {kind: noop}}]
  next: {arcs: [{step: end, args: {b: "{{ n }}"}}]}
- step: end
  spec: {join: {mode: %s}}
  tool: [{last: {kind: noop, v: "{{ args }}"}}]
"""


@pytest.mark.spec("S-04")
def test_extra_tokens_open_the_next_round(run: Run) -> None:
    execution = run(TWICE % "all")

    assert [
        call.inputs["v"] for call in execution.calls if call.task.label == "last"
    ] == [
        {"n": 3, "a": 1, "b": 3},
        {"n": 2, "a": 2},
    ]


LOOPING = """
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
- {step: a, tool: [{x: {kind: noop}}], next: {arcs: [{step: meet}]}}
- {step: b, tool: [{y: {kind: noop}}], next: {arcs: [{step: meet}]}}
- step: meet
  spec: {join: {mode: %s, from: [a, b]}}
  tool: [{z: {kind: noop, v: "{{ args.n | default(0) }}"}}]
  next: {arcs: [{step: start, when: "{{ (args.n | default(0)) < 2 }}",
    args: {n: "{{ (args.n | default(0)) + 1 }}"}}]}
"""


@pytest.mark.spec("S-04")
@pytest.mark.parametrize("mode", ["all", "any", "2"])
@pytest.mark.parametrize("seed", range(4))
def test_a_cycle_through_the_join_makes_a_round_each(
    run: Run, mode: str, seed: int
) -> None:
    choose = random.Random(seed).randrange
    execution = run(LOOPING % mode, choose=choose)

    assert [c.inputs["v"] for c in execution.calls if c.task.label == "z"] == [0, 1, 2]
    assert execution.state.status == "completed"
    assert not execution.state.late
    assert not execution.state.joining


@pytest.mark.spec("S-04")
def test_any_serves_an_exclusive_choice_in_every_round(run: Run) -> None:
    """A source that could not come is not late in the next round."""
    flow = """
    - step: start
      next: {arcs: [{step: a, when: "{{ not args.n }}"}, {step: b}]}
    - {step: a, tool: [{x: {kind: noop}}], next: {arcs: [{step: meet}]}}
    - {step: b, tool: [{y: {kind: noop}}], next: {arcs: [{step: meet}]}}
    - step: meet
      spec: {join: {mode: any}}
      tool: [{z: {kind: noop}}]
      next: {arcs: [{step: start, when: "{{ not args.n }}", args: {n: 1}}]}
    """
    assert run(flow).labels == ["x", "z", "y", "z"]


@pytest.mark.spec("S-04", "ADM-07")
def test_admission_sees_the_merged_args_and_a_denied_round_is_consumed(
    run: Run,
) -> None:
    rule = (
        '{when: "{{ args.a == 1 and args.b == 1 and args.c == 1 }}", then: {allow: %s}}'
    )
    join = "join: {mode: all}, policy: {admit: {rules: [%s]}}"
    yes = run(diamond(join % (rule % "true")))
    no = run(diamond(join % (rule % "false")))

    assert yes.runs_of("end") == 1
    assert (no.runs_of("end"), no.state.status) == (0, "completed")
    assert no.event("step.skipped").payload["tokens"] == [
        event.payload["token_id"] for event in no.events("token.joined")
    ]


@pytest.mark.spec("S-04")
def test_a_failed_branch_is_no_longer_waited_for(run: Run) -> None:
    flow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
    - {step: a, tool: [{x: {kind: noop}}], next: {arcs: [{step: end,
        when: "{{ event.name == 'step.done' }}"}]}}
    - {step: b, tool: [{y: {kind: noop}}], next: {arcs: [{step: end}]}}
    - {step: end, spec: {join: {}}, tool: [{z: {kind: noop}}]}
    """
    execution = run(flow, script={"x": ["!boom"]})

    assert "z" in execution.labels
    assert execution.state.error["step"] == "a"


@pytest.mark.spec("S-04", "S-65")
def test_joins_that_wait_for_each_other_end_in_an_error(run: Run) -> None:
    flow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
    - {step: a, next: {arcs: [{step: one}]}}
    - {step: b, next: {arcs: [{step: two}]}}
    - {step: one, spec: {join: {from: [a, two]}}, next: {arcs: [{step: two}]}}
    - {step: two, spec: {join: {from: [b, one]}}, next: {arcs: [{step: one}]}}
    """
    execution = run(flow)

    assert execution.state.status == "failed"
    assert execution.state.error["kind"] == "join.unreachable"
    assert "one, two" in execution.state.error["message"]


@pytest.mark.spec("S-04")
@pytest.mark.parametrize(
    ("mode", "seen"),
    [
        pytest.param("any", {"a": 1}, id="any takes the first of from"),
        pytest.param("2", {"a": 1, "b": 1}, id="n the first n"),
        pytest.param("all", {"a": 1, "b": 1, "c": 1}, id="all takes all"),
    ],
)
def test_tokens_that_come_at_once_are_one_round(
    run: Run, mode: str, seen: object
) -> None:
    branches = "".join(
        f"""
    - {{step: {name}, next: {{arcs: [{{step: end, args: {{{name}: 1}}}}]}}}}"""
        for name in "cab"
    )
    flow = f"""
    - step: start
      next: {{spec: {{mode: inclusive}}, arcs: [{{step: c}}, {{step: b}}, {{step: a}}]}}
    {branches}
    - step: end
      spec: {{join: {{mode: {mode}, from: [a, b, c]}}}}
      tool: [{{last: {{kind: noop, v: "{{{{ args }}}}"}}}}]
    """
    execution = run(flow)

    assert execution.seen == [seen]
    assert len(execution.event("step.scheduled", step="end").payload["tokens"]) == 3


@pytest.mark.spec("S-04", "ADM-11")
def test_a_join_that_is_denied_knows_its_late_tokens(run: Run) -> None:
    deny = (
        "join: {mode: any}, policy: {admit: {rules: [{else: {then: {allow: false}}}]}}"
    )

    execution = run(diamond(deny))

    denied = execution.event("step.skipped")
    assert denied.payload["late"] == ["b", "c"]
    assert execution.runs_of("end") == 0
