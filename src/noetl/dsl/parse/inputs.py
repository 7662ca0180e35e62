"""Tool inputs against the kind's declaration."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from noetl.dsl.diagnostics import nearest
from noetl.dsl.grammar.older import older_input
from noetl.dsl.grammar.shape import Field
from noetl.dsl.grammar.tasks import TASK_SPEC
from noetl.dsl.kinds import Kind
from noetl.dsl.parse.context import Context
from noetl.dsl.place import Place
from noetl.templates import is_template


def check_inputs(
    context: Context, found: Mapping[str, Place], task: Place, kind: Kind
) -> None:
    """Unknown, missing, contradicting and mistyped inputs are reported."""
    for key, at in found.items():
        declared = kind.inputs.get(key)
        if declared is None:
            if not kind.any_input:
                _unknown(context, key, at, task, kind)
        elif not (isinstance(at.node.value, str) and is_template(at.node.value)):
            older = older_input(kind.name, key, at.node)
            shape = declared.shape
            if older is not None and not shape.accepts(at.node):
                shape = replace(shape, hint=older)
            context.reader.fits(at, Field(shape, kind.row, declared.doc), key)
    _check_missing(context, found, task, kind)
    _check_groups(context, found, task, kind)


def _unknown(context: Context, key: str, at: Place, task: Place, kind: Kind) -> None:
    hint: str | None = older_input(kind.name, key, at.node)
    if hint is not None:
        pass
    elif key in kind.knobs or key in TASK_SPEC.fields:
        hint = f"it is a knob: move it under spec: {{{key}: …}}"
    elif key == "when":
        hint = "a task is skipped by a policy rule: then: {do: skip}"
    else:
        match = None if context.report.full else nearest(key, kind.inputs)
        known = ", ".join(kind.inputs)
        hint = f"did you mean '{match}'?" if match else f"known: {known}"
    message = f"kind {kind.name} has no input '{key}'"
    place = task.key(key) if key in task else at
    context.report.error("S-50", "tool-input", place, message, hint)


def _check_missing(
    context: Context, found: Mapping[str, Place], task: Place, kind: Kind
) -> None:
    for key, declared in kind.inputs.items():
        if declared.required and key not in found:
            message = f"kind {kind.name} needs the input '{key}'"
            hint = f"add {key}: … ({declared.doc})"
            context.report.error("S-50", "tool-input", task, message, hint)
    for group in kind.one_of:
        if not any(key in found for key in group):
            names = " or ".join(f"'{key}'" for key in group)
            message = f"kind {kind.name} needs the input {names}"
            hint = f"add {group[0]}: … ({kind.inputs[group[0]].doc})"
            context.report.error("S-50", "tool-input", task, message, hint)


def _check_groups(
    context: Context, found: Mapping[str, Place], task: Place, kind: Kind
) -> None:
    for group in (*kind.one_of, *kind.at_most_one):
        given = [key for key in group if key in found]
        if len(given) > 1:
            names = " and ".join(f"'{key}'" for key in given)
            message = f"kind {kind.name} takes only one of {names}"
            extra = task.key(given[1]) if given[1] in task else found[given[1]]
            context.report.error("S-50", "tool-input", extra, message, "keep one")
