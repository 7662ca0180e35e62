"""Values as YAML text, laid out for people.

Mappings and lists are blocks. Below a list, where indentation runs deep, a short flat
mapping of constants stays in one line: ``then: {do: retry, attempts: 3}``.
"""

from __future__ import annotations

import json
import re

import yaml

from noetl.types import JSON

_PLAIN = re.compile(r"[A-Za-z_][\w./ -]*(?<! )\Z")
_SHORT = 60


def inline(value: JSON) -> str:
    """In one line, as it may stand inside of brackets, too."""
    if isinstance(value, dict):
        members = (f"{inline(key)}: {inline(each)}" for key, each in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(inline, value))}]"
    if isinstance(value, str) and _PLAIN.match(value):
        return value if yaml.safe_load(value) == value else json.dumps(value)
    return json.dumps(value, ensure_ascii=False)


def block(value: JSON, column: int, *, in_list: bool = False) -> str:
    """Lines of a mapping or a list, each with its line break."""
    pad = " " * column
    if isinstance(value, list):
        return "".join(f"{pad}-{_entry(each, column)}\n" for each in value)
    return "".join(
        f"{pad}{inline(key)}:{written(each, column, in_list=in_list)}\n"
        for key, each in value.items()
    )


def written(value: JSON, column: int, *, in_list: bool = False) -> str:
    """What follows ``key:``, with the space or the line break before it."""
    if isinstance(value, str):
        return " " + _text(value, column + 2)
    if not isinstance(value, dict | list) or not value:
        return " " + inline(value)
    if _is_short(value) and (in_list or isinstance(value, list)):
        return " " + inline(value)
    below = block(value, column + 2, in_list=in_list)
    return "\n" + below.removesuffix("\n")


def _entry(value: JSON, column: int) -> str:
    """What follows the dash of a list."""
    if not isinstance(value, dict | list) or not value:
        return written(value, column)
    lines = block(value, column + 2, in_list=True)
    return " " + lines.removesuffix("\n").lstrip(" ")


def _is_short(value: dict[str, JSON] | list[JSON]) -> bool:
    members = value.values() if isinstance(value, dict) else value
    for each in members:
        if (isinstance(each, dict | list) and each) or "\n" in str(each):
            return False
    text = inline(value)
    return len(text) <= _SHORT and "{{" not in text


def _text(value: str, column: int) -> str:
    if "\n" in value and _may_stand_as_lines(value):
        pad = " " * column
        lines = value.removesuffix("\n").split("\n")
        keep = "" if value.endswith("\n") else "-"
        body = "\n".join(f"{pad}{line}" if line else "" for line in lines)
        return f"|{keep}\n{body}"
    if "{{" in value:
        return json.dumps(value, ensure_ascii=False)
    return inline(value)


def _may_stand_as_lines(value: str) -> bool:
    """A first line that is indented, and empty last ones, would need indicators."""
    return (
        not value[0].isspace()
        and not value.endswith("\n\n")
        and all(line.isprintable() for line in value.split("\n"))
    )
