"""Task rules: turn an outcome into a directive and a payload of ``task.done``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from noetl.dsl.model import Action, Rule
from noetl.dsl.model import Directive as Then
from noetl.dsl.times import parse_duration
from noetl.engine.events import Directive, TaskDone
from noetl.engine.tasks.outcome import Failure
from noetl.engine.tasks.scope import Scope, note_undefined
from noetl.engine.values.spilling import names_too_large
from noetl.errors import TemplateError
from noetl.templates import Value
from noetl.types import JSON


class Verdict(msgspec.Struct, frozen=True):
    """The directive for an outcome, with everything rendered.

    ``rule`` is the position of the rule that decided, None for the default. It is
    recorded, so that the log explains the decision. ``ignored`` is set for an error
    that no rule matched. ``undefined`` are names that conditions read and nothing gave,
    with the nearest name of each.
    """

    do: Action
    rule: int | None = None
    to: str | None = None
    attempts: int | None = None
    delay: float = 0.0
    set_iter: dict[str, JSON] | None = None
    set_ctx: dict[str, JSON] | None = None
    error: dict[str, JSON] | None = None
    ignored: bool = False
    undefined: Mapping[str, str | None] | None = None


V = TypeVar("V", Verdict, Verdict | None)


def skip_before(rules: Sequence[Rule], scope: Scope) -> Verdict | None:
    """Return the verdict that skips the task before it runs, or None (C-18).

    Rules are evaluated in order, except those that read ``outcome``; the fallback is
    evaluated if no rule was left out. Only a first match with ``skip`` counts, and
    rules without ``skip`` are not evaluated. Raises ``TemplateError``.
    """
    if not any(rule.then.do == "skip" for rule in rules):
        return None
    return _with_undefined(_find_skip(rules, scope), scope)


def _find_skip(rules: Sequence[Rule], scope: Scope) -> Verdict | None:
    fallback: tuple[int, Rule] | None = None
    passed = False
    for number, rule in enumerate(rules):
        if rule.when is None:
            fallback = (number, rule)
        elif _reads_outcome(rule):
            passed = True
        elif rule.when.holds(scope):
            return _skipping(rule, number, scope)
    return None if passed or fallback is None else _skipping(*fallback[::-1], scope)


def _skipping(rule: Rule, number: int, scope: Scope) -> Verdict | None:
    if rule.then.do != "skip":
        return None
    return _render(rule.then, number, scope, attempt=1)


def _reads_outcome(rule: Rule) -> bool:
    assert rule.when is not None
    return any(reference.path[0] == "outcome" for reference in rule.when.references)


def judge(rules: Sequence[Rule] | None, scope: Scope, attempt: int) -> Verdict:
    """Return the verdict on ``scope['outcome']``. Raises ``TemplateError`` (S-32)."""
    failed = scope["outcome"]["status"] == "error"
    if rules is None:
        return Verdict("fail" if failed else "continue")  # POL-05
    return _with_undefined(_match(rules, scope, attempt), scope)


def _with_undefined(verdict: V, scope: Scope) -> V:
    if verdict is None or scope.decision is None or scope.decision.missing is None:
        return verdict
    return msgspec.structs.replace(verdict, undefined=scope.undefined_names())


def _match(rules: Sequence[Rule], scope: Scope, attempt: int) -> Verdict:
    fallback: tuple[int, Rule] | None = None
    for number, rule in enumerate(rules):
        if rule.when is None:
            fallback = (number, rule)
        elif _holds(rule, scope):
            return _render(rule.then, number, scope, attempt)
    if fallback is not None:
        number, rule = fallback
        return _render(rule.then, number, scope, attempt)
    # POL-06: even after an error
    return Verdict("continue", ignored=scope["outcome"]["status"] == "error")


def _holds(rule: Rule, scope: Scope) -> bool:
    assert rule.when is not None
    try:
        return rule.when.holds(scope)
    except TemplateError as error:
        error.place = (rule.at.get("when") or rule.at).mark
        raise


def _render(then: Then, number: int, scope: Scope, attempt: int) -> Verdict:
    try:
        return _verdict(then, number, scope, attempt)
    except TemplateError as error:
        error.place = then.at.mark
        raise


def _verdict(then: Then, number: int, scope: Scope, attempt: int) -> Verdict:
    retry = then.do == "retry"
    delay = _delay(then, scope, attempt) if retry else 0.0
    return Verdict(
        do=then.do,
        rule=number,
        to=then.to if then.do == "jump" else None,
        attempts=then.attempts if retry else None,
        delay=delay,
        set_iter=_patch(then.set_iter, scope),
        set_ctx=_patch(then.set_ctx, scope),
        error=_error(then.error, scope),
    )


def _patch(value: Value | None, scope: Scope) -> dict[str, JSON] | None:
    rendered: JSON = None if value is None else value.render(scope.recorded())
    return dict(rendered) if isinstance(rendered, Mapping) else None


def _error(value: Value | None, scope: Scope) -> dict[str, JSON] | None:
    """Return the error of a ``fail``, with a kind and a message."""
    if value is None:
        return None
    given: JSON = value.render(scope.recorded())
    try:
        failure = msgspec.convert(given, Failure)
    except msgspec.ValidationError:
        message = "a 'fail' needs an 'error' with texts for 'kind' and 'message'"
        raise TemplateError("template.error", message) from None
    error: dict[str, JSON] = msgspec.to_builtins(failure)
    return error


def _delay(then: Then, scope: Scope, attempt: int) -> float:
    """Return the delay in seconds before rerun ``attempt``, counted from 1 (DIR-08)."""
    base = then.delay
    if isinstance(base, Value):
        try:
            base = parse_duration(base.render(scope))
        except ValueError as error:
            raise TemplateError("template.error", f"delay: {error}") from None
    if then.backoff == "linear":
        return base * attempt
    if then.backoff == "exponential":
        return float(base * 2.0 ** min(attempt - 1, 60))
    return base


# -- payloads of task.done -------------------------------------------------------


def too_many_names(verdict: Verdict) -> Failure | None:
    """Return the error of a patch with too many names: only values can be stored
    elsewhere."""
    for name, patch in (("ctx", verdict.set_ctx), ("iter", verdict.set_iter)):
        size = names_too_large(patch) if patch else None
        if patch and size is not None:
            message = (
                f"set_{name} writes {len(patch):,} keys, which take {size:,} "
                "bytes, more than an event holds: write one key with a mapping of them"
            )
            return Failure("limit.exceeded", message)
    return None


def payload_of(outcome: JSON, verdict: Verdict) -> TaskDone:
    directive: Directive = {"do": verdict.do, "rule": verdict.rule}
    if verdict.to is not None:
        directive["to"] = verdict.to
    if verdict.do == "retry":
        directive["attempts"] = verdict.attempts
        directive["delay"] = verdict.delay
    payload: TaskDone = {"outcome": outcome, "directive": directive}
    if verdict.set_iter:
        payload["set_iter"] = verdict.set_iter
    if verdict.set_ctx:
        payload["set_ctx"] = verdict.set_ctx
    if verdict.ignored:
        payload["ignored"] = True
    if verdict.undefined:
        note_undefined(payload, verdict.undefined)
    return payload


def failure_of(
    outcome: JSON, label: str, error: JSON, verdict: Verdict | None = None
) -> TaskDone:
    """Return the payload of a failure; ``do: fail`` on success is ``policy.fail``."""
    payload = payload_of(outcome, verdict or Verdict("fail"))
    if error is None:
        number = verdict.rule if verdict is not None else None
        which = "the policy" if number is None else f"rule {number + 1}"
        failure = Failure("policy.fail", f"{which} of task '{label}' has 'do: fail'")
        error = msgspec.to_builtins(failure)
    payload["error"] = {**error, "task": label}
    return payload


def error_of_rules(outcome: JSON, failure: Failure) -> JSON:
    """Return the error of a task whose rules cannot be evaluated (S-32).

    The error of the call itself comes first, and keeps its kind.
    """
    own, error = outcome["error"], msgspec.to_builtins(failure)
    if own is None:
        return error
    message = f"{own['message']}; then a rule of its policy failed: {failure.message}"
    return {**own, "message": message, "details": {**own["details"], "policy": error}}


def exhausted(outcome: JSON, label: str, verdict: Verdict, attempt: int) -> TaskDone:
    """Return the payload of a task without attempts left: the last error (DIR-07,
    S-11)."""
    error = outcome["error"] or msgspec.to_builtins(
        Failure("policy.fail", f"task '{label}' was retried {attempt} times")
    )
    error = {**error, "details": {**error["details"], "attempts": attempt}}
    ended = msgspec.structs.replace(verdict, do="fail")
    return failure_of(outcome, label, error, ended)
