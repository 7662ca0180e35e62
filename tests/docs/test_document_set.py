"""The document set: all parts are there, examples run, tables are the code's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from navigation import leaves, read_navigation

from noetl import load
from noetl.engine.events import EVENTS
from noetl.engine.invariants import audit
from noetl.engine.invariants.catalog import INVARIANTS
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Call

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: docs/t}\n"
EXAMPLE = re.compile(r"```yaml\n(.*?)```\n\nResult: `(.*?)`\n", re.DOTALL)

SPECIFICATION = (DOCS / "reference" / "specification.md").read_text()
FORMAL = (DOCS / "reference" / "formal-specification.md").read_text()
ROLES = (DOCS / "explanation" / "roles.md").read_text()


def noop(call: Call) -> Outcome:
    return Outcome.ok(call.inputs.get("result"))


def simulation_of(text: str, seed: int = 0) -> Simulation:
    loaded = load(text)
    assert loaded.playbook is not None, loaded.diagnostics
    return Simulation(loaded.playbook, noop, choose=lambda count: seed % count)


@pytest.mark.spec("DOC-03")
@pytest.mark.parametrize(
    ("page", "topics"),
    [
        pytest.param(
            "reference/specification.md",
            [
                *("The document", "Inputs", "Steps", "Admission", "Pipelines", "Rules"),
                *("Loops", "Routing", "Joins", "Data", "Templates", "Knobs", "Results"),
            ],
            id="DSL specification",
        ),
        pytest.param(
            "reference/formal-specification.md",
            [
                *("The net", "State", "Enabling", "Admission", "Firing", "Loops"),
                *("Routing", "Completion", "Order and choice", "Replay", "Invariants"),
            ],
            id="formal specification",
        ),
        pytest.param(
            "reference/events.md",
            ["The envelope", "All events", "task.done", "next.evaluated"],
            id="runtime events",
        ),
        pytest.param(
            "explanation/roles.md",
            ["One step, three parts", "Who says what", "Leases", "What is built"],
            id="control plane and workers",
        ),
    ],
)
def test_each_document_is_there_and_in_the_navigation(
    page: str, topics: list[str]
) -> None:
    titles = re.findall(r"^##+ (.+)$", (DOCS / page).read_text(), re.MULTILINE)

    assert [topic for topic in topics if topic not in titles] == []
    assert page in leaves(read_navigation())


@pytest.mark.spec("DOC-03", "ADM-09", "LOOP-23", "NEXT-06", "DIR-09", "S-04", "S-11")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("text", "result"), EXAMPLE.findall(SPECIFICATION))
def test_an_example_of_the_language_ends_as_the_page_says(
    text: str, result: str, seed: int
) -> None:
    loaded = load(HEAD + text)
    simulation = simulation_of(HEAD + text, seed)
    state = simulation.run()

    assert [each for each in loaded.diagnostics if each.severity != "hint"] == []
    assert state.status == "completed"
    assert state.result == json.loads(result)
    assert audit(simulation.log) == []


def test_the_page_has_an_example_for_each_moving_part() -> None:
    assert len(EXAMPLE.findall(SPECIFICATION)) == SPECIFICATION.count("```yaml") == 5


@pytest.mark.spec("DOC-03", "S-04", "REP-01")
def test_the_diamond_has_the_states_that_the_page_lists() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", FORMAL, re.DOTALL)
    rows = re.findall(r"^\| the \w+.*?\| (.*?)\| (.*?)\| (\w+) \|$", FORMAL, re.M)
    simulation = simulation_of(text)

    def row() -> tuple[str, str, str]:
        state = simulation.state
        runs = ", ".join(run.step for run in state.runs.values())
        arrived = ", ".join(state.joining.get("end", {}))
        assert not state.tokens, "a settlement leaves no token where it can move"
        return runs, arrived, state.status

    simulation.start()
    seen = [row()]
    while simulation.step():
        if row() != seen[-1]:
            seen.append(row())

    assert [tuple(cell.strip() for cell in each) for each in rows] == seen
    assert simulation.state.result == 3


@pytest.mark.spec("DOC-03")
def test_the_invariants_are_those_that_are_checked() -> None:
    listed = re.findall(r"^\| (I-\d+) \|", FORMAL, re.MULTILINE)

    assert listed == [name for name, each in INVARIANTS.items() if "log" in each.how]


@pytest.mark.spec("DOC-03")
def test_the_catalog_of_invariants_has_every_one_that_is_checked() -> None:
    package = ROOT / "src" / "noetl"
    found = {"log": "", "records": "", "store": ""}
    for file in (package / "engine" / "invariants").glob("[!c]*.py"):
        found["log"] += file.read_text()
    found["records"] = (package / "runtime/executions/record_checks.py").read_text()
    found["store"] = (package / "commands/local/verification.py").read_text()
    service = (package / "service/executions/verification.py").read_text()
    both = found["log"] + found["records"] + service

    for how in ("log", "records", "store"):
        named = set(re.findall(r"I-\d+", both if how != "store" else found[how]))
        listed = {name for name, each in INVARIANTS.items() if how in each.how}
        assert listed <= named | {"I-04"}, how
    named = set(re.findall(r'"(I-\d+)"', both + found["store"]))
    assert {name for name in named if INVARIANTS[name].how == ("tests",)} == set()


@pytest.mark.spec("DOC-03", "EVT-03")
def test_the_events_of_a_worker_are_those_that_the_page_lists() -> None:
    (listed,) = re.findall(r"^\| worker \| (`step.*`) \|$", ROLES, re.MULTILINE)

    names = {name for name in EVENTS if EVENTS[name].source == "worker"}

    assert set(re.findall(r"`([\w.]+)`", listed)) == names


@pytest.mark.spec("DOC-03")
def test_the_modules_of_a_role_exist() -> None:
    (section,) = re.findall(r"\| role \| code \|\n(.*?)\n\n", ROLES, re.DOTALL)
    for row in section.splitlines()[1:]:
        package = ""
        for name in re.findall(r"`([\w.]+)`", row):
            package = name.rpartition(".")[0] if "." in name else package
            path = (name if "." in name else f"{package}.{name}").replace(".", "/")
            file = ROOT / "src" / f"{path}.py"
            assert file.exists() or file.with_suffix("").is_dir(), name
