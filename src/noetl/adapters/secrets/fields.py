"""What several providers share: fields of a wanted secret, and parts of a mapping."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.errors import SecretError
from noetl.ports import Wanted
from noetl.types import JSON


def text_field(wanted: Wanted, name: str, default: str | None = None) -> str:
    """A field that must be text. Raises ``SecretError`` if it is missing."""
    value = wanted.fields.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or not value:
        message = f"kind {wanted.kind} needs '{name}', as text"
        raise SecretError("secret.wrong", message)
    return value


def chosen(wanted: Wanted, value: JSON, where: str) -> JSON:
    """All of it, or what ``format`` and ``field`` ask for."""
    form, field = wanted.fields.get("format"), wanted.fields.get("field")
    if form not in (None, "json", "text"):
        raise SecretError("secret.wrong", f"format is {form!r:.40}, not json or text")
    if isinstance(value, str) and (form == "json" or field is not None):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            raise SecretError("secret.wrong", f"{where} is not JSON") from None
    if field is None:
        return value
    if not isinstance(value, Mapping) or field not in value:
        known = ", ".join(value) if isinstance(value, Mapping) else "none"
        message = f"{where} has no field '{field}' (fields: {known})"
        raise SecretError("secret.missing", message)
    return value[field]
