"""Checks of arcs and admission."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.node import shorten
from noetl.dsl.parse import Draft
from noetl.dsl.rules.registry import Found, rule

_HARMLESS = frozenset({"noop", "wait", "choose"})


@rule("arc-target", "VAL-02")
def arcs_lead_to_steps(draft: Draft) -> Iterator[Found]:
    """An arc names a step of the workflow."""
    known = draft.playbook.steps
    for step in draft.playbook.workflow:
        for arc in step.next.arcs if step.next else ():
            if arc.step in known:
                continue
            message = f"arc to unknown step '{shorten(arc.step)}'"
            yield arc.at["step"], message, partial(did_you_mean, arc.step, known)


@rule("unguarded-arcs", "S-08", "hint")
def failures_are_asked_about(draft: Draft) -> Iterator[Found]:
    """A step that runs tools and has only unguarded arcs goes on after a failure,
    and the execution still ends in error: no arc asked about it."""
    for step in draft.playbook.workflow:
        arcs = step.next.arcs if step.next else ()
        if step.tasks and arcs and all(arc.when is None for arc in arcs):
            if all(task.kind in _HARMLESS for task in step.tasks):
                continue
            message = f"if '{step.name}' fails, its arcs fire and the execution fails"
            hint = "guard them: when: \"{{ event.name == 'step.done' }}\""
            yield step.at.key("next"), message, hint


@rule("shadowed-arc", "NEXT-05", "warning")
def arcs_can_fire(draft: Draft) -> Iterator[Found]:
    """In exclusive mode nothing after an unguarded arc can fire."""
    for step in draft.playbook.workflow:
        if step.next is None or step.next.mode != "exclusive":
            continue
        first = next((arc for arc in step.next.arcs if arc.when is None), None)
        if first is None:
            continue
        position = step.next.arcs.index(first)
        for arc in step.next.arcs[position + 1 :]:
            message = f"this arc never fires: the one to '{first.step}' always does"
            yield (
                arc.at,
                message,
                "guard that arc, move it last, or use mode: inclusive",
            )


@rule("admit-else", "S-61", "warning")
def gates_have_a_fallback(draft: Draft) -> Iterator[Found]:
    """Admission rules end with `else`, so that nobody has to guess the default."""
    for step in draft.playbook.workflow:
        if step.admit and all(rule.when is not None for rule in step.admit):
            denies = any(rule.allow for rule in step.admit)
            default = "denied" if denies else "admitted"
            message = f"no 'else': a token that matches no rule is {default}"
            at = step.at["spec"]["policy"].key("admit")
            yield at, message, "add - else: {then: {allow: …}}"
