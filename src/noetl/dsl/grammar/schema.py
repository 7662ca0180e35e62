"""The grammar as JSON Schema, for editors; the checker reads the same records."""

from __future__ import annotations

from noetl.dsl.grammar.document import API_VERSION
from noetl.dsl.grammar.playbook import RECORDS
from noetl.dsl.grammar.shape import Field, Record, Shape
from noetl.dsl.grammar.tasks import TASK_SPEC
from noetl.dsl.kinds import Input, Kind, Kinds
from noetl.types import JSON

_TYPES = {
    "text": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "mapping": "object",
    "list": "array",
    "null": "null",
}
_TEMPLATE = {"type": "string", "pattern": r"\{\{|\{%"}


def playbook_schema(kinds: Kinds) -> dict[str, JSON]:
    """Draft 2020-12, self-contained."""
    definitions = {record.name: _record(record) for record in RECORDS}
    definitions |= {f"task_{kind.name}": _task(kind) for kind in kinds.values()}
    definitions["task"] = _any_task(kinds)
    definitions["pipeline"] = _pipeline()
    definitions["step"]["properties"]["tool"] = {"$ref": "#/$defs/pipeline"}
    definitions["loop"]["required"] = ["in", "iterator"]
    definitions["router"]["properties"]["arcs"]["minItems"] = 1
    definitions["playbook"]["properties"]["workflow"]["minItems"] = 1
    definitions["playbook"]["properties"]["workbook"] = {
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/task"},
    }
    for rule in ("rule", "admit_rule"):
        definitions[rule]["oneOf"] = [
            {"required": ["when", "then"]},
            {"required": ["else"]},
        ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"NoETL playbook ({API_VERSION})",
        "$ref": "#/$defs/playbook",
        "$defs": definitions,
    }


def _record(record: Record) -> dict[str, JSON]:
    schema: dict[str, JSON] = {
        "type": "object",
        "properties": {key: _field(each) for key, each in record.fields.items()},
    }
    required = [key for key, each in record.fields.items() if each.missing]
    if required:
        schema["required"] = required
    if record.unknown == "error":
        schema["additionalProperties"] = False
    return schema


def _field(each: Field) -> dict[str, JSON]:
    return {"description": each.doc, **_shape(each.shape)}


def _shape(shape: Shape) -> dict[str, JSON]:
    if shape.record is not None:
        return {"$ref": f"#/$defs/{shape.record}"}
    schema: dict[str, JSON] = {}
    if shape.types:
        names = [_TYPES[name] for name in shape.types]
        schema["type"] = names[0] if len(names) == 1 else names
    if shape.choices:
        schema["enum"] = list(shape.choices)
    if shape.low is not None:
        schema["minimum"] = shape.low
    if shape.high is not None:
        schema["maximum"] = shape.high
    if shape.items is not None:
        schema["items"] = _shape(shape.items)
    return {"anyOf": [schema, _TEMPLATE]} if shape.template else schema


def _input(declared: Input) -> dict[str, JSON]:
    """A value of the declared shape, or a template that yields one."""
    schema = _shape(declared.shape)
    if (
        not declared.literal and schema and "text" not in declared.shape.types
    ) or declared.shape.choices:
        schema = {"anyOf": [schema, _TEMPLATE]}
    return {"description": declared.doc, **schema}


def _task(kind: Kind) -> dict[str, JSON]:
    knobs = {key: _field(each) for key, each in TASK_SPEC.fields.items()}
    knobs |= {key: _field(each) for key, each in kind.knobs.items()}
    properties: dict[str, JSON] = {
        "kind": {"const": kind.name, "description": kind.doc},
        "spec": {"type": "object", "properties": knobs},
        "name": {"type": "string", "description": "The task's label."},
    }
    properties |= {key: _input(each) for key, each in kind.inputs.items()}
    schema: dict[str, JSON] = {
        "type": "object",
        "description": kind.doc,
        "properties": properties,
        "required": [
            "kind",
            *(key for key, each in kind.inputs.items() if each.required),
        ],
        "additionalProperties": kind.any_input,
    }
    schema["allOf"] = [
        {"oneOf": [{"required": [key]} for key in group]} for group in kind.one_of
    ] + [
        {"not": {"required": [first, second]}}
        for group in kind.at_most_one
        for index, first in enumerate(group)
        for second in group[index + 1 :]
    ]
    if not schema["allOf"]:
        del schema["allOf"]
    return schema


def _any_task(kinds: Kinds) -> dict[str, JSON]:
    """The kind decides: an editor then complains about that kind only."""
    return {
        "type": "object",
        "properties": {"kind": {"enum": sorted(kinds)}},
        "required": ["kind"],
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
                "then": {"$ref": f"#/$defs/task_{name}"},
            }
            for name in sorted(kinds)
        ],
    }


def _pipeline() -> dict[str, JSON]:
    labelled = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "not": {"required": ["kind"]},
        "additionalProperties": {"$ref": "#/$defs/task"},
    }
    entry = {
        "if": {"required": ["kind"]},
        "then": {"$ref": "#/$defs/task"},
        "else": labelled,
    }
    return {
        "description": "The pipeline: tasks, in order.",
        "if": {"type": "array"},
        "then": {"items": entry},
        "else": {"type": "object", **entry},
    }
