"""Changes of counters that events make, in executions that wait and are steered."""

from __future__ import annotations

import random
from pathlib import Path
from textwrap import dedent, indent

import pytest
from tallies import check_counters

from noetl import load
from noetl.engine.decide import pause, resume
from noetl.engine.simulate import Script, Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.errors import NoetlError
from noetl.report.counting import count_event
from noetl.report.tally import COUNTERS, EFFECTS, Change, Tally, look_of

VALID = Path(__file__).parents[2] / "playbooks" / "valid"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"


def begun(
    workflow: str, script: Script = lambda call: Outcome.ok(1), root: str = ""
) -> Simulation:
    text = HEAD + dedent(root) + "workflow:\n" + indent(dedent(workflow), "  ")
    loaded = load(text)
    assert loaded.playbook is not None, loaded.diagnostics
    simulation = Simulation(loaded.playbook, script)
    simulation.start()
    return simulation


def finish(simulation: Simulation) -> Simulation:
    while simulation.step():
        pass
    return simulation


def changes_of(simulation: Simulation) -> list[Change]:
    tally = Tally()
    return [change for event in simulation.log for change in count_event(tally, event)]


def ops_of(simulation: Simulation, step: str | None) -> list[str]:
    return [each.op for each in changes_of(simulation) if each.step == step]


def look(simulation: Simulation, step: str) -> str:
    tally = check_counters(simulation.log)
    return look_of(tally.counters(step), has_ended=tally.ended)


@pytest.mark.parametrize(
    "file", sorted(VALID.glob("*.yaml")), ids=lambda file: file.stem
)
def test_counters_agree_with_the_report_for_every_playbook(file: Path) -> None:
    loaded = load(file.read_bytes())
    if loaded.playbook is None:
        pytest.skip("the playbook is of another dialect, which load does not read")
    for seed in range(3):
        dice = random.Random(f"{file.stem} {seed}")

        def answer(call: object, dice: random.Random = dice) -> Outcome:
            if dice.random() < 0.2:
                return Outcome.failed("some.kind", "as the dice say")
            return Outcome.ok(dice.randrange(4))

        simulation = Simulation(loaded.playbook, answer, choose=dice.randrange)
        try:
            simulation.start()
            for _ in range(200):
                if not simulation.step():
                    break
        except NoetlError:
            pass  # the playbook needs inputs, or files
        check_counters(simulation.log)


APPROVAL = """
- step: start
  tool: {kind: wait, signal: approve}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop}}
"""


def test_a_run_that_waits_for_a_signal_is_woken_by_it() -> None:
    simulation = finish(begun(APPROVAL))
    waiting = look(simulation, "start")
    simulation.signal("approve", {})
    finish(simulation)

    assert waiting == "waiting"
    assert [look(simulation, step) for step in ("start", "end")] == ["done", "done"]
    assert ops_of(simulation, "start") == [
        *("token+", "token-", "ready", "begin", "wait", "wake", "done")
    ]
    assert Change("signal", who="approve") in changes_of(simulation)


def test_an_open_wait_says_what_it_waits_for() -> None:
    tally = check_counters(finish(begun(APPROVAL)).log)

    [wait] = tally.waits.values()

    assert (wait.step, wait.task, wait.on, wait.name) == (
        *("start", "task_1", "signal", "approve"),
    )
    assert wait.since.endswith("Z")


LOOP = """
- step: start
  loop: {in: "{{ range(4) }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  spec: {policy: {failure: best_effort}}
  tool: {kind: http, url: "http://x/{{ iter.n }}"}
"""


def test_a_loop_counts_what_is_in_flight_and_how_iterations_ended() -> None:
    def script(call: object) -> Outcome:
        return Outcome.failed("http.status", "404") if next(answers) else Outcome.ok(1)

    answers = iter([0, 1, 0, 0])
    simulation = finish(begun(LOOP, script))
    tally = check_counters(simulation.log)
    counters = dict(zip(COUNTERS, tally.counters("start"), strict=True))

    assert {name: counters[name] for name in COUNTERS if counters[name]} == {
        **{"done": 1, "loop_total": 4, "loop_done": 3, "loop_failed": 1}
    }
    assert look(simulation, "start") == "partial"


def test_a_loop_waits_when_all_of_its_pipelines_wait() -> None:
    workflow = LOOP.replace(
        'kind: http, url: "http://x/{{ iter.n }}"', "kind: wait, signal: go"
    )
    simulation = finish(begun(workflow))
    all_wait = look(simulation, "start")
    simulation.signal("go")
    simulation.move(*next(simulation.ready()))

    assert all_wait == "waiting"
    assert look(simulation, "start") == "running"


def test_a_cancelled_run_is_not_a_failure() -> None:
    simulation = finish(begun(APPROVAL))
    simulation.cancel()
    finish(simulation)

    assert look(simulation, "start") == "cancelled"
    assert look(simulation, "end") == "not_reached"
    assert "stop" in ops_of(simulation, "start")


def test_pauses_are_moments_and_change_no_counter() -> None:
    simulation = finish(begun(APPROVAL))
    before = check_counters(simulation.log)
    simulation._settle(pause)
    paused = check_counters(simulation.log)
    simulation._settle(resume)

    assert before.steps == paused.steps
    assert paused.paused_at is not None
    assert check_counters(simulation.log).paused_at is None
    assert ops_of(simulation, None) == ["pause", "resume"]


def test_the_first_failure_that_no_arc_handles_is_kept() -> None:
    workflow = """
    - step: start
      tool: [{call: {kind: http, url: "http://x"}}]
      next: {arcs: [{step: mend, when: "{{ event.name == 'step.failed' }}"}]}
    - step: mend
      tool: [{call: {kind: http, url: "http://x"}}]
    """
    simulation = finish(
        begun(workflow, lambda call: Outcome.failed("http.status", "404 " + "x" * 900))
    )
    tally = check_counters(simulation.log)

    [failure] = tally.failures.values()

    assert (failure.step, failure.task, failure.kind) == ("mend", "call", "http.status")
    assert len(failure.message) == 501, "cut, with an ellipsis"
    assert simulation.log[failure.seq - 1].name == "step.failed"


def test_retries_and_ctx_writes_name_their_task() -> None:
    workflow = """
    - step: start
      tool:
        - call:
            kind: http
            url: "http://x"
            spec:
              policy:
                rules:
                  - when: "{{ outcome.status == 'error' }}"
                    then: {do: retry, attempts: 3, delay: 0}
                  - else: {then: {do: continue, set_ctx: {a: 1, b: 2}}}
    """
    answers = iter([Outcome.failed("http.status", "503"), Outcome.ok(1)])
    simulation = finish(begun(workflow, lambda call: next(answers)))
    check_counters(simulation.log)

    named = [(each.op, each.n, each.who) for each in changes_of(simulation) if each.who]

    assert named == [
        ("error", 1, "call"),
        ("retry", 1, "call"),
        ("ctx", 2, "call"),
        ("end", 1, "completed"),
    ]


def test_effects_name_counters_only() -> None:
    assert all(effect.keys() <= set(COUNTERS) for effect in EFFECTS.values())
