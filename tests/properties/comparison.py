"""One generated playbook: run by the engine and by the reference, and compared."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import yaml
from checkers import check_all
from generator import Case
from reference import Action, Counted, Ending, Reference, Trace, show

import noetl
from noetl.dsl.model import Playbook
from noetl.engine.events import Event
from noetl.engine.evolve import evolve
from noetl.engine.recorder import Batch
from noetl.engine.runs import path_of
from noetl.engine.simulate import Simulation
from noetl.engine.state import State
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Call

encode = msgspec.json.encode


class Recorded(Batch):
    """Keeps the state after each event, as bytes."""

    states: list[bytes]

    def emit(self, *args: Any, **options: Any) -> Event:
        event = super().emit(*args, **options)
        self.states.append(encode(self.state))
        return event


class Watched(Simulation):
    """A simulation that keeps its inputs, and the live state at every position."""

    def __init__(
        self, case: Case, playbook: Playbook, seed: str | None = None, name: str = "sim"
    ) -> None:
        pick = random.Random(seed)
        choose = (lambda count: 0) if seed is None else pick.randrange
        super().__init__(playbook, self.answer, choose=choose, execution_id=name)
        self.case = case
        self.inputs: dict[tuple[str, int], Any] = {}
        self.states: list[bytes] = []

    def answer(self, call: Call) -> Outcome:
        command, _, rest = call.task_run_id.partition(":")
        visit = int(rest.rpartition(".")[2])
        path = tuple(path_of(command))
        self.inputs[call.task_run_id, call.attempt] = call.inputs["v"]
        status, value = self.case.answer(call.task.label, path, visit, call.attempt)
        if status == "ok":
            return Outcome.ok(value)
        return Outcome.failed(value, "as the script says")

    def _batch(self) -> Batch:
        batch = Recorded(self.playbook, self.net, self.state, self.clock)
        batch.states = self.states
        return batch


def load(case: Case) -> Playbook:
    loaded = noetl.load(yaml.safe_dump(case.doc, sort_keys=False))
    assert loaded.playbook is not None, loaded.diagnostics
    return loaded.playbook


def trace_of(simulation: Watched) -> Trace:
    """What the log says, in the words of the reference."""
    state, log = simulation.state, simulation.log
    trace = Trace(status=state.status, ctx=state.ctx, result=state.result)
    args = {e.step_run_id: e.payload["args"] for e in log if e.name == "step.scheduled"}
    for event in log:
        step, path = event.step or "", tuple(path_of(event.iteration_id))
        match event.name:
            case "task.done":
                trace.actions.append(action(simulation, event))
            case "step.skipped":
                skipped = show(event.payload["args"])
                trace.endings.append(Ending(step, "skipped", skipped, "None"))
            case "step.done" | "step.failed":
                result, given = event.payload.get("result"), args[event.step_run_id]
                status = event.name.removeprefix("step.")
                trace.endings.append(Ending(step, status, show(given), show(result)))
            case "loop.done":
                body = event.payload
                counts = (body["total"], body["done"], body["failed"])
                trace.loops.append(Counted(step, path, *counts, show(body["results"])))
    return trace


def action(simulation: Watched, event: Event) -> Action:
    key = (event.task_run_id or "", event.attempt or 0)
    directive = event.payload["directive"]
    return Action(
        event.step or "",
        tuple(path_of(event.iteration_id)),
        event.task_label or "",
        int(key[0].rpartition(".")[2]),
        key[1],
        simulation.inputs.get(key),
        directive["do"],
        directive.get("delay", 0.0),
    )


def compare(case: Case, expected: Trace, found: Trace) -> None:
    """All that the schedule cannot change; with ``case.ordered``, all."""
    if expected.pairing and not case.plain:
        return
    assert found.status == expected.status
    loose = expected.loose
    if not loose:
        assert show(found.ctx) == show(expected.ctx)
    if case.ordered:
        assert found.actions == expected.actions
        assert found.endings == expected.endings
        assert found.loops == expected.loops
    if case.flavour == "serial" and expected.status == "completed":
        assert show(found.result) == show(expected.result)
    assert Counter(found.endings) == Counter(expected.endings)
    for mine, theirs in (
        (found.actions, expected.actions),
        (found.loops, expected.loops),
    ):
        firm = Counter(repr(each) for each in mine if each.step not in loose)
        assert firm == Counter(repr(e) for e in theirs if e.step not in loose)


def check_replay(simulation: Watched) -> int:
    """I-07: at every position the fold is the live state, and so is a snapshot."""
    folded = State()
    for event, live in zip(simulation.log, simulation.states, strict=True):
        restored = msgspec.json.decode(encode(folded), type=State)
        evolve(folded, event)
        assert encode(folded) == live, f"replay differs at {event.seq} {event.name}"
        evolve(restored, event)
        assert encode(restored) == live, f"snapshot before {event.seq} differs"
    return len(simulation.log)


def verify(case: Case, schedules: int = 2) -> tuple[Trace, int]:
    """The whole comparison; what the reference found, and how many prefixes."""
    reference = Reference(case.doc, case.meaning, case.answer)
    expected = reference.run()
    playbook = load(case)
    prefixes = 0
    seeds = [None, *(f"{case.seed}/{number}" for number in range(schedules))]
    for seed in seeds[:1] if case.ordered else seeds:
        simulation = Watched(case, playbook, seed)
        simulation.run()
        assert simulation.state.finished, "the execution is stuck"
        check_all(playbook, simulation.log)
        compare(case, expected, trace_of(simulation))
        if seed is None or schedules > 2:
            prefixes += check_replay(simulation)
    return expected, prefixes
