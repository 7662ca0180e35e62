"""Parser of test files: text in, cases or diagnostics out."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.dsl.diagnostics import Diagnostic, Report
from noetl.dsl.grammar.reader import Reader
from noetl.dsl.grammar.records import Record
from noetl.dsl.load import finished
from noetl.dsl.node import Location, Node, describe
from noetl.dsl.normalize import deep_merge
from noetl.dsl.parse.context import Context
from noetl.dsl.source import read_source
from noetl.dsl.times import parse_duration
from noetl.dsl.tool_kinds import Kinds
from noetl.engine.times import seconds_of
from noetl.testing.grammar import (
    CALLS,
    CASE,
    CODE,
    EXPECT,
    EXPECTED_ERROR,
    EXPECTED_EVENT,
    FILE,
    ITERATIONS,
    NTH_CALL,
    SIGNAL,
)
from noetl.testing.matchers import check_matchers, is_matcher
from noetl.testing.model import Answers, Case, Signal, Suite
from noetl.testing.replies import (
    NO_ANSWERS,
    check_names,
    layered,
    layered_children,
    parse_answers,
    parse_children,
)
from noetl.types import JSON


def parse_expectations(reader: Reader, at: Location) -> dict[str, Location]:
    """Return the expectations by name, each with its location."""
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


def _record(reader: Reader, at: Location, record: Record) -> dict[str, Location]:
    fields = reader.read(at, record)
    for place in fields.values():
        check_matchers(reader, place)
    return fields


def _is_mapping(reader: Reader, at: Location, what: str) -> bool:
    if at.node.is_mapping:
        return True
    message = f"'{what}' of a step must be a mapping, found {describe(at.node)}"
    reader.report.error(CODE, "type", at, message)
    return False


def _event(reader: Reader, at: Location) -> None:
    if at.node.is_mapping:
        _record(reader, at, EXPECTED_EVENT)
    elif not isinstance(at.node.value, str):
        message = f"an event is a name, or {{name: …}}, found {describe(at.node)}"
        reader.report.error(CODE, "type", at, message)


def _calls(reader: Reader, at: Location) -> None:
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


def _duration(reader: Reader, at: Location) -> None:
    """Parse a duration, or bounds that are durations."""
    bounds = list(at.children()) if at.node.is_mapping else [at]
    if at.node.is_mapping:
        for key in at.child_keys():
            if key not in ("$at_least", "$at_most"):
                message = f"'{key}' does not apply to a duration"
                hint = "known: $at_least, $at_most"
                reader.report.error(CODE, "matcher", at.key(key), message, hint)
    for bound in bounds:
        try:
            parse_duration(bound.node.value)
        except ValueError as error:
            hint = "write seconds, or 500ms, 30s, 5m, 2h, 1d"
            reader.report.error(CODE, "duration", bound, str(error), hint)


STARTS_AT = "2026-01-01T00:00:00Z"


class Shared(msgspec.Struct):
    """Values that the file sets for all of its cases."""

    workload: dict[str, JSON]
    keychain: dict[str, JSON]
    answers: Answers
    children: Mapping[str, Answers]
    signals: tuple[Signal, ...]
    schedules: int
    starts_at: float


_DEFAULTS = Shared({}, {}, NO_ANSWERS, {}, (), 1, seconds_of(STARTS_AT))


def parse_suite(text: str | bytes) -> tuple[Suite | None, tuple[Diagnostic, ...]]:
    """Return the cases, or None; one pass reports every finding of the file."""
    report = Report()
    root = read_source(text, report, "test file", "cases:")
    suite = _suite(root, report) if root is not None else None
    found = tuple(finished(each) for each in report)
    failed = any(each.severity == "error" for each in found)
    return (None if failed else suite), found


def _suite(root: Node, report: Report) -> Suite | None:
    at = Location(root)
    if not root.is_mapping:
        message = f"a test file is a mapping, found {describe(root)}"
        report.error("ROOT-01", "root-type", at, message, "start with: cases:")
        return None
    context = Context(Reader(report), Kinds(()))
    fields = context.reader.read(at, FILE)
    shared = _shared(context, fields, _DEFAULTS)
    cases: list[Case] = []
    for entry in fields["cases"].children() if "cases" in fields else ():
        if entry.node.is_mapping:
            case = _case(context, entry, shared)
            if case is not None:
                cases.append(case)
        else:
            message = f"a case must be a mapping, found {describe(entry.node)}"
            report.error(CODE, "type", entry, message, "write - name: …")
    if "cases" in fields and not fields["cases"].node.items:
        message = "'cases' is empty: there is nothing to test"
        report.error(CODE, "cases", fields["cases"], message, "add - name: …")
    _check_unique(report, cases)
    check_names(context)
    return Suite(fields.get("playbook"), tuple(cases))


def _case(context: Context, at: Location, shared: Shared) -> Case | None:
    fields = context.reader.read(at, CASE)
    own = _shared(context, fields, shared)
    expect = fields.get("expect")
    expectations = (
        parse_expectations(context.reader, expect) if expect is not None else {}
    )
    if "name" not in fields:
        return None
    return Case(
        fields["name"].node.value,
        own.workload,
        own.keychain,
        own.answers,
        own.children,
        own.signals,
        own.schedules,
        own.starts_at,
        expectations,
        at=fields["name"],
    )


def _shared(context: Context, fields: dict[str, Location], outer: Shared) -> Shared:
    """Return the keys that file and case have in common; the inner ones win."""
    workload = fields["workload"].node.plain() if "workload" in fields else {}
    keychain = fields["keychain"].node.plain() if "keychain" in fields else {}
    schedules = fields["schedules"].node.value if "schedules" in fields else None
    signals = outer.signals
    if "signals" in fields:
        signals = _signals(context, fields["signals"])
    starts_at = outer.starts_at
    if "starts_at" in fields:
        starts_at = _moment(context, fields["starts_at"])
    return Shared(
        dict(deep_merge(outer.workload, workload)),
        {**outer.keychain, **keychain},
        layered(parse_answers(context, fields.get("tasks")), outer.answers),
        layered_children(
            parse_children(context, fields.get("playbooks")), outer.children
        ),
        signals,
        schedules or outer.schedules,
        starts_at,
    )


def _signals(context: Context, at: Location) -> tuple[Signal, ...]:
    signals: list[Signal] = []
    for entry in at.children():
        if not entry.node.is_mapping:
            message = f"a signal must be a mapping, found {describe(entry.node)}"
            context.report.error(CODE, "type", entry, message, "write - signal: …")
            continue
        fields = context.reader.read(entry, SIGNAL)
        data = fields["data"].node.plain() if "data" in fields else None
        after = _seconds(context, fields["at"]) if "at" in fields else None
        if "signal" in fields:
            name = fields["signal"].node.value
            refused = "refused" in fields and fields["refused"].node.value
            signals.append(Signal(name, data, after, refused, at=entry))
    return tuple(signals)


def _seconds(context: Context, at: Location) -> float:
    try:
        return parse_duration(at.node.value)
    except ValueError as error:
        hint = "write seconds, or 500ms, 30s, 5m, 2h, 1d"
        context.report.error(CODE, "duration", at, str(error), hint)
        return 0.0


def _moment(context: Context, at: Location) -> float:
    try:
        return seconds_of(at.node.value)
    except ValueError:
        message = f"'{at.node.value}' is not a time"
        hint = f"write it as {STARTS_AT}"
        context.report.error(CODE, "moment", at, message, hint)
        return 0.0


def _check_unique(report: Report, cases: list[Case]) -> None:
    seen: dict[str, int] = {}
    for case in cases:
        if case.name in seen:
            message = f"a second case '{case.name}'"
            hint = f"the first one is at line {seen[case.name]}"
            report.error(CODE, "case-name", case.at, message, hint)
        seen.setdefault(case.name, case.at.mark[0])
