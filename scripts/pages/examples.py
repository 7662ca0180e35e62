"""The worked examples of the directives, run by the simulation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from noetl import load
from noetl.engine.events import Event
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Call

FOLDER = Path(__file__).parents[2] / "examples" / "directives"

ANSWERS: Mapping[str, list[tuple[int, Any]]] = {
    "continue": [(404, None)],
    "retry": [(503, None), (503, None), (200, {"orders": [7, 8]})],
    "jump": [(200, {"more": True}), (200, {"more": True}), (200, {"more": False})],
    "break": [(200, "the report")],
    "fail": [(200, [])],
    "skip": [],
}
"""Status and body of every answer that the http tasks of an example get."""


RETRIES = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: docs/waits}
workflow:
  - step: start
    tool:
      kind: noop
      spec: {policy: {rules: [{else: {then: {do: retry, attempts: MOST, delay: 2,
        backoff: BACKOFF}}}]}}
"""


class Turn(NamedTuple):
    """One attempt of one task."""

    task: str
    attempt: int
    inputs: Mapping[str, Any] | None
    """None if the tool was not called."""
    outcome: Mapping[str, Any]
    directive: Mapping[str, Any]
    patch: Mapping[str, Any]


class Example(NamedTuple):
    text: str
    turns: list[Turn]
    status: str
    ctx: Mapping[str, Any]
    result: Any
    seconds: float
    """Seconds of all waits."""


def run_example(name: str) -> Example:
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    answers = iter(ANSWERS[name])
    calls: dict[tuple[str, int], Call] = {}

    def answer(call: Call) -> Outcome:
        calls[call.task_run_id, call.attempt] = call
        if call.task.kind == "http":
            return answer_http(*next(answers))
        return Outcome.ok(call.inputs.get("result"))

    playbook = load(text).playbook
    assert playbook is not None, f"{name}.yaml is not valid"
    simulation = Simulation(playbook, answer)
    state = simulation.run()
    assert next(answers, None) is None, f"{name}.yaml leaves answers over"
    return Example(
        text,
        [turn_of(event, calls) for event in simulation.log if is_turn(event)],
        state.status,
        state.ctx,
        state.result,
        simulation.clock,
    )


def waits_of(backoff: str, reruns: int) -> list[float]:
    """Return the wait before each rerun, with ``delay: 2``."""
    text = RETRIES.replace("BACKOFF", backoff).replace("MOST", str(reruns + 1))
    playbook = load(text).playbook
    assert playbook is not None
    simulation = Simulation(playbook, lambda call: Outcome.ok())
    simulation.run()
    verdicts = [
        event.payload["directive"] for event in simulation.log if is_turn(event)
    ]
    return [verdict["delay"] for verdict in verdicts if verdict["do"] == "retry"]


def answer_http(status: int, body: Any) -> Outcome:
    """Return the outcome of the http tool for a status."""
    if status < 400:
        return Outcome.ok(body, status=status)
    kind = "http.server" if status >= 500 else "http.client"
    return Outcome.failed(kind, f"{status}", retryable=status >= 500, status=status)


def is_turn(event: Event) -> bool:
    return event.name == "task.done"


def turn_of(event: Event, calls: Mapping[tuple[str, int], Call]) -> Turn:
    call = calls.get((event.task_run_id or "", event.attempt or 0))
    payload = event.payload
    return Turn(
        event.task_label or "",
        event.attempt or 0,
        call.inputs if call is not None else None,
        payload["outcome"],
        payload["directive"],
        {key: payload[key] for key in ("set_iter", "set_ctx") if key in payload},
    )
