"""Inputs of a playbook: defaults, the check against their schema, and warnings (S-72).

``metadata.inputs`` is a JSON Schema of the workload. No message contains a value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import chain, islice

from noetl.dsl.diagnostics import did_you_mean, nearest
from noetl.dsl.json_schema import find_problems
from noetl.dsl.model import Playbook
from noetl.dsl.node import shorten
from noetl.dsl.normalize import deep_merge
from noetl.dsl.schema_words import type_words
from noetl.templates import compile_value, is_template
from noetl.types import JSON

MAX_WARNINGS = 20
MAX_COMPARED = 100
"""Unknown inputs that are compared with the known ones: comparing is slow."""
MASK = "***"
Schema = Mapping[str, JSON]
Warned = tuple[str, str]
"""Name of an input, and the message about it."""


def schema_of(playbook: Playbook) -> Schema | None:
    """Return ``metadata.inputs``, or None if the playbook declares none."""
    schema = playbook.metadata.get("inputs")
    return schema if isinstance(schema, dict) else None


def declared_inputs(playbook: Playbook) -> Mapping[str, Schema]:
    """Return the schema of each declared input by name."""
    properties = (schema_of(playbook) or {}).get("properties")
    if not isinstance(properties, dict):
        return {}
    return {
        name: each if isinstance(each, dict) else {}
        for name, each in properties.items()
    }


def secret_inputs(playbook: Playbook) -> frozenset[str]:
    """Return the inputs that are marked with ``secret: true``."""
    declared = declared_inputs(playbook).items()
    return frozenset(name for name, each in declared if each.get("secret") is True)


def hide_secret_inputs(
    playbook: Playbook, workload: Mapping[str, JSON]
) -> dict[str, JSON]:
    """Return the workload with a mask for each secret input."""
    secret = secret_inputs(playbook)
    if not secret:
        return dict(workload)  # it may be large
    return {key: MASK if key in secret else each for key, each in workload.items()}


def without_secret_marks(schema: Schema) -> dict[str, JSON]:
    """Return the schema without ``secret``, which JSON Schema does not have, in the
    inputs themselves; in any other place it is not understood."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return dict(schema)
    plain = {
        name: {key: value for key, value in each.items() if key != "secret"}
        if isinstance(each, dict)
        else each
        for name, each in properties.items()
    }
    return {**schema, "properties": plain}


def merge_inputs(playbook: Playbook, given: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the effective workload (WRK-01): a request wins over ``workload``, which
    wins over the defaults of the schema."""
    declared = declared_inputs(playbook).items()
    defaults = {name: each["default"] for name, each in declared if "default" in each}
    return dict(deep_merge({**defaults, **playbook.workload}, given))


def check_inputs(
    playbook: Playbook, workload: dict[str, JSON]
) -> dict[str, JSON] | None:
    """Return the error of a workload that does not fit the schema, or None."""
    schema = schema_of(playbook)
    return _check(schema, workload) if schema is not None else None


def _check(schema: Schema, workload: dict[str, JSON]) -> dict[str, JSON] | None:
    problems = find_problems(schema, workload)
    if not problems:
        return None
    return {
        "kind": "inputs.invalid",
        "message": f"the inputs do not fit the playbook: {'; '.join(problems)}",
        "step": None,
        "task": None,
        "problems": problems,
    }


def check_templates_of(
    playbook: Playbook, workload: Mapping[str, JSON]
) -> dict[str, JSON] | None:
    """Check inputs of which some are templates: these fit until they are rendered."""
    schema = schema_of(playbook)
    if schema is None:
        return None
    properties: dict[str, JSON] = dict(declared_inputs(playbook))
    for name, value in workload.items():
        if not compile_value(value).literal:
            properties[name] = True
    whole = merge_inputs(playbook, workload)
    return _check({**schema, "properties": properties}, whole)


def warnings_of(playbook: Playbook, workload: Mapping[str, JSON]) -> tuple[str, ...]:
    """Return messages about accepted inputs, at most ``MAX_WARNINGS``."""
    return tuple(message for _, message in find_warnings(playbook, workload))


def find_warnings(playbook: Playbook, workload: Mapping[str, JSON]) -> Iterator[Warned]:
    """Yield accepted inputs that are probably wrong, at most ``MAX_WARNINGS``."""
    found = chain(
        find_unknown_inputs(playbook, workload),
        find_mistyped_inputs(playbook, workload),
    )
    return islice(found, MAX_WARNINGS)


def find_unknown_inputs(
    playbook: Playbook, workload: Mapping[str, JSON]
) -> Iterator[Warned]:
    """Yield inputs that the playbook does not name.

    A playbook with a schema names all its inputs. Without one, new names are allowed,
    and only a name that resembles a known one is reported.
    """
    schema, known = schema_of(playbook), {*playbook.workload}
    if schema is not None and {"additionalProperties", "patternProperties"} & {*schema}:
        return  # the schema decides
    known |= declared_inputs(playbook).keys()
    unknown = (name for name in workload if name not in known)
    for name in islice(unknown, MAX_COMPARED):
        shown, match = shorten(name), nearest(name, known)
        if schema is not None:
            hint = did_you_mean(name, known)
            more = f"; {hint}" if hint else ""
            yield name, f"the playbook declares no input '{shown}'{more}"
        elif match is not None:
            yield name, f"workload has no '{shown}', but it has '{match}'"


def find_mistyped_inputs(
    playbook: Playbook, workload: Mapping[str, JSON]
) -> Iterator[Warned]:
    """Yield inputs whose type is not that of their default.

    A schema states the types; only without one are they inferred.
    """
    if schema_of(playbook) is not None:
        return
    pending: deque[tuple[str, JSON, JSON]] = deque(
        (name, default, workload.get(name))
        for name, default in playbook.workload.items()
    )
    while pending:
        path, default, value = pending.popleft()
        if isinstance(default, dict) and isinstance(value, dict):
            pending += [
                (f"{path}.{key}", each, value.get(key)) for key, each in default.items()
            ]
        elif not _may_replace(default, value):
            expected, found = type_words(default), type_words(value)
            shown = shorten(path)
            yield path, f"'{shown}' is {expected} by default, found {found}"


def _may_replace(default: JSON, value: JSON) -> bool:
    """Return whether a value has the type of a default; null and secrets fit always,
    as does a template that has no value yet."""
    if default is None or value is None:
        return True
    if isinstance(value, dict) and value.keys() == {"secret"}:
        return True
    if isinstance(value, str) and is_template(value):
        return True
    return _family(default) == _family(value)


def _family(value: JSON) -> type:
    """Return the type; whole numbers and others are one."""
    return float if type(value) is int else type(value)
