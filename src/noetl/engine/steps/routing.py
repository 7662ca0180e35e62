"""Routing: evaluate the arcs of a step that has ended, and send tokens."""

from __future__ import annotations

import msgspec

from noetl.dsl.model import Arc
from noetl.engine.endings import FALSE
from noetl.engine.events import (
    NEXT_EVALUATED,
    STEP_DONE,
    STEP_FAILED,
    ArcAnswer,
    IterationError,
    NewToken,
    NextEvaluated,
    Source,
    StepDone,
    StepFailed,
)
from noetl.engine.recorder import Batch, token_id
from noetl.engine.runs import LoopState, Run
from noetl.engine.tasks.outcome import Failure
from noetl.engine.tasks.scope import Scope, note_undefined
from noetl.errors import TemplateError
from noetl.net.step_outcomes import Outcome
from noetl.types import JSON

_EARLIER = "an earlier arc fired"


def route(batch: Batch, run: Run, *, on: str) -> bool:
    """Evaluate the arcs on the run's boundary event; return whether any fired.

    The answer of every arc is recorded, so that the log explains why an arc did not
    fire.
    """
    router = batch.playbook.steps[run.step].next
    if router is None:
        return False
    scope = batch.scope(run.args, run.boundary)
    scope["_outcomes"] = run.outcomes
    state = batch.state
    carried = batch.values.fetch(run.args) if state.spilled else run.args
    answers: list[ArcAnswer] = []
    fired: list[NewToken] = []
    handled, broken = False, None
    for arc in router.arcs:
        if fired and router.mode == "exclusive":
            answers.append({"step": arc.step, "fired": False, "why": _EARLIER})
            continue
        answer, args = _judge(arc, scope, run.step)
        answers.append(answer)
        if args is None:
            broken = broken or answer.get("error")
            continue
        number = state.token_count + len(fired) + 1
        token = token_id(state.execution_id, number)
        merged = {**carried, **args}  # S-06: args of the arc win
        fired.append({"token_id": token, "step": arc.step, "args": merged})
        handled = handled or arc.when is not None
    payload: NextEvaluated = {
        "on": on,
        "mode": router.mode,
        "arcs": answers,
        "fired": fired,
        "handled": handled and on == "step.failed",
    }
    if broken and not fired and on != "loop.done":
        payload["error"] = broken  # S-32: no arc handles it
    elif not fired and on != "loop.done" and (lost := _find_unfired(batch, run, on)):
        payload["unfired"] = lost
    note_undefined(payload, scope.undefined_names())
    batch.emit(
        NEXT_EVALUATED,
        run.id,
        payload,
        parent_id=run.id,
        step=run.step,
        step_run_id=run.id,
    )
    return bool(fired)


def _judge(
    arc: Arc, scope: Scope, step: str
) -> tuple[ArcAnswer, dict[str, JSON] | None]:
    """Return the arc's answer, and its args if it fires; an error fails closed
    (S-32)."""
    answer: ArcAnswer = {"step": arc.step, "fired": False}
    try:
        if arc.when is not None and not arc.when.holds(scope):
            return {**answer, "why": FALSE}, None
        args = arc.args.render(scope.recorded()) if arc.args is not None else {}
    except TemplateError as error:
        origin = f" from '{step}'" if error.kind == "template.budget" else ""
        message = f"the arc{origin} to '{arc.step}': {scope.describe(error)}"
        error.place = (arc.at.get("when") or arc.at).mark
        failure = Failure(error.kind, message, details=error.details())
        problem = msgspec.to_builtins(failure)
        return {**answer, "why": "its template failed", "error": problem}, None
    return {**answer, "fired": True}, args


def _find_unfired(batch: Batch, run: Run, on: str) -> list[str]:
    """Return the targets of the arcs that do not ask for the other end of the step;
    empty if tokens have reached all of them (S-74)."""
    reached, net = batch.state.reached, batch.net
    if reached is None or all(
        edge.target in reached for edge in net.arcs_from(run.step)
    ):
        return []
    ends: tuple[Outcome, Outcome] = ("done", "failed")
    here, other = ends if on == "step.done" else ends[::-1]
    targets = dict.fromkeys(
        edge.target
        for edge in net.arcs_from(run.step)
        if net.asks_for(edge, here) or not net.asks_for(edge, other)
    )
    return [] if targets.keys() <= reached.keys() else list(targets)


def finish_step(batch: Batch, run: Run, result: JSON, source: Source) -> None:
    routed = run.routed
    done: StepDone = {"result": result}
    batch.emit_step(run, STEP_DONE, done, source)
    # C-11: the end of a loop has fired the arcs already. S-38: cancelled, none fire.
    if not routed and batch.state.cancelling is None:
        route(batch, run, on="step.done")


def iteration_errors(loop: LoopState) -> list[IterationError]:
    """Return the errors of the iterations that failed, in the order of the items."""
    ordered = sorted(loop.errors, key=lambda error: error["index"])
    return msgspec.convert(ordered, list[IterationError])


def fail_step(
    batch: Batch, run: Run, error: dict[str, JSON], source: Source = "server"
) -> None:
    error = {"task": None, "iteration": None, **error}  # S-11
    failed: StepFailed = {"error": error}
    loop = run.loop
    if loop is not None and loop.errors and batch.state.cancelling is None:
        failed["errors"] = iteration_errors(loop)
        failed["error_kinds"] = dict(loop.error_kinds)
    batch.emit_step(run, STEP_FAILED, failed, source)
    if batch.state.cancelling is None:
        route(batch, run, on="step.failed")
