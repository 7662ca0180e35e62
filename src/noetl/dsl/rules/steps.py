"""Checks of the steps as a set."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import partial

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.node import Location, shorten
from noetl.dsl.parse import Draft
from noetl.dsl.rules.registry import Found, rule

MAX_STEPS = 5_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")


@rule("too-many-steps", "S-70")
def steps_are_few(draft: Draft) -> Iterator[Found]:
    """A playbook has at most 5,000 steps."""
    count = len(draft.playbook.workflow)
    if count > MAX_STEPS:
        message = f"{count:,} steps; a playbook has at most {MAX_STEPS:,}"
        hint = "split it into playbooks that call each other (kind: playbook)"
        yield draft.playbook.at["workflow"], message, hint


@rule("step-name", "S-51")
def step_names_are_identifiers(draft: Draft) -> Iterator[Found]:
    """A step name starts with a letter or `_`, then letters, digits, `_ - .`"""
    for step in draft.playbook.workflow:
        if not _NAME.match(step.name):
            message = f"'{shorten(step.name)}' is not a step name"
            hint = "letters, digits, '_', '-' and '.', at most 64, no digit first"
            yield step.at["step"], message, hint


@rule("duplicate-step", "VAL-01")
def step_names_are_unique(draft: Draft) -> Iterator[Found]:
    """Two steps do not share a name."""
    seen: dict[str, int] = {}
    for step in draft.playbook.workflow:
        line = step.at["step"].mark[0]
        if step.name in seen:
            lines = f"lines {seen[step.name]} and {line}"
            message = f"step '{shorten(step.name)}' stands twice: {lines}"
            yield step.at["step"], message, "rename one of them"
        seen.setdefault(step.name, line)


@rule("similar-step", "VAL-01", "warning")
def step_names_are_distinct(draft: Draft) -> Iterator[Found]:
    """Two step names do not differ only by case or Unicode form."""
    seen: dict[str, str] = {}
    for step in draft.playbook.workflow:
        folded = unicodedata.normalize("NFKC", step.name).casefold()
        other = seen.setdefault(folded, step.name)
        if other != step.name:
            message = f"step '{shorten(step.name)}' is easily taken for '{other}'"
            yield step.at["step"], message, "use names that differ in more than case"


@rule("empty-step", "WARN-01", "warning")
def steps_do_something(draft: Draft) -> Iterator[Found]:
    """A step has a `tool` or a `next`; one with neither just ends its token."""
    for step in draft.playbook.workflow:
        if not {"tool", "next"} & step.at.node.entries.keys():
            message = f"step '{step.name}' has neither 'tool' nor 'next'"
            yield (
                step.at,
                message,
                "it ends its token; add kind: noop if that is intended",
            )


@rule("unreachable-step", "S-51", "warning")
def steps_are_reachable(draft: Draft) -> Iterator[Found]:
    """Every step can be reached from the entry step along the arcs."""
    playbook = draft.playbook
    broken = any(step.next is None and "next" in step.at for step in playbook.workflow)
    if playbook.entry is None or broken:
        return  # broken arcs may lead to any step
    reached, stack = {playbook.entry.name}, [playbook.entry]
    while stack:
        router = stack.pop().next
        for arc in router.arcs if router else ():
            if arc.step not in reached and arc.step in playbook.steps:
                reached.add(arc.step)
                stack.append(playbook.steps[arc.step])
    for step in playbook.workflow:
        if step.name not in reached:
            message = f"no path leads from '{playbook.entry.name}' to '{step.name}'"
            hint = f"add an arc - step: {step.name}, or remove the step"
            yield step.at["step"], message, hint


@rule("join-source", "S-04")
def joins_wait_for_steps(draft: Draft) -> Iterator[Found]:
    """`join.from` names steps of the workflow, each once."""
    for step in draft.playbook.workflow:
        sources = step.join.sources if step.join is not None else None
        for index, name in enumerate(sources or ()):
            at = step.at["spec"]["join"]["from"][index]
            if name not in draft.playbook.steps:
                hint = partial(did_you_mean, name, draft.playbook.steps)
                yield at, f"the join waits for unknown step '{shorten(name)}'", hint
            elif name in sources[:index]:  # type: ignore[index]
                yield at, f"the join names '{name}' twice", "keep one"


@rule("loop-tool", "VAL-03")
def loops_have_a_pipeline(draft: Draft) -> Iterator[Found]:
    """A `loop` repeats the step's `tool`, so there is one."""
    for step in draft.playbook.workflow:
        if "loop" in step.at and "tool" not in step.at:
            message = f"step '{step.name}' has a loop and no 'tool' to repeat"
            yield step.at.key("loop"), message, "add 'tool', or remove 'loop'"


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
    """The arcs of a step that runs tools should include a guarded one: with unguarded
    arcs alone the step goes on after a failure, and the execution still ends in error.
    """
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
    """Admission rules end with `else`, so that the default is written down."""
    for step in draft.playbook.workflow:
        if step.admit and all(rule.when is not None for rule in step.admit):
            denies = any(rule.allow for rule in step.admit)
            default = "denied" if denies else "admitted"
            message = f"no 'else': a token that matches no rule is {default}"
            at = step.at["spec"]["policy"].key("admit")
            yield at, message, "add - else: {then: {allow: …}}"


IDENTIFIER = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
RESERVED = ("index", "parent")


def _iterators(draft: Draft) -> Iterator[Location]:
    """Yield the locations of iterator names, in valid and in broken loops."""
    for step in draft.playbook.workflow:
        loop = step.at.get("loop")
        while loop is not None:
            at = loop.get("iterator")
            if at is not None and isinstance(at.node.value, str):
                yield at
            loop = loop.get("loop")


@rule("iterator-name", "S-51")
def iterators_are_identifiers(draft: Draft) -> Iterator[Found]:
    """An iterator is a letter or `_`, then letters, digits and `_`."""
    for at in _iterators(draft):
        if not IDENTIFIER.match(at.node.value):
            message = f"'{shorten(at.node.value)}' is not an iterator name"
            yield at, message, "use letters, digits and '_', at most 64"


@rule("iterator-reserved", "S-22")
def iterators_are_not_reserved(draft: Draft) -> Iterator[Found]:
    """An iterator is not called `index` or `parent`: `iter` has these already."""
    for at in _iterators(draft):
        name = at.node.value
        if name in RESERVED:
            message = f"'{name}' is taken: iter.{name} is built in"
            yield at, message, "choose another name, e.g. 'item'"


@rule("max-in-flight-unused", "S-27", "hint")
def bounds_have_an_effect(draft: Draft) -> Iterator[Found]:
    """`max_in_flight` bounds parallel loops; a sequential one ignores it."""
    for step in draft.playbook.workflow:
        for loop in step.loop.levels() if step.loop else ():
            if loop.max_in_flight is not None and loop.mode == "sequential":
                message = "'max_in_flight' has no effect in a sequential loop"
                at = loop.at["spec"].key("max_in_flight")
                yield at, message, "set mode: parallel, or remove it"
