"""The page about data says the rules, and its playbooks behave so."""

from __future__ import annotations

import itertools
import json
import random
import re
from pathlib import Path

import pytest

from noetl import load
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Call

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "data-flow.md"
TEXT = PAGE.read_text(encoding="utf-8")
ZONES = {"Oslo": "CET", "Rome": "CET", "Lima": "PET"}


def section(title: str) -> str:
    """The text below a heading, up to the next one."""
    (_, found) = re.split(rf"^## {re.escape(title)}.*$", TEXT, flags=re.MULTILINE)
    return re.split(r"^## ", found, flags=re.MULTILINE)[0]


def sentences(text: str) -> str:
    return " ".join(re.sub(r"```.*?```", "", text, flags=re.S).replace("*", "").split())


def play(text: str, seed: int = 0) -> Simulation:
    """The section's playbook, run to its end; noop does what it does for real."""
    (playbook,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    loaded = load(playbook)
    assert loaded.diagnostics == ()
    assert loaded.playbook is not None

    def noop(call: Call) -> Outcome:
        return Outcome.ok(call.inputs.get("result"))

    simulation = Simulation(loaded.playbook, noop, choose=random.Random(seed).randrange)
    simulation.run()
    return simulation


@pytest.mark.spec("DOC-02")
def test_the_merge_of_token_args_is_documented() -> None:
    said = sentences(section("The args of a token"))

    assert "updated with the rendered `args` of the arc" in said
    assert "The update is shallow, and the arc's values win" in said
    assert "Each token has a copy of its own" in said
    assert "merged in the order of `join.from`, and later ones win" in said


@pytest.mark.spec("DOC-02", "NEXT-12", "S-06")
@pytest.mark.parametrize("seed", range(3))
def test_tokens_carry_the_args_that_the_page_shows(seed: int) -> None:
    text = section("The args of a token")
    shown = dict(re.findall(r"^\| (\w+) \| `(\{.*?\})` \|", text, re.MULTILINE))

    simulation = play(text, seed)

    done = (event for event in simulation.log if event.name == "step.done")
    results = {event.step: event.payload["result"] for event in done}
    assert shown.keys() == {"check", "report"}
    for step, args in shown.items():
        assert results[step] == json.loads(args)


@pytest.mark.spec("DOC-01")
def test_the_rule_of_parallel_set_ctx_is_documented() -> None:
    said = sentences(section("`set_ctx` in a parallel loop"))

    assert "write once per key" in TEXT
    assert "a key of `ctx` can be written once by the iterations" in said
    assert "even if the key existed before the loop" in said
    assert "writes an equal value passes" in said
    assert "`refused: {key, by}`" in said
    assert "fails with the error `ctx.conflict`" in said


@pytest.mark.spec("DOC-01", "LOOP-14", "S-21")
def test_the_first_iteration_wins_in_every_order() -> None:
    text = section("`set_ctx` in a parallel loop")
    winners = set()
    for seed in range(12):
        simulation = play(text, seed)
        done = [event for event in simulation.log if event.name == "task.done"]
        cities = [list(ZONES)[int(e.iteration_id[-1])] for e in done if e.iteration_id]
        first = cities[0]
        ended = {
            city: "refused" in event.payload
            for city, event in zip(cities, done, strict=True)
        }
        winners.add(first)

        assert simulation.state.ctx == {"zone": ZONES[first]}
        assert ended == {city: ZONES[city] != ZONES[first] for city in ZONES}
    assert winners == set(ZONES), "not every order was tried"


@pytest.mark.spec("DOC-01", "S-21")
def test_a_refused_iteration_fails_and_names_the_one_that_was_first() -> None:
    text = section("`set_ctx` in a parallel loop")
    simulations = (play(text, seed) for seed in itertools.count())
    simulation = next(s for s in simulations if s.state.ctx == {"zone": "CET"})
    (refused,) = (e for e in simulation.log if "refused" in e.payload)
    (failed,) = (e for e in simulation.log if e.name == "loop.iteration.failed")
    (loop,) = (e for e in simulation.log if e.name == "loop.done")

    assert refused.payload["refused"]["key"] == "zone"
    assert refused.payload["refused"]["by"] in ("sim-1/0", "sim-1/1")
    assert failed.payload["error"]["kind"] == "ctx.conflict"
    assert (failed.iteration_id, loop.payload["failed"]) == ("sim-1/2", 1)
