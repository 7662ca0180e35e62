"""Which results the log of an execution names, and where."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.engine.events import Event
from noetl.engine.references import places_in
from noetl.types import JSON

LOG = "log:"


class Named(msgspec.Struct, frozen=True):
    """A reference, and the place in the event that has it."""

    reference: dict[str, JSON]
    path: str
    event: Event

    @property
    def key(self) -> str:
        return str(self.reference["key"])


def named_in(event: Event) -> Iterator[Named]:
    for path, reference in places_in(event.payload):
        yield Named(reference, path, event)


def keys_in(event: Event) -> Iterator[str]:
    """All keys that must stay while the event does: also the playbook's own text."""
    for named in named_in(event):
        yield named.key
        yield from named.reference.get("refs", ())
    playbook = event.payload.get("playbook")
    if isinstance(playbook, dict) and isinstance(playbook.get("source"), str):
        yield playbook["source"]


def execution_of(key: str) -> str:
    """Whose log holds the values of a ``log:`` key."""
    return key.removeprefix(LOG).split("/")[0].rpartition("-")[0]


def line_of(named: Named) -> dict[str, JSON]:
    """As listings have it."""
    event, reference = named.event, named.reference
    return {
        "key": named.key,
        "size": reference["size"],
        "checksum": reference.get("checksum"),
        "schema_hint": reference.get("schema_hint"),
        "seq": event.seq,
        "event": event.name,
        "step": event.step,
        "task": event.task_label,
        "iteration_id": event.iteration_id,
        "path": named.path,
    }
