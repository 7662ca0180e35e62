"""Campaigns in which the disk of the store is full for a while, again and again."""

from __future__ import annotations

import asyncio
import base64
import os
import random
import subprocess
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import asyncpg
from servers import HELLO, Api

from faults.campaign import LOOP
from faults.clients import Clients
from faults.cluster import POSTGRES, Cluster
from faults.ordeal import Scenario
from faults.parts import Part

SIZE = 224 << 20
BULK = 40_000
"""Bytes of a request that finds no place in what is already allocated for long."""
PROBES = 200
HOLD_S = 3.0


class SmallDisk:
    """A file system of its own that can be filled to the last byte."""

    def __init__(self, folder: Path, size: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ballast = folder / "ballast"
        options = f"size={size},mode=0755"
        command = ["mount", "-t", "tmpfs", "-o", options, "noetl-faults", str(folder)]
        subprocess.run(command, check=True)

    def fill(self) -> None:
        """Take what is left, and what others gave back since the last call."""
        with self._ballast.open("ab", buffering=0) as file:
            for piece in (1 << 20, 4096):
                try:
                    while True:
                        file.write(bytes(piece))
                except OSError:
                    continue

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self._folder)], check=True)


def why_no_disk() -> str | None:
    """Return why no file system can be mounted here."""
    if os.geteuid() != 0:
        return "mounting a small file system needs root"
    done = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "noetl-faults", "/mnt"],
        capture_output=True,
        text=True,
    )
    return done.stderr.strip() or None if done.returncode else None


class SmallCluster(Cluster):
    """A cluster whose PostgreSQL has a small disk, and a small log of its own on it."""

    def __init__(self, folder: Path, servers: int, workers: int) -> None:
        self._stack = ExitStack()
        self.disk = SmallDisk(folder / "postgres", SIZE)
        self._stack.callback(self.disk.close)
        try:
            super().__init__(folder, servers, workers, nats=True)
        except BaseException:
            self._stack.close()
            raise

    def _open_services(self) -> str:
        bus = super()._open_services()
        asyncio.run(self._shrink())
        return bus

    async def _shrink(self) -> None:
        connection = await asyncpg.connect(self.database)
        for name in ("max_wal_size", "min_wal_size"):
            await connection.execute(f"ALTER SYSTEM SET {name} = '48MB'")
        await connection.execute("SELECT pg_reload_conf()")
        await connection.close()

    def supervise(self) -> None:
        super().supervise()
        if self._postgres.find() is None:
            self.start(POSTGRES)

    def close(self) -> None:
        self.disk.free()
        super().close()
        self._stack.close()


class Refusals:
    """What requests that need room are told while there is none."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.kinds: dict[str, int] = {}
        self.accepted = 0
        self._number = 0

    def probe(self, api: Api, dice: random.Random, seconds: float) -> None:
        """Send requests until one is refused, and then for this time.

        From the first refusal on, none is accepted until there is room again.
        """
        refused_at = None
        for _ in range(PROBES):
            status, kind = self._ask(api, dice)
            if status == 201 and refused_at is None:
                continue  # it has found place in a file, and is stored
            if status == 201:
                self.accepted += 1
            if refused_at is None:
                refused_at = time.monotonic()
            if status not in (201, 503):
                self.wrong.append(f"a full disk was answered with {status} {kind}")
            if status == 503:
                self.kinds[kind] = self.kinds.get(kind, 0) + 1
            if time.monotonic() > refused_at + seconds:
                return
            time.sleep(0.1)
        if refused_at is None:
            self.wrong.append(f"none of {PROBES} requests has met the full disk")

    def _ask(self, api: Api, dice: random.Random) -> tuple[int, str]:
        noise = base64.b64encode(dice.randbytes(BULK * 3 // 4)).decode()
        self._number += 1
        body = {
            "playbook": HELLO,
            "workload": {"noise": noise},
            "idempotency_key": f"probe-{os.getpid()}-{self._number}",
        }
        try:
            answer = api.post("/api/executions", body)
        except OSError as error:
            return 503, type(error).__name__
        told: Any = answer.body if isinstance(answer.body, dict) else {}
        return answer.status, str(told.get("store") or told.get("kind"))


class FullDatabase(Scenario):
    """The disk of PostgreSQL is full: nothing new is accepted, nothing stored is lost,
    and work goes on by itself once there is room."""

    name: ClassVar[str] = "full disk of PostgreSQL"
    required: ClassVar[frozenset[str]] = frozenset({"refused store.full"})

    loop: ClassVar[str] = LOOP.replace(
        "{{ outcome.error.retryable }}", "{{ outcome.status == 'error' }}"
    )  # an insert into a full table is repeated, too

    def __init__(self) -> None:
        self._refusals = Refusals()

    def open(self, folder: Path) -> Cluster:
        return SmallCluster(folder, 2, 3)

    async def strike(self, cluster: Cluster, dice: random.Random) -> str:
        assert isinstance(cluster, SmallCluster)
        await asyncio.sleep(dice.uniform(1.0, 2.0))
        api = Api(dice.choice(cluster.urls), cluster.token)
        await asyncio.to_thread(cluster.disk.fill)
        try:
            await asyncio.to_thread(self._refusals.probe, api, dice, HOLD_S)
        finally:
            cluster.disk.free()
        cluster.supervise()
        return "disk filled"

    def inspect(self, part: Part, clients: Clients) -> Iterable[str]:
        return report(self._refusals, part)


def report(refusals: Refusals, part: Part) -> list[str]:
    """Add the figures to a part; return what is wrong."""
    for kind, count in refusals.kinds.items():
        part.figures[f"refused {kind}"] = count
    wrong = list(refusals.wrong)
    if refusals.accepted:
        wrong.append(f"{refusals.accepted} requests were accepted by a full disk")
    return wrong
