"""JSON Schema of the grammar, for editors; built from the records of the checker."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from noetl.dsl.grammar.document import (
    API_VERSION,
    CONCURRENCY,
    EXECUTOR,
    EXECUTOR_SPEC,
    INPUTS,
    KEYCHAIN_ENTRY,
    LIMITS,
    METADATA,
    RESULT,
    RESULT_STORE,
    ROOT,
)
from noetl.dsl.grammar.records import GUARD, Field, Record, Shape
from noetl.dsl.grammar.steps import (
    ADMIT,
    ADMIT_ELSE,
    ADMIT_RULE,
    ADMIT_THEN,
    ARC,
    JOIN,
    LOOP,
    LOOP_POLICY,
    LOOP_SPEC,
    NEXT_SPEC,
    ROUTER,
    STEP,
    STEP_POLICY,
    STEP_SPEC,
)
from noetl.dsl.grammar.tasks import (
    CALL_SLOTS,
    ELSE,
    RATE_LIMIT,
    RULE,
    TASK_POLICY,
    TASK_SPEC,
    THEN,
)
from noetl.dsl.tool_kinds import Input, Kind
from noetl.types import JSON

RECORDS: tuple[Record, ...] = (
    ROOT,
    METADATA,
    INPUTS,
    KEYCHAIN_ENTRY,
    EXECUTOR,
    EXECUTOR_SPEC,
    CONCURRENCY,
    LIMITS,
    RESULT,
    RESULT_STORE,
    STEP,
    STEP_SPEC,
    STEP_POLICY,
    JOIN,
    ADMIT,
    ADMIT_RULE,
    ADMIT_THEN,
    ADMIT_ELSE,
    LOOP,
    LOOP_SPEC,
    LOOP_POLICY,
    TASK_SPEC,
    RATE_LIMIT,
    CALL_SLOTS,
    TASK_POLICY,
    RULE,
    ELSE,
    THEN,
    ROUTER,
    NEXT_SPEC,
    ARC,
)


_TYPES = {
    "text": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "mapping": "object",
    "list": "array",
    "null": "null",
}
_TEMPLATE = {"type": "string", "pattern": r"\{[{%#]"}


def playbook_schema(kinds: Mapping[str, Kind]) -> dict[str, JSON]:
    """Return a self-contained JSON Schema, draft 2020-12."""
    definitions = {record.name: _record(record) for record in RECORDS}
    definitions |= {f"task_{kind.name}": _task(kind) for kind in kinds.values()}
    definitions["task"] = _any_task(kinds, "task")
    # A workbook template may leave inputs to the tasks that use it.
    runnable = {name: kind for name, kind in kinds.items() if name != "workbook"}
    definitions |= {
        f"template_{kind.name}": _task(kind, whole=False) for kind in runnable.values()
    }
    definitions["template"] = _any_task(runnable, "template")
    definitions |= {f"knobs_{kind.name}": _knobs(kind) for kind in kinds.values()}
    for scope in ("executor_spec", "step_spec", "loop_spec"):
        keys = definitions[scope]["properties"]
        for name in kinds:
            keys.setdefault(name, {"$ref": f"#/$defs/knobs_{name}"})
    definitions["step"]["dependentRequired"] = {"loop": ["tool"]}
    definitions["pipeline"] = _pipeline()
    definitions["step"]["properties"]["tool"] = {"$ref": "#/$defs/pipeline"}
    definitions["loop"]["required"] = ["in", "iterator"]
    definitions["router"]["properties"]["arcs"]["minItems"] = 1
    definitions["playbook"]["properties"]["workflow"]["minItems"] = 1
    definitions["playbook"]["properties"]["workbook"] = {
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/template"},
    }
    for rule in ("rule", "admit_rule"):
        definitions[rule]["oneOf"] = [
            {"required": ["when", "then"]},
            {"required": ["else"], "properties": {"then": False}},
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
    if record.unknown != "error":  # there an older key would pass for a new one
        schema["properties"] |= {
            key: {"not": {}, "description": retired.replacement}
            for key, retired in record.retired.items()
            if retired.code != "S-52"  # reported as a warning
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
        record: dict[str, JSON] = {"$ref": f"#/$defs/{shape.record}"}
        others = [_TYPES[name] for name in shape.types if name != "mapping"]
        return (
            {"anyOf": [*({"type": each} for each in others), record]}
            if others
            else record
        )
    schema: dict[str, JSON] = {}
    if shape.types:
        names = [_TYPES[name] for name in shape.types]
        schema["type"] = names[0] if len(names) == 1 else names
    if shape is GUARD:
        schema["pattern"] = _TEMPLATE["pattern"]
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
    """Return the schema of an input: the declared shape, or a template."""
    schema = _shape(declared.shape)
    if (
        not declared.literal and schema and "text" not in declared.shape.types
    ) or declared.shape.choices:
        schema = {"anyOf": [schema, _TEMPLATE]}
    return {"description": declared.doc, **schema}


def _knobs(kind: Kind) -> dict[str, JSON]:
    knobs = {key: _field(each) for key, each in TASK_SPEC.fields.items()}
    knobs |= {
        key: {"description": each.doc, "anyOf": [_shape(each.shape), _TEMPLATE]}
        for key, each in kind.knobs.items()
    }
    return {"type": "object", "properties": knobs}


def _task(kind: Kind, *, whole: bool = True) -> dict[str, JSON]:
    properties: dict[str, JSON] = {
        "kind": {"const": kind.name, "description": kind.doc},
        "spec": {"$ref": f"#/$defs/knobs_{kind.name}"},
        "name": {"description": "The task's label."},
    }
    properties |= {key: _input(each) for key, each in kind.inputs.items()}
    schema: dict[str, JSON] = {
        "type": "object",
        "description": kind.doc,
        "properties": properties,
        "required": ["kind"],
        "additionalProperties": kind.any_input,
    }
    groups = kind.at_most_one
    demands: list[JSON] = []
    if whole:
        schema["required"] += [k for k, each in kind.inputs.items() if each.required]
        demands = [
            {"oneOf": [{"required": [key]} for key in group]} for group in kind.one_of
        ]
    else:
        groups += kind.one_of
    demands += [
        {"not": {"required": list(pair)}}
        for group in groups
        for pair in combinations(group, 2)
    ]
    if demands:
        schema["allOf"] = demands
    return schema


def _any_task(kinds: Mapping[str, Kind], prefix: str) -> dict[str, JSON]:
    """Return a schema that branches on the kind, so an editor reports one kind only."""
    return {
        "type": "object",
        "properties": {"kind": {"enum": sorted(kinds)}},
        "required": ["kind"],
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
                "then": {"$ref": f"#/$defs/{prefix}_{name}"},
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
