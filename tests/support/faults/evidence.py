"""What is compared after a campaign: logs, histories of clients, ``noetl verify``."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from faults.history import Fact, Logs, Operation, check, check_timers
from faults.parts import Part
from noetl.engine.events import Event

OF_CLIENTS = "client"
"""The beginning of the keys of clients."""


def compare(history: Sequence[Operation], logs: Logs) -> list[str]:
    """Return what is wrong with the logs, and with the history of clients."""
    theirs = {
        name: log
        for name, log in logs.items()
        if (log[0].key or "").startswith(OF_CLIENTS)
    }
    return [*check(history, theirs), *check_timers(logs)]


def facts_of(events: Iterable[Event]) -> list[Fact]:
    """Return what concerns clients of a log."""
    return [_fact_of(event) for event in events]


def _fact_of(event: Event) -> Fact:
    payload, key, status, until = event.payload, None, None, None
    match event.name:
        case "playbook.execution.requested":
            key = payload.get("caller", {}).get("idempotency_key")
        case "message.received":
            key = payload.get("data")
        case "playbook.processed":
            status = payload["status"]
        case "task.suspended":
            until = payload["until"]
        case "task.resumed" if "message" in payload:
            key = str(payload["message"])
    return Fact(
        name=event.name,
        key=key,
        status=status,
        until=until,
        at=event.timestamp,
        of=event.task_run_id,
    )


def add_operations(part: Part, logs: Logs, history: Sequence[Operation]) -> None:
    """Add the figures of clients to a part."""
    answered = Counter(each.outcome for each in history)
    part.figures |= {
        "executions": len(logs),
        "events": sum(map(len, logs.values())),
        "operations": len(history),
        "unknown answers": answered["info"],
    }


def verify_all(environ: Mapping[str, str]) -> list[str]:
    """Return what ``noetl verify --execution all`` complains about."""
    done = subprocess.run(
        [sys.executable, "-m", "noetl", "verify", "--execution", "all"],
        env={**environ, "LD_PRELOAD": ""},
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        return []
    said = (done.stdout + done.stderr).strip().split("\n")
    return [f"noetl verify ends with {done.returncode}: {line}" for line in said]
