"""The page about directives: examples end as it says, tables are the engine's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pages.examples import ANSWERS, FOLDER, Example, run_example, waits_of

from noetl import load
from noetl.dsl.grammar.tasks import BACKOFFS, DIRECTIVES, THEN
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "directives.md"


def verdicts(example: Example) -> list[tuple[str, int, str]]:
    return [(turn.task, turn.attempt, turn.directive["do"]) for turn in example.turns]


@pytest.mark.spec("DIR-01", "DIR-02", "S-13", "POL-11")
def test_continue_goes_on_after_an_error_and_leaves_null() -> None:
    example = run_example("continue")

    assert verdicts(example) == [("fetch", 1, "continue"), ("convert", 1, "continue")]
    assert example.turns[0].outcome["error"]["kind"] == "http.client"
    assert example.turns[1].inputs == {"previous": None, "result": 100}
    assert (example.status, example.result) == ("completed", 100)
    assert example.ctx == {"rate": 1}


@pytest.mark.spec("DIR-05", "DIR-08", "POL-08", "SCOPE-09")
def test_retry_calls_again_after_a_growing_wait() -> None:
    example = run_example("retry")

    assert verdicts(example) == [
        ("fetch", 1, "retry"),
        ("fetch", 2, "retry"),
        ("fetch", 3, "continue"),
        ("count", 1, "continue"),
    ]
    seen = [turn.inputs["params"] for turn in example.turns[:3] if turn.inputs]
    assert seen == [{"attempt": 1}, {"attempt": 2}, {"attempt": 3}]
    assert [turn.directive.get("delay") for turn in example.turns[:2]] == [2, 4]
    assert (example.status, example.result, example.seconds) == ("completed", 2, 6)


@pytest.mark.spec("DIR-09", "DIR-10", "POL-09", "POL-10", "S-14")
def test_jump_goes_back_to_a_label_with_a_patched_iter() -> None:
    example = run_example("jump")

    assert verdicts(example) == [
        ("fetch", 1, "continue"),
        ("decide", 1, "jump"),
        ("fetch", 1, "continue"),
        ("decide", 1, "jump"),
        ("fetch", 1, "continue"),
        ("decide", 1, "continue"),
    ]
    pages = [
        turn.inputs["params"]["page"] for turn in example.turns[::2] if turn.inputs
    ]
    assert pages == [1, 2, 3]
    assert (example.status, example.result) == ("completed", [{"more": False}])


@pytest.mark.spec("DIR-11", "S-11")
def test_break_ends_with_success_and_this_result() -> None:
    example = run_example("break")

    assert verdicts(example) == [("look_up", 1, "break"), ("task_1", 1, "continue")]
    assert (example.status, example.result) == ("completed", "the report")


@pytest.mark.spec("DIR-12", "S-11", "S-09")
def test_fail_on_success_is_policy_fail_and_an_arc_handles_it() -> None:
    example = run_example("fail")

    assert verdicts(example) == [("fetch", 1, "fail"), ("task_1", 1, "continue")]
    assert (example.status, example.result) == ("completed", "policy.fail")
    assert example.ctx == {"empty": True}


@pytest.mark.spec("DIR-03", "DIR-04", "C-18")
def test_skip_calls_nothing_and_leaves_prev_as_it_was() -> None:
    example = run_example("skip")

    assert verdicts(example) == [
        ("read", 1, "continue"),
        ("write", 1, "skip"),
        ("count", 1, "continue"),
    ]
    assert example.turns[1].inputs is None
    assert (example.status, example.result) == ("completed", 3)
    assert example.ctx == {"written": False}


def test_every_directive_has_an_example_without_complaints() -> None:
    playbooks = [p for p in FOLDER.glob("*.yaml") if ".test" not in p.suffixes]
    files = {path.stem: path for path in playbooks}

    assert files.keys() == ANSWERS.keys() == DIRECTIVES.keys()
    for path in files.values():
        assert load(path.read_bytes()).diagnostics == ()
        assert path.read_text("utf-8").strip() in PAGE.read_text("utf-8")


@pytest.mark.spec("DIR-08", "POL-08")
@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        ("none", [2, 2, 2, 2]),
        ("linear", [2, 4, 6, 8]),
        ("exponential", [2, 4, 8, 16]),
    ],
)
def test_the_formula_is_what_the_engine_computes(
    backoff: str, waits: list[float]
) -> None:
    formula = BACKOFFS[backoff].replace("·", "*").replace("^", "**")

    assert waits_of(backoff, reruns=4) == waits
    assert [eval(formula, {"delay": 2, "n": n}) for n in range(1, 5)] == waits


def test_keys_belong_to_one_directive_or_to_all() -> None:
    owned = [key for form in DIRECTIVES.values() for key in form.keys]

    assert sorted([*owned, "do", "set_ctx", "set_iter"]) == sorted(THEN.fields)


PATCHING = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: patching, path: docs/patching}
workflow:
  - step: start
    loop: {in: [1], iterator: item}
    tool:
      - first:
          kind: noop
          spec:
            policy:
              rules:
                - when: "{{ iter.seen is defined }}"
                  then: {do: break}
                - else:
                    then: {DIRECTIVE, set_iter: {seen: 1}, set_ctx: {seen: 2}}
      - second: {kind: noop, seen: "{{ iter.seen }}"}
"""


@pytest.mark.spec("POL-10", "POL-11", "DIR-04")
@pytest.mark.parametrize("do", DIRECTIVES)
def test_patches_go_with_every_directive(do: str) -> None:
    directive = f"do: {do}" + (", to: second" if do == "jump" else "")
    playbook = load(PATCHING.replace("DIRECTIVE", directive)).playbook
    assert playbook is not None
    seen: list[Any] = []

    def answer(call: Any) -> Outcome:
        seen.append(call.inputs.get("seen"))
        return Outcome.ok()

    simulation = Simulation(playbook, answer)
    state = simulation.run()
    patches = [
        event.payload.get("set_iter")
        for event in simulation.log
        if event.name == "task.done"
    ]

    assert state.ctx == {"seen": 2}
    assert patches[0] == {"seen": 1}
    if do in ("continue", "jump", "skip"):
        assert seen[-1] == 1
    if do == "retry":  # the second attempt finds iter.seen, and breaks
        assert len(seen) == 2
