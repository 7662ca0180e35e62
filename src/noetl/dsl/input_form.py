"""Form of a playbook's inputs: their schema, declared or inferred, and comments."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import msgspec

from noetl.dsl.diagnostics import Report
from noetl.dsl.model import Playbook
from noetl.dsl.node import Node, shorten
from noetl.dsl.playbook_inputs import schema_of, secret_inputs
from noetl.dsl.secret_patterns import mask
from noetl.dsl.source import read_source
from noetl.templates import is_template
from noetl.types import JSON

MAX_FIELDS = 500
MAX_DEPTH = 3
"""Levels of objects whose members are fields; deeper ones are values."""
MAX_COMMENT = 300
MAX_COMMENT_LINES = 10
_MAX_TEMPLATE = 200

Fields = dict[str, JSON]


class InputForm(msgspec.Struct, frozen=True):
    """What a form needs to ask for the inputs of a playbook.

    ``fields`` is a JSON Schema of an object with the defaults, ``order`` the names as
    the playbook has them, ``comments`` the comments at inputs of ``workload``.
    """

    path: str
    version: str | None
    fields: Fields
    required: list[str]
    order: list[str]
    comments: dict[str, str]


def make_form(playbook: Playbook, source: str) -> InputForm:
    """Return the form: by ``metadata.inputs``, or else by the defaults of
    ``workload``."""
    declared = schema_of(playbook)
    if declared is None:
        fields = _infer_object(playbook.workload, 0)
    else:
        fields = _with_defaults(playbook, declared)
    properties = fields.get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    required = fields.get("required")
    return InputForm(
        path=playbook.path,
        version=playbook.version or None,
        fields=fields,
        required=list(required) if isinstance(required, list) else [],
        order=names,
        comments=read_comments(source, names),
    )


def _with_defaults(playbook: Playbook, declared: Mapping[str, JSON]) -> Fields:
    """Return the declared schema with the defaults of ``workload``, which win."""
    properties = declared.get("properties")
    secret = secret_inputs(playbook)
    shown: Fields = {}
    members = properties.items() if isinstance(properties, dict) else ()
    for name, given in islice(members, MAX_FIELDS):
        schema = dict(given) if isinstance(given, dict) else {}
        if name in playbook.workload:
            schema.update(_default(playbook.workload[name], schema))
        if name in secret:
            schema.pop("default", None)
        shown[name] = schema
    return {**declared, "properties": shown}


def _infer_object(values: Mapping[str, JSON], depth: int) -> Fields:
    members = islice(values.items(), MAX_FIELDS)
    properties = {name: _infer(value, depth + 1) for name, value in members}
    return {"type": "object", "properties": properties}


def _infer(value: JSON, depth: int) -> Fields:
    """Return the schema of values like this default; a template or null has no type."""
    if isinstance(value, dict) and value and depth < MAX_DEPTH:
        return _infer_object(value, depth)
    schema = _default(value, {})
    if "default" in schema and (name := _TYPES.get(type(value))) is not None:
        schema["type"] = name
        if isinstance(value, list):
            schema.update(_items_of(value))
    return schema


def _default(value: JSON, schema: Mapping[str, JSON]) -> Fields:
    """Return the default of a field; a template is described, because a request that
    repeats it would send its text."""
    if not _has_template(value):
        return {"default": value}
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    said = schema.get("description")
    words = f"by default {shorten(mask(text), _MAX_TEMPLATE)}"
    return {"description": f"{said}; {words}" if isinstance(said, str) else words}


def _has_template(value: JSON) -> bool:
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, str) and is_template(each):
            return True
        if isinstance(each, dict):
            pending += each.values()
        elif isinstance(each, list):
            pending += each
    return False


_TYPES: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}


def _items_of(values: list[JSON]) -> Fields:
    """Return the schema of the elements, if all are scalars of one type."""
    kinds = {type(value) for value in values}
    if len(kinds) != 1 or not kinds <= {str, bool, int, float}:
        return {}
    return {"items": {"type": _TYPES[kinds.pop()]}}


def read_comments(source: str, names: list[str]) -> dict[str, str]:
    """Return the comment of each input of ``workload``: the one behind its value, or
    the lines above it."""
    report = Report()
    root = read_source(source, report)
    workload = root.entries.get("workload") if root is not None else None
    if workload is None:
        return {}
    lines = source.removeprefix("\ufeff").splitlines()
    rows = [row for row, _ in workload.key_marks.values()]
    found = {}
    for name in names:
        row = _row_of(workload, name)
        if row is not None and rows.count(row) == 1 and row <= len(lines):
            comment = _behind(lines[row - 1]) or _above(lines, row - 1)
            if comment:
                found[name] = shorten(mask(comment), MAX_COMMENT)
    return found


def _row_of(workload: Node, name: str) -> int | None:
    mark = workload.key_marks.get(name)
    return None if mark is None else mark[0]


def _behind(line: str) -> str:
    """Return the comment at the end of a line; a sign in quotes begins none."""
    quote = ""
    for at, sign in enumerate(line):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'" and (at == 0 or line[at - 1] in " [{,:("):
            quote = sign
        elif sign == "#" and at > 0 and line[at - 1] in " \t":
            return line[at + 1 :].strip()
    return ""


def _above(lines: list[str], at: int) -> str:
    """Return the comment lines directly above a line of the same indent."""
    indent = _indent(lines[at])
    found: list[str] = []
    for line in reversed(lines[max(0, at - MAX_COMMENT_LINES) : at]):
        if not line.lstrip().startswith("#") or _indent(line) != indent:
            break
        found.insert(0, line.strip().lstrip("#").strip())
    return " ".join(filter(None, found))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
