"""Checks of the steps as a set."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import partial

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.node import shorten
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
            yield step.at, message, "it ends its token; add kind: noop to say so"


@rule("unreachable-step", "S-51", "warning")
def steps_are_reachable(draft: Draft) -> Iterator[Found]:
    """Every step can be reached from the entry step along the arcs."""
    playbook = draft.playbook
    broken = any(step.next is None and "next" in step.at for step in playbook.workflow)
    if playbook.entry is None or broken:
        return  # where arcs are unknown, so is what they reach
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
