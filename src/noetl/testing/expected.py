"""``expect`` of a case: its keys and matchers are checked before anything runs."""

from __future__ import annotations

from noetl.dsl.durations import parse_duration
from noetl.dsl.grammar.reader import Reader
from noetl.dsl.grammar.shape import Record
from noetl.dsl.node import describe
from noetl.dsl.place import Place
from noetl.testing.grammar import (
    CALLS,
    CODE,
    EXPECT,
    EXPECTED_ERROR,
    EXPECTED_EVENT,
    ITERATIONS,
    NTH_CALL,
)
from noetl.testing.matchers import check_matchers, is_matcher


def parse_expectations(reader: Reader, at: Place) -> dict[str, Place]:
    """The expectations by name, each where it stands."""
    fields = reader.read(at, EXPECT)
    for key, place in fields.items():
        match key:
            case "result" | "ctx" | "path":
                check_matchers(reader, place)
            case "error" if place.node.is_mapping:
                _record(reader, place, EXPECTED_ERROR)
            case "calls":
                _calls(reader, place)
            case "iterations":
                for step in place.children():
                    if _is_mapping(reader, step, "iterations"):
                        _record(reader, step, ITERATIONS)
            case "events":
                for event in place.children():
                    _event(reader, event)
            case "duration":
                _duration(reader, place)
            case _:
                pass
    return fields


def _record(reader: Reader, at: Place, record: Record) -> dict[str, Place]:
    fields = reader.read(at, record)
    for place in fields.values():
        check_matchers(reader, place)
    return fields


def _is_mapping(reader: Reader, at: Place, what: str) -> bool:
    if at.node.is_mapping:
        return True
    message = f"'{what}' of a step must be a mapping, found {describe(at.node)}"
    reader.report.error(CODE, "type", at, message)
    return False


def _event(reader: Reader, at: Place) -> None:
    if at.node.is_mapping:
        _record(reader, at, EXPECTED_EVENT)
    elif not isinstance(at.node.value, str):
        message = f"an event is a name, or {{name: …}}, found {describe(at.node)}"
        reader.report.error(CODE, "type", at, message)


def _calls(reader: Reader, at: Place) -> None:
    for task in at.children():
        if is_matcher(task):
            check_matchers(reader, task)
        elif task.node.is_mapping:
            fields = reader.read(task, CALLS)
            for key in ("count", "inputs"):
                if key in fields:
                    check_matchers(reader, fields[key])
            for each in fields["nth"].children() if "nth" in fields else ():
                if _is_mapping(reader, each, "nth"):
                    check_matchers(
                        reader, reader.read(each, NTH_CALL).get("inputs", each)
                    )
        elif type(task.node.value) is not int:
            message = "calls of a task are a number, a matcher, or {count, inputs, nth}"
            reader.report.error(
                CODE, "type", task, f"{message}, found {describe(task.node)}"
            )


def _duration(reader: Reader, at: Place) -> None:
    """A duration, or bounds that are durations."""
    bounds = list(at.children()) if at.node.is_mapping else [at]
    if at.node.is_mapping:
        for key in at.child_keys():
            if key not in ("$at_least", "$at_most"):
                message = f"'{key}' says nothing about a duration"
                hint = "known: $at_least, $at_most"
                reader.report.error(CODE, "matcher", at.key(key), message, hint)
    for bound in bounds:
        try:
            parse_duration(bound.node.value)
        except ValueError as error:
            hint = "write seconds, or 500ms, 30s, 5m, 2h, 1d"
            reader.report.error(CODE, "duration", bound, str(error), hint)
