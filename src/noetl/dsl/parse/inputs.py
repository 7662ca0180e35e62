"""Checks of tool inputs against the declaration of the kind."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from noetl.dsl.diagnostics import nearest
from noetl.dsl.grammar.earlier_forms import older_input
from noetl.dsl.grammar.records import Field
from noetl.dsl.grammar.tasks import CALL_SLOTS, RATE_LIMIT, TASK_SPEC
from noetl.dsl.node import Location, describe
from noetl.dsl.parse.context import Context, TemplateSite
from noetl.dsl.rates import parse_rate
from noetl.dsl.times import parse_duration
from noetl.dsl.tool_kinds import Kind
from noetl.templates import is_template


def check_inputs(
    context: Context, found: Mapping[str, Location], task: Location, kind: Kind
) -> None:
    """Report unknown, missing, contradicting and mistyped inputs."""
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


def _unknown(
    context: Context, key: str, at: Location, task: Location, kind: Kind
) -> None:
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
    context: Context, found: Mapping[str, Location], task: Location, kind: Kind
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
    context: Context, found: Mapping[str, Location], task: Location, kind: Kind
) -> None:
    for group in (*kind.one_of, *kind.at_most_one):
        given = [key for key in group if key in found]
        if len(given) > 1:
            names = " and ".join(f"'{key}'" for key in given)
            message = f"kind {kind.name} takes only one of {names}"
            extra = task.key(given[1]) if given[1] in task else found[given[1]]
            context.report.error("S-50", "tool-input", extra, message, "keep one")


# Knobs of an outer scope reach tasks inside and outside loops: assume a loop.
_ANYWHERE = TemplateSite("", "input", depth=1)


def check_knobs(
    context: Context,
    spec: Location,
    kind: Kind | None = None,
    where: TemplateSite = _ANYWHERE,
) -> None:
    """Check a ``spec``: the knobs of a task's kind, ``spec.<kind>``, the timeout."""
    known: Mapping[str, Field] = kind.knobs if kind is not None else {}
    for key in spec.child_keys():
        at = spec[key]
        if key != "policy" and key not in context.kinds:
            context.value(at, where)
        if key == "timeout":
            _check_timeout(context, at)
        elif key == "rate":
            _check_rate(context, at)
        elif key == "slots":
            if at.node.is_mapping:
                context.reader.read(at, CALL_SLOTS)
        elif key in known:
            if not (isinstance(at.node.value, str) and is_template(at.node.value)):
                context.reader.fits(at, known[key], key)
        elif key in context.kinds:
            _check_subtree(context, at, context.kinds[key], where)


def _check_subtree(
    context: Context, at: Location, kind: Kind, where: TemplateSite
) -> None:
    if not at.node.is_mapping:
        message = f"'{kind.name}' holds knobs of that kind, found {describe(at.node)}"
        context.report.error("S-52", "type", at, message, "write a mapping")
        return
    known = {*kind.knobs, *TASK_SPEC.fields}
    for key in at.child_keys():
        if key not in known:
            context.reader.warn_unknown(at.key(key), key, f"spec.{kind.name}", known)
    check_knobs(context, at, kind, where)


def _check_timeout(context: Context, at: Location) -> None:
    for part in at.children() if at.node.is_mapping else (at,):
        value = part.node.value
        if isinstance(value, str) and is_template(value):
            continue
        try:
            parse_duration(value)
        except ValueError as error:
            hint = "write seconds, or 500ms, 30s, 5m, 2h, 1d"
            context.report.error("S-35", "duration", part, str(error), hint)


def _check_rate(context: Context, at: Location) -> None:
    limit: Location | None = at
    if at.node.is_mapping:
        limit = context.reader.read(at, RATE_LIMIT).get("limit")
    if limit is None or not isinstance(limit.node.value, str):
        return
    try:
        parse_rate(limit.node.value)
    except ValueError as error:
        hint = "write 5/s, 100/m, 1000/h or 10000/d"
        context.report.error("S-78", "rate", limit, str(error), hint)
