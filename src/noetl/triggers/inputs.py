"""Inputs of an execution from the event of a trigger, by templates."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.labels import find_label_problems
from noetl.engine.steps.concurrency import why_not_key
from noetl.errors import NoetlError, TemplateError
from noetl.templates import (
    LeafError,
    Reference,
    compile_template,
    compile_value,
    is_template,
)
from noetl.triggers.definition import Kind
from noetl.types import JSON

NAMES: Mapping[Kind, tuple[str, ...]] = {
    "webhook": ("payload", "headers", "trigger"),
    "schedule": ("slot", "trigger"),
    "finished": ("execution", "trigger"),
}
"""Names that templates can read, by the kind of the trigger."""
MEMBERS: Mapping[str, tuple[str, ...]] = {
    "slot": ("time", "local", "date"),
    "trigger": ("name", "slot"),
    "alert": ("slot", "late_seconds", "left_out", "execution_id"),
    "execution": (
        *("execution_id", "status", "path", "version"),
        *("started_at", "finished_at", "error", "result"),
    ),
}
"""Members of those names that are not given by a sender."""
_MAX_KEY_CHARS = 200


class TriggerError(NoetlError):
    """Definition that is not a trigger; ``path`` leads to the wrong member."""

    def __init__(self, path: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.message = message
        self.hint = hint


def check_templates(
    kind: Kind, value: JSON, path: str, more: tuple[str, ...] = ()
) -> None:
    """Raise ``TriggerError`` for a template that can never be evaluated."""
    names = NAMES[kind] + more
    try:
        compiled = compile_value(value)
    except LeafError as error:
        raise _wrong(error, path) from None
    for leaf, template in compiled.templates:
        for reference in template.references:
            if reference.path[0] not in names:
                known = ", ".join(names)
                message = f"'{reference.path[0]}' is not available in a {kind} trigger"
                raise TriggerError(_join(path, leaf), message, f"known: {known}")
            _check_member(reference, _join(path, leaf))


def _check_member(reference: Reference, place: str) -> None:
    """Raise ``TriggerError`` for a member that does not exist, unless the template asks
    whether it does."""
    name, *rest = reference.path
    members = MEMBERS.get(str(name))
    if members is None or not rest or reference.guarded:
        return
    if rest[0] not in members:
        message = f"'{name}' has no member '{rest[0]}'"
        raise TriggerError(place, message, did_you_mean(str(rest[0]), members))


def render_workload(
    workload: dict[str, JSON], scope: Mapping[str, JSON]
) -> dict[str, JSON]:
    """Render the inputs. Raises ``TriggerError`` if that is impossible."""
    try:
        rendered: dict[str, JSON] = compile_value(workload).render(scope)
    except LeafError as error:
        raise _wrong(error, "workload") from None
    return rendered


def plain_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that need no event: those without a template."""
    return {name: text for name, text in labels.items() if not is_template(text)}


def render_labels(
    labels: Mapping[str, str], scope: Mapping[str, JSON]
) -> dict[str, str]:
    """Render the labels; a number becomes text. Raises ``TriggerError``."""
    rendered: dict[str, JSON] = {}
    for name, text in labels.items():
        value = _render(text, scope, f"labels.{name}")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        rendered[name] = str(value) if is_number else value
    for name, problem in find_label_problems(rendered):
        raise TriggerError(f"labels.{name}", problem)
    return {name: str(value) for name, value in rendered.items()}


def render_key(source: str, scope: Mapping[str, JSON]) -> str:
    """Return the key of a delivery, as text. Raises ``TriggerError``."""
    value = _render(source, scope, "webhook.key")
    if isinstance(value, bool) or not isinstance(value, str | int):
        found = "nothing" if value is None else type(value).__name__
        raise TriggerError("webhook.key", f"a key is a text or a number, found {found}")
    return check_key(str(value), "webhook.key")


def render_place(source: str, scope: Mapping[str, JSON], path: str) -> str:
    """Return a concurrency key, as text. Raises ``TriggerError``."""
    value = _render(source, scope, path)
    problem = why_not_key(value)
    if problem is not None:
        raise TriggerError(path, problem)
    return str(value)


def _render(source: str, scope: Mapping[str, JSON], path: str) -> JSON:
    if not is_template(source):
        return source
    try:
        return compile_template(source).render(scope)
    except TemplateError as error:
        raise TriggerError(path, error.message, error.hint) from None


def check_key(key: str, path: str) -> str:
    if not 1 <= len(key) <= _MAX_KEY_CHARS or not all(
        "!" <= each <= "~" for each in key
    ):
        message = f"a key has 1 to {_MAX_KEY_CHARS} printable characters, no spaces"
        raise TriggerError(path, message)
    return key


def _wrong(error: LeafError, path: str) -> TriggerError:
    return TriggerError(_join(path, error.path), error.message, error.hint)


def _join(path: str, leaf: tuple[str | int, ...]) -> str:
    parts = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in leaf]
    return path + "".join(parts)
