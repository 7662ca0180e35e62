"""Parser of ``tasks`` of a test file: the replies of each task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.node import Location, describe, shorten
from noetl.dsl.parse.context import Context, TemplateSite
from noetl.templates import Value, compile_value
from noetl.testing.grammar import (
    ANSWER,
    CHILD,
    CODE,
    ERROR,
    HTTP,
    OUTCOME,
    OUTCOMES,
    SELECTORS,
)
from noetl.testing.model import Answers, Reply, Scripted
from noetl.types import JSON

TEMPLATE_SITE = TemplateSite("", "input", depth=1)
NAMES = frozenset(
    {
        "inputs",
        "iter",
        "args",
        "ctx",
        "workload",
        "call",
        "attempt",
        "visit",
        "execution_id",
    }
)
"""Names that the templates of answers read."""

NO_ANSWERS = Answers({}, {})
_YEAR = 366 * 86_400.0
_NOTHING = compile_value({})


def parse_answers(context: Context, at: Location | None) -> Answers:
    """Return the replies of each task; a task may have one, or a list."""
    replies: dict[str, tuple[Reply, ...]] = {}
    places: dict[str, tuple[Location, ...]] = {}
    for key in at.child_keys() if at is not None else ():
        assert at is not None
        places[key] = (at.key(key),)
        replies[key] = tuple(_replies(context, at[key]))
        _check_reach(context, replies[key])
    return Answers(replies, places)


def parse_children(context: Context, at: Location | None) -> dict[str, Answers]:
    children: dict[str, Answers] = {}
    for path in at.child_keys() if at is not None else ():
        assert at is not None
        child = at[path]
        if _is_mapping(context, child, "a child playbook", "write tasks: {…}"):
            fields = context.reader.read(child, CHILD)
            children[path] = parse_answers(context, fields.get("tasks"))
    return children


def layered(inner: Answers, outer: Answers) -> Answers:
    """Return both; the inner replies are tried first, then the outer ones."""
    keys = {**outer.replies, **inner.replies}
    return Answers(
        {key: inner.replies.get(key, ()) + outer.replies.get(key, ()) for key in keys},
        {key: inner.places.get(key, ()) + outer.places.get(key, ()) for key in keys},
    )


def layered_children(
    inner: Mapping[str, Answers], outer: Mapping[str, Answers]
) -> dict[str, Answers]:
    return {
        path: layered(inner.get(path, NO_ANSWERS), outer.get(path, NO_ANSWERS))
        for path in {**outer, **inner}
    }


def check_names(context: Context) -> None:
    """Report templates of answers that read other names than those of the call."""
    for use in context.uses:
        for reference in use.template.references:
            name = reference.path[0]
            if name not in NAMES:
                message = f"'{shorten(name)}' is not available in an answer"
                hint = did_you_mean(name, NAMES)
                context.report.error(CODE, "template-scope", use.at, message, hint)


def _replies(context: Context, at: Location) -> Iterator[Reply]:
    entries = list(at.children()) if at.node.is_sequence else [at]
    for entry in entries:
        hint = "write result: …, error: … or http: …"
        if _is_mapping(context, entry, "an answer", hint):
            reply = _reply(context, entry)
            if reply is not None:
                yield reply


def _is_mapping(context: Context, at: Location, what: str, hint: str) -> bool:
    if at.node.is_mapping:
        return True
    message = f"{what} must be a mapping, found {describe(at.node)}"
    context.report.error(CODE, "type", at, message, hint)
    return False


def _reply(context: Context, at: Location) -> Reply | None:
    fields = context.reader.read(at, ANSWER)
    numbers = {
        key: _numbers(context, fields[key], low=0 if key == "iteration" else 1)
        for key in SELECTORS
        if key != "when" and key in fields
    }
    when = context.guard(fields["when"], TEMPLATE_SITE) if "when" in fields else None
    if not _has_one(context, at, OUTCOMES):
        return None
    outcomes: list[Scripted | None] = []
    if "answers" in fields:
        for entry in fields["answers"].children():
            if _is_mapping(context, entry, "an outcome", "write result: …"):
                parts = context.reader.read(entry, OUTCOME)
                if _has_one(context, entry, OUTCOMES[:-1]):
                    outcomes.append(_outcome(context, entry, parts))
        for key in ("delay", "helper"):
            if key in fields:
                message = f"'{key}' beside 'answers': it belongs to each of them"
                context.report.error(CODE, "answers", at.key(key), message)
        if not fields["answers"].node.items:
            message = "'answers' is empty: add at least one outcome"
            context.report.error(CODE, "answers", fields["answers"], message)
    else:
        outcomes.append(_outcome(context, at, fields))
    sound = tuple(each for each in outcomes if each is not None)
    return Reply(sound, **numbers, when=when, at=at) if sound else None


def _numbers(context: Context, at: Location, low: int) -> tuple[int, ...]:
    values: list[int] = []
    for place in at.children() if at.node.is_sequence else [at]:
        value = place.node.value
        if type(value) is int and value >= low:
            values.append(value)
        else:
            found = describe(place.node)
            message = f"a whole number from {low} on is needed, found {found}"
            context.report.error(CODE, "type", place, message)
    return tuple(values)


def _has_one(context: Context, at: Location, keys: tuple[str, ...]) -> bool:
    given = [key for key in keys if key in at]
    if len(given) == 1:
        return True
    if given:
        message = f"'{given[0]}' and '{given[1]}': a call has one outcome"
        context.report.error(CODE, "outcome", at.key(given[1]), message)
    else:
        message = "the answer has no outcome"
        hint = f"add one of: {', '.join(keys)}"
        context.report.error(CODE, "outcome", at, message, hint)
    return False


def _outcome(
    context: Context, at: Location, fields: dict[str, Location]
) -> Scripted | None:
    how = next((key for key in OUTCOMES if key in fields), None)
    delay: float | Value = 0.0
    if "delay" in fields:
        delay = context.duration(fields["delay"], CODE, TEMPLATE_SITE, _YEAR)
    helper = _NOTHING
    if "helper" in fields:
        helper = context.value(fields["helper"], TEMPLATE_SITE)
    match how:
        case "result" | "error" | "http":
            body = _body(context, how, fields[how])
            return Scripted(how, body, helper, delay, at=at)
        case "dies":
            body = compile_value(fields["dies"].node.value)
            return Scripted("dies", body, helper, delay, at=at)
        case "real":
            return _real(context, at, fields["real"])
        case _:
            return None


def _real(context: Context, at: Location, value: Location) -> Scripted | None:
    if value.node.value is not True:
        message = "'real' is true, or it is left out"
        context.report.error(CODE, "outcome", value, message)
        return None
    for key in ("delay", "helper"):
        if key in at:
            message = f"'{key}' beside 'real': a real call takes its own time"
            context.report.error(CODE, "outcome", at.key(key), message)
    return Scripted("real", _NOTHING, _NOTHING, at=at)


def _body(context: Context, how: str, at: Location) -> Value:
    """Return the value; short forms become mappings."""
    if how == "result":
        return context.value(at, TEMPLATE_SITE)
    short = {"error": "kind", "http": "status"}[how]
    if not at.node.is_mapping:
        body: dict[str, JSON] = {short: at.node.value}
        if how == "http" and not 100 <= at.node.value <= 599:
            message = f"'http' must be from 100 to 599, found {at.node.value}"
            context.report.error(CODE, "range", at, message)
        return compile_value(body)
    context.reader.read(at, ERROR if how == "error" else HTTP)
    return context.value(at, TEMPLATE_SITE)


def _check_reach(context: Context, replies: tuple[Reply, ...]) -> None:
    """Report replies after one that matches every call: the first match answers."""
    for before, reply in pairwise(replies):
        if not before.selective:
            message = "never used: the answer before it takes every call"
            hint = "for one after the other write answers: […]"
            context.report.error(CODE, "answers", reply.at, message, hint)
            return
