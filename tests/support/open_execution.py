"""An open execution with all kinds of rows, made by an orchestrator without workers."""

from __future__ import annotations

from typing import Any

from memory_blobs import MemoryBlobs

from noetl.adapters.secrets.execution_secrets import MemorySealed
from noetl.adapters.tools import BUILTIN
from noetl.dsl.load import load
from noetl.engine.decide import Request
from noetl.engine.reports.accept import Fact
from noetl.engine.steps.concurrency import Concurrency
from noetl.runtime.event_loop import SystemClock
from noetl.runtime.keychain import Keyring
from noetl.runtime.make_orchestrator import make_orchestrator
from noetl.runtime.values.stores import Results

# One pipeline waits for an hour, one is leased, one is ready; a deadline runs.
FLOW = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: tests/t}
workflow:
- step: start
  tool: [{a: {kind: noop}}]
  next: {spec: {mode: inclusive}, arcs: [{step: leased}, {step: ready}, {step: waits}]}
- {step: leased, spec: {deadline: 3600}, tool: {kind: noop}}
- {step: ready, tool: {kind: noop}}
- {step: waits, tool: {kind: wait, for: 1h}}
"""
NAME = "0198-open"
DONE = {
    "outcome": {"status": "ok", "result": 1, "error": None, "meta": {}},
    "directive": {"do": "continue", "rule": None, "next": None},
}


class Catalog:
    """Only the playbook of this test."""

    def __init__(self, playbook: Any) -> None:
        self._playbook = playbook

    async def pinned(self, about: Any) -> Any:
        return self._playbook


async def start(
    store: Any, blobs: MemoryBlobs, name: str, request_key: str | None = ""
) -> Any:
    """Start an execution with a large input, and a slot of a concurrency key."""
    loaded = load(FLOW.encode(), BUILTIN)
    playbook = loaded.playbook
    assert playbook is not None, loaded.diagnostics
    keys = Keyring({}, MemorySealed())
    orchestrator = make_orchestrator(
        store, Results(blobs), Catalog(playbook), SystemClock(), keys
    )
    request = Request(
        name,
        {"name": "t", "source": await blobs.put(FLOW.encode())},
        {"large": "x" * 100_000},
        concurrency=Concurrency("k", 1, "queue", name),
        request_key=f"key of {name}" if request_key == "" else request_key,
    )
    await orchestrator.start(playbook, request)
    return orchestrator


async def advance(orchestrator: Any) -> None:
    """End the first step; then one worker waits, and one has a lease."""
    assign = orchestrator.assignment
    [first] = await assign.claim("w", 1)
    facts = [Fact("step.started"), Fact("task.started", "a", 1)]
    await assign.report(first.lease, [*facts, Fact("task.done", "a", 1, DONE)])
    found = {item.frame.step: item for item in await assign.claim("w", 2)}
    waits = found.get("waits") or (await assign.claim("w", 1, waits=True))[0]
    label = waits.progress.label
    started = [Fact("step.started"), Fact("task.started", label, 1)]
    wait = Fact("task.suspended", label, 1, {"on": "timer", "seconds": 3600})
    await assign.report(waits.lease, [*started, wait])
    left = [item for step, item in found.items() if step != "waits"]
    await assign.release([item.lease for item in left if item.frame.step == "ready"])
    await orchestrator.sweep()
    if not any(item.frame.step == "leased" for item in left):
        await assign.claim("w", 1)
