"""Knobs under ``spec``: their types, at every scope they may stand in."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.dsl.durations import parse_duration
from noetl.dsl.grammar.shape import Field
from noetl.dsl.grammar.tasks import TASK_SPEC
from noetl.dsl.kinds import Kind
from noetl.dsl.node import describe
from noetl.dsl.parse.context import Context, Spot
from noetl.dsl.place import Place
from noetl.templates import is_template

# Knobs of an outer scope reach tasks in loops and out of them: assume a loop.
_ANYWHERE = Spot("", "input", depth=1)


def check_knobs(
    context: Context, spec: Place, kind: Kind | None = None, spot: Spot = _ANYWHERE
) -> None:
    """Check a ``spec``: the knobs of a task's kind, ``spec.<kind>``, the timeout."""
    known: Mapping[str, Field] = kind.knobs if kind is not None else {}
    for key in spec.child_keys():
        at = spec[key]
        if key != "policy" and key not in context.kinds:
            context.value(at, spot)
        if key == "timeout":
            _check_timeout(context, at)
        elif key in known:
            if not (isinstance(at.node.value, str) and is_template(at.node.value)):
                context.reader.fits(at, known[key], key)
        elif key in context.kinds:
            _check_subtree(context, at, context.kinds[key], spot)


def _check_subtree(context: Context, at: Place, kind: Kind, spot: Spot) -> None:
    if not at.node.is_mapping:
        message = f"'{kind.name}' holds knobs of that kind, found {describe(at.node)}"
        context.report.error("S-52", "type", at, message, "write a mapping")
        return
    known = {*kind.knobs, *TASK_SPEC.fields}
    for key in at.child_keys():
        if key not in known:
            context.reader.warn_unknown(at.key(key), key, f"spec.{kind.name}", known)
    check_knobs(context, at, kind, spot)


def _check_timeout(context: Context, at: Place) -> None:
    for part in at.children() if at.node.is_mapping else (at,):
        value = part.node.value
        if isinstance(value, str) and is_template(value):
            continue
        try:
            parse_duration(value)
        except ValueError as error:
            hint = "write seconds, or 500ms, 30s, 5m, 2h, 1d"
            context.report.error("S-35", "duration", part, str(error), hint)
