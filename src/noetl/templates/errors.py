"""Errors of templates, and the nearest name to a wrong one."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.errors import TemplateError
from noetl.templates import limits
from noetl.types import JSON

_CANDIDATES = 200
_MAX_NAME_CHARS = 64


class LeafError(TemplateError):
    """Failure of a template inside a tree of values; ``path`` leads to it."""

    def __init__(self, error: TemplateError, path: tuple[str | int, ...]) -> None:
        super().__init__(error.kind, error.message, hint=error.hint)
        self.path = path


def wrong(message: str, hint: str | None = None) -> TemplateError:
    return TemplateError("template.error", message, hint=hint)


def undefined(message: str, hint: str | None = None) -> TemplateError:
    return TemplateError("template.undefined", message, hint=hint)


def forbidden(message: str, hint: str | None = None) -> TemplateError:
    return TemplateError("template.forbidden", message, hint=hint)


def too_much(message: str, hint: str | None = None) -> TemplateError:
    return TemplateError("template.budget", message, hint=hint)


def too_deep() -> TemplateError:
    return too_much(
        f"the template is too deep: brackets nest more than {limits.BRACKETS} or "
        f"expressions more than {limits.DEPTH} levels; split it up with set, or do the "
        "work in a python task"
    )


def kind_of(value: JSON) -> str:
    """Describe the type of a value for an author."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "a boolean"
    if isinstance(value, str):
        return "text"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    return type(value).__name__.lower()


def translate(error: Exception, where: str) -> TemplateError:
    """Convert a Python exception into a template error.

    The text of a ``ValueError`` or ``KeyError`` may quote the value, which may be a
    secret, so only a ``TypeError``, which quotes types, is passed on.
    """
    if isinstance(error, TemplateError):
        return error
    if isinstance(error, RecursionError):
        return too_much(f"{where}: the value or the template nests too deep")
    if isinstance(error, MemoryError):
        return too_much(f"{where}: out of memory")
    if isinstance(error, ZeroDivisionError):
        return wrong(f"{where}: division by zero")
    if isinstance(error, OverflowError):
        return wrong(f"{where}: the number is too large, so it is not a JSON number")
    if isinstance(error, TypeError):
        return wrong(f"{where}: {_in_our_words(str(error))}")
    return wrong(f"{where}: the value does not fit ({type(error).__name__})")


def _in_our_words(text: str) -> str:
    for python, ours in (("NoneType", "null"), ("dict", "mapping"), ("str", "text")):
        text = text.replace(f"'{python}'", f"'{ours}'")
    return text


def nearest(name: str, known: Iterable[JSON]) -> str | None:
    """Return a hint with the known name most like ``name``, if there is one."""
    match = closest(name, known)
    return f"did you mean '{match}'?" if match else None


def closest(name: str, known: Iterable[JSON]) -> str | None:
    """Return the known name most like ``name``, if there is one."""
    from difflib import get_close_matches  # only failures pay for the import

    if len(name) > _MAX_NAME_CHARS:
        return None
    names: list[str] = []
    for candidate in known:
        if isinstance(candidate, str) and len(candidate) <= _MAX_NAME_CHARS:
            names.append(candidate)
        if len(names) == _CANDIDATES:
            break
    matches = get_close_matches(name, names, n=1)
    return matches[0] if matches else None
