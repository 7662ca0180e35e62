"""Admission of tokens at a step: admit, deny, or wait at a join."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.dsl.model import AdmitRule, Join, Step
from noetl.engine.events import (
    STEP_SCHEDULED,
    STEP_SKIPPED,
    TOKEN_JOINED,
    Admission,
    StepScheduled,
    StepSkipped,
    TokenJoined,
)
from noetl.engine.recorder import Batch, step_run_id
from noetl.engine.runs import Run
from noetl.engine.state import State, Token
from noetl.engine.tasks.outcome import Failure
from noetl.engine.tasks.scope import Scope, note_undefined
from noetl.engine.times import rfc3339
from noetl.engine.waits.resume import announce
from noetl.errors import TemplateError
from noetl.types import JSON


def arrive(batch: Batch, token: Token) -> Run | None:
    """Take one pending token; return the run that it started, or None."""
    step = batch.playbook.steps[token.step]
    origin = token.origin or ""
    if step.join is None or origin not in batch.net.sources(step.name):
        return admit(batch, step, [token], token.args)  # S-04: the step has no join
    late = batch.state.late.get(step.name, {}).get(origin, 0) > 0
    payload: TokenJoined = {"token_id": token.id, "from": origin}
    if late:  # S-04: the round has fired without this token
        payload["discarded"] = True
    root = batch.state.execution_id
    batch.emit(TOKEN_JOINED, token.id, payload, parent_id=root, step=step.name)
    return None


def admit(
    batch: Batch,
    step: Step,
    tokens: list[Token],
    args: dict[str, JSON],
    late: list[str] | None = None,
) -> Run | None:
    """Evaluate the gate once and record the answer, whether it allows or denies
    (ADM-11)."""
    root = batch.state.execution_id
    sent_by = tokens[-1].event if tokens else None
    allowed, why, undefined = _gate(batch, step, args, sent_by)
    taken = [token.id for token in tokens]
    if not allowed:
        denied: StepSkipped = {"tokens": taken, "args": args, "admit": why}
        if late:
            denied["late"] = late
        note_undefined(denied, undefined)
        event = batch.emit(
            STEP_SKIPPED, taken[0], denied, parent_id=root, step=step.name
        )
        announce(batch, event)
        return None
    number = batch.state.run_count + 1
    run_id = step_run_id(root, number)
    arcs = step.next is not None
    payload: StepScheduled = (
        {"tokens": taken, "args": args, "admit": why, "late": late, "has_arcs": arcs}
        if late
        else {"tokens": taken, "args": args, "admit": why, "has_arcs": arcs}
    )
    if step.deadline is not None:
        payload["deadline"] = rfc3339(batch.clock + step.deadline)
    if step.tasks and step.loop is None:
        payload["first"] = step.tasks[0].label
        if step.keep:
            payload["keep"] = list(step.keep)
    batch.emit(
        STEP_SCHEDULED,
        run_id,
        payload,
        parent_id=root,
        step=step.name,
        step_run_id=run_id,
    )
    return batch.state.runs[run_id]


def _gate(
    batch: Batch, step: Step, args: dict[str, JSON], sent_by: dict[str, JSON] | None
) -> tuple[bool, Admission, dict[str, str | None]]:
    """Return the answer, and the undefined names that the rules read."""
    if step.admit is None:
        return True, {"allow": True, "rule": None}, {}
    scope = batch.scope(args, sent_by)
    allowed, why = _answer(step.admit, scope)
    return allowed, why, scope.undefined_names()


def _answer(rules: Sequence[AdmitRule], scope: Scope) -> tuple[bool, Admission]:
    fallback: tuple[int, bool] | None = None
    try:
        for number, rule in enumerate(rules):
            if rule.when is None:
                fallback = (number, rule.allow)
            elif _holds(rule, scope):
                return rule.allow, {"allow": rule.allow, "rule": number}
    except TemplateError as error:
        message = f"admit: {scope.describe(error)}"
        failure = Failure(error.kind, message, details=error.details())
        problem = msgspec.to_builtins(failure)
        return False, {"allow": False, "rule": None, "error": problem}
    if fallback is not None:
        number, allow = fallback
        return allow, {"allow": allow, "rule": number}
    # S-61: a list of permissions denies the rest, a list of refusals admits it.
    allow = not any(rule.allow for rule in rules)
    return allow, {"allow": allow, "rule": None}


def _holds(rule: AdmitRule, scope: Scope) -> bool:
    assert rule.when is not None
    try:
        return rule.when.holds(scope)
    except TemplateError as error:
        error.place = (rule.at.get("when") or rule.at).mark
        raise


def fill_join(batch: Batch, step: Step) -> tuple[bool, Run | None]:
    """Fire a join whose round is complete. Return whether it fired, and the run.

    A round takes one token of each source. Tokens that arrive after an ``any`` or
    ``<n>`` round has fired are late, and are discarded on arrival.
    """
    join, queues = step.join, batch.state.joining.get(step.name)
    if join is None or not queues:
        return False, None
    sources = batch.net.sources(step.name)
    arrived = [source for source in sources if source in queues]
    missing = [source for source in sources if source not in queues]
    if not _is_complete(batch, step, join, len(arrived), missing):
        return False, None
    tokens = [queues[source][0] for source in arrived]
    counted = tokens if join.need == "all" else tokens[: _count(join)]
    args: dict[str, JSON] = {}
    for token in counted:
        args.update(batch.values.fetch(token.args))
    late = [] if join.need == "all" else _able(batch, step, missing)
    return True, admit(batch, step, tokens, args, late)


def _count(join: Join) -> int:
    return join.need if isinstance(join.need, int) else 1


def _is_complete(
    batch: Batch, step: Step, join: Join, arrived: int, missing: list[str]
) -> bool:
    if join.need != "all":
        return arrived >= _count(join)
    return not _able(batch, step, missing)


def _able(batch: Batch, step: Step, sources: list[str]) -> list[str]:
    """Return the sources that a live token can still reach."""
    live = _live_steps(batch.state, step.name)
    deliver = batch.net.can_deliver
    return [
        source
        for source in sources
        if any(deliver(source, step.name, at) for at in live)
    ]


def _live_steps(state: State, join: str) -> set[str]:
    """Return the steps that hold a live token; tokens that wait in the join do not
    count."""
    steps = {token.step for token in state.tokens.values()}
    steps |= {run.step for run in state.runs.values()}
    return steps | (state.joining.keys() - {join})
