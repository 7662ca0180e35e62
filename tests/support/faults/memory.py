"""A scenario in which a tool takes all memory of its worker, or of its process."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from plugin_host import Host
from servers import Api, playbook

from faults.clients import Clients
from faults.cluster import HUNG, Cluster
from faults.ordeal import Scenario
from faults.parts import Part

GROUPS = Path("/sys/fs/cgroup/memory")
LIMIT = 320 << 20
"""Bytes of a worker; it needs a third of that."""
OWNERS = 5
"""Workers that a call may take along (I-20)."""
HOG = """
import asyncio, os, signal
from noetl.plugins import Kind, Outcome, ToolPlugin

class Hog:
    instant = False
    def has_effect(self, call): return True
    async def run(self, call):
        kept = []
        try:
            while True:  # the kernel ends this worker
                kept.append(bytearray(os.urandom(1)) * (8 << 20))
                await asyncio.sleep(0.005)
        except MemoryError:  # of a limited address space: the same, without the kernel
            os.kill(os.getpid(), signal.SIGKILL)
        return Outcome.ok(None)
    async def close(self): pass

PLUGIN = ToolPlugin(
    api=1, make=Hog, kind=Kind(name="hog", doc="D.", inputs={}, result="R.")
)
"""
KILLS = playbook("kills", "- {step: start, tool: {kind: hog}}")
GREEDY = playbook(
    "greedy",
    """
    - step: start
      tool:
        kind: python
        code: "def main(): return len(bytearray(1 << 30))"
        spec: {memory: 128MiB, timeout: 20s}
    """,
)


def why_no_groups() -> str | None:
    """Return why the kernel cannot be asked to limit the memory of a worker."""
    if not (GROUPS / "memory.limit_in_bytes").exists():
        return "no memory groups of version 1 are mounted"
    if not os.access(GROUPS, os.W_OK):
        return "memory groups need root"
    return None


class NarrowCluster(Cluster):
    """A cluster whose workers have little memory each, and the tool kind ``hog``."""

    def __init__(self, folder: Path, servers: int, workers: int) -> None:
        self.groups = why_no_groups() is None
        folder.mkdir(parents=True, exist_ok=True)
        self._host = Host(folder)
        self._host.package("noetl-hog", HOG, tools="hog = noetl_hog:PLUGIN")
        super().__init__(folder, servers, workers, nats=True)

    def environ_of(self, name: str) -> dict[str, str]:
        site = str(self._host.site)
        known = {"NOETL_PLUGINS": "noetl-hog", "PYTHONPATH": site}
        return {**super().environ_of(name), **known}

    def command_of(self, name: str) -> list[str]:
        command = super().command_of(name)
        if name.startswith("server"):
            return command
        if not self.groups:
            return ["prlimit", f"--as={4 * LIMIT}", *command]
        group = self._group_of(name)
        group.mkdir(exist_ok=True)
        (group / "memory.limit_in_bytes").write_text(str(LIMIT))
        join = f'echo $$ > {group}/cgroup.procs; exec "$@"'
        return ["sh", "-c", join, "sh", *command]

    def _group_of(self, name: str) -> Path:
        return GROUPS / f"noetl-faults-{os.getpid()}-{name}"

    def close(self) -> None:
        super().close()
        if self.groups:
            for name in self.workers:
                self._group_of(name).rmdir()


class OutOfMemory(Scenario):
    """A tool kills each worker that runs it, until it is not offered any more; other
    executions on these workers go on. Code with a limit of its own harms none."""

    name: ClassVar[str] = "out of memory"
    at_least: ClassVar[int] = 2
    required: ClassVar[frozenset[str]] = frozenset({"poisonous call", "greedy code"})

    def __init__(self) -> None:
        self._turn = 0
        self._wrong: list[str] = []
        self._lost = 0

    def open(self, folder: Path) -> Cluster:
        return NarrowCluster(folder, 2, 3)

    def limits(self) -> list[str]:
        why = why_no_groups()
        return [] if why is None else [f"limits of the address space instead: {why}"]

    def allows(self, ended: str) -> bool:
        is_killed = ended.startswith("worker") and ended.partition(": ")[2][:2] == "-9"
        self._lost += is_killed
        return is_killed

    async def strike(self, cluster: Cluster, dice: random.Random) -> str:
        self._turn += 1
        api = Api(cluster.urls[0], cluster.token)
        if self._turn % 3 == 1:
            await self._try(cluster, api, GREEDY, "tool.memory", 0)
            return "greedy code"
        await self._try(cluster, api, KILLS, "worker.lost", OWNERS)
        return "poisonous call"

    async def _try(
        self, cluster: Cluster, api: Api, text: str, kind: str, lost: int
    ) -> None:
        """Run a playbook; it fails with this kind, after it has cost these workers."""
        known = self._lost
        name = await asyncio.to_thread(api.start, text)
        deadline = time.monotonic() + HUNG
        document: dict[str, Any] = {}
        while time.monotonic() < deadline:
            document = (
                await asyncio.to_thread(api.get, f"/api/executions/{name}")
            ).body
            if document["status"] != "running":
                break
            self.supervise()
            await asyncio.sleep(0.1)
        error = document.get("error") or {}
        if (document["status"], error.get("kind")) != ("failed", kind):
            self._wrong.append(f"{name} is {document['status']}: {error}, not {kind}")
        self.supervise()
        if self._lost - known != lost:
            count = self._lost - known
            self._wrong.append(f"{name} took {count} workers along, not {lost}")

    def inspect(self, part: Part, clients: Clients) -> Iterable[str]:
        yield from self._wrong
        part.figures["workers lost"] = self._lost
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        part.figures["largest process (MB)"] = round(peak)
