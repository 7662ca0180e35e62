"""Possible outcomes of a step, read from its text."""

from __future__ import annotations

from typing import Literal, get_args

from noetl.dsl.model import AdmitRule, Step, Task
from noetl.net.guards import Event, Verdicts, read_guard
from noetl.templates import Template, Value

Outcome = Literal["done", "failed", "skipped"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

# The boundary events that arcs are evaluated for, in order, as guards see them. The
# second name is the field's name in earlier guards (C-05).
_STEP_DONE = {"name": "step.done", "event_type": "step.done", "status": "success"}
_STEP_FAILED = {"name": "step.failed", "event_type": "step.failed", "status": "error"}
_LOOP_DONE = {"name": "loop.done", "event_type": "loop.done"}
_NOTHING_KNOWN: Event = {}

_CANNOT_FAIL = frozenset({"noop"})


def boundary_events(step: Step, outcome: Outcome) -> tuple[Event, ...]:
    """Return the router's events after ``outcome``; later ones apply if none fired."""
    if outcome == "skipped":
        return ()
    if outcome == "failed":
        return (_STEP_FAILED,)
    # C-11: a loop routes on loop.done, and on step.done only if nothing fired.
    return (_LOOP_DONE, _STEP_DONE) if step.loop else (_STEP_DONE,)


def find_outcomes(step: Step) -> frozenset[Outcome]:
    """Return every outcome that cannot be ruled out."""
    admission = read_admission(step.admit)
    found: set[Outcome] = set()
    if admission != frozenset({"true"}):
        found.add("skipped")
    if "true" in admission:
        found.add("done")
        if _may_fail(step):
            found.add("failed")
    return frozenset(found)


def read_admission(rules: tuple[AdmitRule, ...] | None) -> Verdicts:
    """Return whether a token is admitted: true, false, or an error that denies it
    too."""
    verdicts: Verdicts = frozenset()
    fallback = not any(rule.allow for rule in rules or ())  # S-61
    for rule in rules or ():
        if rule.when is None:
            fallback = rule.allow  # S-18: `else` wherever it stands
            continue
        matches = read_guard(rule.when, _NOTHING_KNOWN)
        if "true" in matches:
            verdicts |= _word(rule.allow)
        verdicts |= matches & {"error"}
        if "false" not in matches:
            return verdicts
    return verdicts | _word(fallback)


def fails_on_its_own(step: Step) -> bool:
    """Return whether failing is an ordinary end of this step: a failed call or a rule.

    Narrower than the outcome ``failed``, which also covers a broken template.
    """
    if step.loop is not None and step.best_effort:
        return False  # failed iterations are counted, not fatal (S-28)
    return any(_task_fails(task) for task in step.tasks)


def _word(allow: bool) -> Verdicts:
    return frozenset({"true"}) if allow else frozenset({"false"})


def _may_fail(step: Step) -> bool:
    levels = step.loop.levels() if step.loop else ()
    if any(not _is_literal(level.items) for level in levels):
        return True  # the value may not be a list (S-26)
    if step.tasks and step.deadline is not None:
        return True
    return any(not _is_harmless(task) for task in step.tasks)


def _is_literal(items: Template | Value) -> bool:
    return isinstance(items, Value) and items.literal


def _is_harmless(task: Task) -> bool:
    """Return whether a task runs nothing, renders nothing and has no rule that
    fails."""
    return (
        task.kind in _CANNOT_FAIL
        and not task.rules
        and all(value.literal for value in task.inputs.values())
    )


def _task_fails(task: Task) -> bool:
    if task.rules is None:
        return task.kind not in _CANNOT_FAIL
    # An exhausted retry becomes a failure (DIR-07); no match means continue (POL-06).
    return any(rule.then.do in {"fail", "retry"} for rule in task.rules)
