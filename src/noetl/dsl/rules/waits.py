"""Checks of what tasks wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from noetl.dsl.durations import parse_duration
from noetl.dsl.model import Task
from noetl.dsl.node import shorten
from noetl.dsl.parse import Draft
from noetl.dsl.place import Place
from noetl.dsl.rules.registry import Found, rule
from noetl.dsl.schemas import find_flaws
from noetl.dsl.zones import find_zone, parse_time
from noetl.types import JSON

NEEDS: Mapping[str, str] = {
    "zone": "at",
    "timeout": "signal",
    "schema": "signal",
    "roles": "signal",
}


@rule("wait-time", "S-68")
def times_are_times(draft: Draft) -> Iterator[Found]:
    """`for` and `timeout` are durations, `until` a moment, `at` a time of day and
    `zone` a time zone, where they are written out."""
    for task in _waits(draft):
        for name, check in _TIMES.items():
            value = task.inputs.get(name)
            if value is None or not value.literal:
                continue
            try:
                check(value.render({}))
            except (ValueError, OverflowError) as error:
                yield _place(task, name), f"'{name}': {error}", _HINTS.get(name)


@rule("wait-schema", "S-54")
def forms_are_schemas(draft: Draft) -> Iterator[Found]:
    """The `schema` of a signal is JSON Schema, as far as it is understood."""
    for task in _waits(draft):
        value = task.inputs.get("schema")
        schema = value.render({}) if value is not None and value.literal else None
        if isinstance(schema, dict):
            for flaw in find_flaws(schema):
                yield _place(task, "schema"), f"'schema': {flaw}", None


@rule("wait-inputs", "S-50")
def inputs_go_together(draft: Draft) -> Iterator[Found]:
    """`zone` goes with `at`; `timeout`, `schema` and `roles` with `signal`."""
    for task in _waits(draft):
        for name, needed in NEEDS.items():
            if name in task.inputs and needed not in task.inputs:
                message = f"'{name}' has no effect without '{needed}'"
                yield _place(task, name), message, f"add {needed}: …, or remove it"


def _waits(draft: Draft) -> Iterator[Task]:
    for step in draft.playbook.workflow:
        yield from (task for task in step.tasks if task.kind == "wait")


def _place(task: Task, name: str) -> Place:
    """Where it stands; of a template in the workbook, where that is used."""
    return task.at.get(name) or task.at


def _moment(value: JSON) -> None:
    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"'{shorten(str(value), 40)}' is not a moment") from None


_TIMES: Mapping[str, Callable[[JSON], object]] = {
    "for": parse_duration,
    "timeout": parse_duration,
    "until": _moment,
    "at": lambda value: parse_time(str(value)),
    "zone": lambda value: find_zone(str(value)),
}
_HINTS = {
    "for": "write 30s, 5m, 2h or 1d",
    "timeout": "write 30s, 5m, 2h or 1d",
    "until": 'write "2026-12-24T18:00:00Z"; a time of day goes into at: "09:00"',
}
