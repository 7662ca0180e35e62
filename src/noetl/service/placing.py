"""Of which concurrency key a request needs a place, if of any."""

from __future__ import annotations

from noetl.engine.concurrency import Concurrency
from noetl.ports import CatalogEntry
from noetl.triggers.inputs import TriggerError, render_place
from noetl.types import JSON

_PATH = "executor.spec.concurrency"


def concurrency_of(
    entry: CatalogEntry, asked: Concurrency | None, workload: dict[str, JSON]
) -> Concurrency | None:
    """What its author says, or else whoever asks. Raises ``TriggerError``.

    A key is of one playbook: whoever may run that has to do with its places.
    """
    spec = (entry.playbook.executor.get("spec") or {}) if entry.playbook else {}
    declared = spec.get("concurrency")
    if declared is not None and asked is not None:
        message = "the playbook says itself how many of its executions may be under way"
        raise TriggerError(_PATH, message, "leave concurrency out of the request")
    of = entry.about.get("path") or f"text:{entry.about.get('name')}"
    if declared is None:
        return asked and Concurrency(asked.key, asked.limit, asked.on_limit, of)
    key = render_place(str(declared["key"]), {"workload": workload}, f"{_PATH}.key")
    limit, on_limit = declared.get("limit", 1), declared.get("on_limit", "queue")
    return Concurrency(key, limit, on_limit, of)
