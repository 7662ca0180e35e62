"""Task rules: an outcome in, a directive out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from noetl.dsl.durations import parse_duration
from noetl.dsl.model import Action, Directive, Rule
from noetl.engine.outcome import Failure
from noetl.engine.scope import Scope
from noetl.errors import TemplateError
from noetl.templates import Value
from noetl.types import JSON


class Verdict(msgspec.Struct, frozen=True):
    """What follows from an outcome, with everything rendered.

    ``rule`` is the position of the rule that decided, None where the default did:
    it is recorded, so that "why did it do that" has an answer.
    """

    do: Action
    rule: int | None = None
    to: str | None = None
    attempts: int | None = None
    delay: float = 0.0
    set_iter: dict[str, JSON] | None = None
    set_ctx: dict[str, JSON] | None = None
    error: dict[str, JSON] | None = None


def skip_before(rules: Sequence[Rule] | None, scope: Scope) -> Verdict | None:
    """Whether the body is skipped before it runs (C-18).

    Rules are walked in order, passing over those that read ``outcome``; the fallback
    is asked if none was passed over. Only a first match that says ``skip`` counts, and
    rules that never say it are not asked. Raises ``TemplateError``.
    """
    if not rules or not any(rule.then.do == "skip" for rule in rules):
        return None
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
    """The verdict on ``scope['outcome']``. Raises ``TemplateError`` (S-32)."""
    failed = scope["outcome"]["status"] == "error"
    if rules is None:
        return Verdict("fail" if failed else "continue")  # POL-05
    fallback: tuple[int, Rule] | None = None
    for number, rule in enumerate(rules):
        if rule.when is None:
            fallback = (number, rule)
        elif rule.when.holds(scope):
            return _render(rule.then, number, scope, attempt)
    if fallback is not None:
        number, rule = fallback
        return _render(rule.then, number, scope, attempt)
    return Verdict("continue")  # POL-06: even after an error


def _render(then: Directive, number: int, scope: Scope, attempt: int) -> Verdict:
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
    """What a ``fail`` says: an error as any other, with a kind and a message."""
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


def _delay(then: Directive, scope: Scope, attempt: int) -> float:
    """The wait before rerun ``attempt``: DIR-08, counted from 1."""
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
