"""From what happened to the inputs of an execution: templates over named values."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.errors import NoetlError, TemplateError
from noetl.templates import LeafError, compile_template, compile_value, is_template
from noetl.triggers.definition import Kind
from noetl.types import JSON

NAMES: Mapping[Kind, tuple[str, ...]] = {
    "webhook": ("payload", "headers", "trigger"),
    "schedule": ("slot", "trigger"),
    "finished": ("execution", "trigger"),
}
"""What templates can read, by the kind of the trigger."""
_LONGEST_KEY = 200


class TriggerError(NoetlError):
    """A trigger is not one: ``path`` leads to the member that does not fit."""

    def __init__(self, path: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.message = message
        self.hint = hint


def check_templates(kind: Kind, value: JSON, path: str) -> None:
    """Raises ``TriggerError`` at a template that can never be evaluated."""
    try:
        compiled = compile_value(value)
    except LeafError as error:
        raise _wrong(error, path) from None
    for leaf, template in compiled.templates:
        for reference in template.references:
            if reference.path[0] not in NAMES[kind]:
                known = ", ".join(NAMES[kind])
                message = f"'{reference.path[0]}' is not known to a {kind} trigger"
                raise TriggerError(_join(path, leaf), message, f"known: {known}")


def render_workload(
    workload: dict[str, JSON], scope: Mapping[str, JSON]
) -> dict[str, JSON]:
    """Raises ``TriggerError``: the inputs cannot be made of this."""
    try:
        rendered: dict[str, JSON] = compile_value(workload).render(scope)
    except LeafError as error:
        raise _wrong(error, "workload") from None
    return rendered


def render_key(source: str, scope: Mapping[str, JSON]) -> str:
    """The key of a delivery, as text. Raises ``TriggerError``."""
    try:
        value = (
            compile_template(source).render(scope) if is_template(source) else source
        )
    except TemplateError as error:
        raise TriggerError("webhook.key", error.message, error.hint) from None
    if isinstance(value, bool) or not isinstance(value, str | int):
        found = "nothing" if value is None else type(value).__name__
        raise TriggerError("webhook.key", f"a key is a text or a number, found {found}")
    return check_key(str(value), "webhook.key")


def check_key(key: str, path: str) -> str:
    if not 1 <= len(key) <= _LONGEST_KEY or not all("!" <= each <= "~" for each in key):
        message = f"a key has 1 to {_LONGEST_KEY} printable characters, no spaces"
        raise TriggerError(path, message)
    return key


def _wrong(error: LeafError, path: str) -> TriggerError:
    return TriggerError(_join(path, error.path), error.message, error.hint)


def _join(path: str, leaf: tuple[str | int, ...]) -> str:
    parts = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in leaf]
    return path + "".join(parts)
