"""A campaign in which the home of a server with SQLite is full, again and again."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path

from servers import Api

from faults.clients import Clients
from faults.cluster import HUNG, free_port, wait_for
from faults.disks import HOLD_S, Refusals, SmallDisk, report
from faults.evidence import add_operations, compare, facts_of, verify_all
from faults.history import Logs
from faults.ordeal import Say
from faults.parts import Part
from noetl.adapters.secrets.private_files import make_token
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.local.home import Home

NAME = "full disk of SQLite"
SIZE = 48 << 20
NEEDED = "refused store.full"


class Host:
    """A server that executes in its own slots; its home is a small disk."""

    def __init__(self, folder: Path, output: Path) -> None:
        home = Home(folder)
        home.make()
        port = free_port()
        self.token = make_token(home.token)
        self.url = f"http://127.0.0.1:{port}"
        self.environ = {
            **os.environ,
            "NOETL_HOME": str(folder),
            "NOETL_LEASE_TTL": "1",  # its own slots lose work that they cannot report
        }
        command = [sys.executable, "-m", "noetl", "server", "start", "--foreground"]
        with output.open("ab") as said:
            self._process = subprocess.Popen(
                [*command, "--port", str(port)],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        wait_for(port)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait(HUNG)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def run_full_home(seed: int, seconds: float, folder: Path, say: Say) -> Part:
    """Run one part on a new home."""
    with ExitStack() as stack:
        disk = stack.enter_context(closing(SmallDisk(folder, SIZE)))
        output = folder.with_name("server.txt")
        host = stack.enter_context(closing(Host(folder, output)))
        return _run(host, disk, folder, Part(seed=seed), seconds, say)


def _run(
    host: Host, disk: SmallDisk, folder: Path, part: Part, seconds: float, say: Say
) -> Part:
    dice, refusals, began = random.Random(part.seed), Refusals(), time.monotonic()
    clients = Clients([host.url], host.token, part.seed)
    clients.start()
    while time.monotonic() < began + seconds and not host.has_ended():
        time.sleep(dice.uniform(0.5, 1.5))
        disk.fill()
        try:
            refusals.probe(Api(host.url, host.token), dice, HOLD_S)
        finally:
            disk.free()
        part.faults["disk filled"] = part.faults.get("disk filled", 0) + 1
        say("disk filled")
    clients.settle()
    part.seconds = time.monotonic() - began
    part.wrong += clients.strange
    if host.has_ended() or host.stop() != 0:
        part.wrong.append("the server did not live until it was stopped")
    logs = asyncio.run(_read_facts(sorted(folder.glob("log*.db"))))
    part.wrong += compare(clients.history, logs)
    part.wrong += verify_all(host.environ)
    part.wrong += report(refusals, part)
    if NEEDED not in part.figures:
        part.wrong.append(f"this did not happen: {NEEDED}")
    add_operations(part, logs, clients.history)
    return part


async def _read_facts(files: Iterable[Path]) -> Logs:
    logs = {}
    for file in files:
        store = SqliteStore.open(file)
        try:
            for each in await store.find(limit=100_000):
                events = await store.read(each.execution_id)
                logs[each.execution_id] = facts_of(events)
        finally:
            await store.close()
    return logs
