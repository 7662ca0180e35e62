"""Logs with one thing changed, and logs of any length, for checks of logs."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from noetl.engine.events import Event
from noetl.engine.invariants import audit

Log = list[Event]


def numbered(log: Log) -> Log:
    return [
        replace(event, seq=seq, event_id=f"{event.execution_id}.{seq}")
        for seq, event in enumerate(log, 1)
    ]


def find(log: Log, name: str) -> int:
    return next(at for at, event in enumerate(log) if event.name == name)


def without(log: Log, name: str) -> Log:
    at = find(log, name)
    return numbered([*log[:at], *log[at + 1 :]])


def doubled(log: Log, name: str) -> Log:
    at = find(log, name)
    return numbered([*log[: at + 1], log[at], *log[at + 1 :]])


def swapped(log: Log, name: str) -> Log:
    """The event comes one later than it did."""
    at = find(log, name)
    return numbered([*log[:at], log[at + 1], log[at], *log[at + 2 :]])


def inserted(log: Log, before: str, event: Event) -> Log:
    at = find(log, before)
    return numbered([*log[:at], event, *log[at:]])


def edited(log: Log, name: str, path: str, value: Any) -> Log:
    """Change one member of the payload of the first event of a name."""
    at = find(log, name)
    payload = deepcopy(log[at].payload)
    *outer, last = path.split(".")
    place: Any = payload
    for part in outer:
        place = place[int(part) if part.isdecimal() else part]
    place[int(last) if last.isdecimal() else last] = value
    return [*log[:at], replace(log[at], payload=payload), *log[at + 1 :]]


def names_in(log: Log, playbook: Any = None) -> set[str]:
    return {breach.invariant for breach in audit(log, playbook)}


def messages_in(log: Log, playbook: Any = None) -> list[str]:
    return [breach.message for breach in audit(log, playbook)]


def loop_of(count: int, head: Log, last: Event) -> Iterator[Event]:
    """The log of one sequential loop with so many iterations."""
    begun, started, done, ended = (
        next(each for each in head if each.name == name)
        for name in (
            "loop.iteration.started",
            "task.started",
            "task.done",
            "loop.iteration.done",
        )
    )
    seq = begun.seq
    for index in range(count):
        name = f"sim-1/{index}"
        task = f"{name}:a.1"
        ids = {"iteration_id": name}
        parts = (
            (begun, name, {**ids, "payload": {**begun.payload, "item": index}}),
            (started, task, {**ids, "task_run_id": task}),
            (done, task, {**ids, "task_run_id": task}),
            (ended, name, {**ids, "payload": {"result": None, "size": 99}}),
        )
        for event, entity, changes in parts:
            own = {"event_id": f"sim.{seq}", "seq": seq, "entity_id": entity}
            yield replace(event, **own, **changes)
            seq += 1
    span, size = f"{begun.seq - 1}-{seq - 1}", count * 100
    store = {"store": "noetl", "key": "log:sim-1", "range": span, "size": size}
    sums = {"total": count, "done": count, "failed": 0, "skipped": 0}
    payload = {**sums, "results": {**store, "schema_hint": "list"}}
    yield replace(last, event_id=f"sim.{seq}", seq=seq, payload=payload)
