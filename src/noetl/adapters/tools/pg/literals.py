"""Names and values as SQL writes them."""

from __future__ import annotations

import msgspec

from noetl.types import JSON


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """A literal that means the same whatever ``standard_conforming_strings`` is."""
    quoted = text.replace("'", "''")
    if "\\" in quoted:
        return " E'" + quoted.replace("\\", "\\\\") + "'"
    return f"'{quoted}'"


def as_text(value: JSON) -> str:
    """A value as a literal would have it: text is itself, anything else its JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def as_array(values: JSON, *, of_json: bool = False) -> str:
    """The array literal of a list; lists within are further dimensions."""
    parts = []
    for value in values:
        if value is None:
            parts.append("NULL")
        elif of_json and not isinstance(value, str):
            parts.append(quote_element(as_text(value)))
        elif isinstance(value, list):
            parts.append(as_array(value))
        else:
            parts.append(quote_element(as_text(value)))
    return "{" + ",".join(parts) + "}"


def quote_element(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
