"""A step's end → its arcs → tokens."""

from __future__ import annotations

import msgspec

from noetl.dsl.model import Arc
from noetl.engine import ids
from noetl.engine.batch import Batch
from noetl.engine.outcome import Failure
from noetl.engine.scope import Scope
from noetl.engine.state import Run
from noetl.errors import TemplateError
from noetl.types import JSON

_EARLIER = "an earlier arc fired"


def route(batch: Batch, run: Run, *, on: str) -> bool:
    """Judge the arcs on the run's boundary event; whether any fired.

    Every arc's answer is recorded with it, so that "why did this arc not fire" is
    answered by the log.
    """
    router = batch.playbook.steps[run.step].next
    if router is None:
        return False
    scope = batch.scope(run.args, run.boundary)
    scope["_outcomes"] = run.outcomes
    carried = batch.values.fetch(run.args)
    answers: list[dict[str, JSON]] = []
    fired: list[dict[str, JSON]] = []
    handled = False
    for arc in router.arcs:
        if fired and router.mode == "exclusive":
            answers.append({"step": arc.step, "fired": False, "why": _EARLIER})
            continue
        answer, args = _judge(arc, scope, run.step)
        answers.append(answer)
        if args is None:
            continue
        number = batch.state.token_count + len(fired) + 1
        token = ids.token_id(batch.state.execution_id, number)
        merged = {**carried, **args}  # S-06: the arc's win
        fired.append({"token_id": token, "step": arc.step, "args": merged})
        handled = handled or arc.when is not None
    payload: dict[str, JSON] = {
        "on": on,
        "mode": router.mode,
        "arcs": answers,
        "fired": fired,
        "handled": handled and on == "step.failed",
    }
    broken = [answer["error"] for answer in answers if "error" in answer]
    if broken and not fired and on != "loop.done":
        payload["error"] = broken[0]  # S-32: nobody handles it
    batch.emit(
        "next.evaluated",
        run.id,
        payload,
        parent_id=run.id,
        step=run.step,
        step_run_id=run.id,
    )
    return bool(fired)


def _judge(
    arc: Arc, scope: Scope, step: str
) -> tuple[dict[str, JSON], dict[str, JSON] | None]:
    """The arc's answer, and its args if it fires; an error fails closed (S-32)."""
    answer: dict[str, JSON] = {"step": arc.step, "fired": False}
    try:
        if arc.when is not None and not arc.when.holds(scope):
            return {**answer, "why": "its guard is false"}, None
        args = arc.args.render(scope.recorded()) if arc.args is not None else {}
    except TemplateError as error:
        origin = f" from '{step}'" if error.kind == "template.budget" else ""
        message = f"the arc{origin} to '{arc.step}': {scope.told(error)}"
        problem = msgspec.to_builtins(Failure(error.kind, message))
        return {**answer, "why": "its template failed", "error": problem}, None
    return {**answer, "fired": True}, args
