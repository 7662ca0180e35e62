"""A scenario in which the clocks of servers and workers are wrong."""

from __future__ import annotations

import asyncio
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from faults.cluster import Cluster
from faults.ordeal import Scenario

HOUR, DAY = 3600.0, 86400.0
SECOND = 1_000_000_000


def why_no_library() -> str | None:
    """Return why the clock of a process cannot be shifted here."""
    if sys.platform != "linux":
        return "clocks are shifted on Linux only"
    return None if shutil.which("cc") else "no C compiler: clocks cannot be shifted"


@cache
def library() -> Path:
    """Build the library once for this process."""
    file = Path(tempfile.mkdtemp(prefix="noetl-clock-")) / "clock.so"
    source = Path(__file__).with_name("clock.c")
    options = ("-O2", "-Wall", "-shared", "-fPIC", "-o", file)
    subprocess.run(["cc", *options, source, "-ldl"], check=True)
    return file


class Clock:
    """The clock of one process, as the library reads it from a file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.write_bytes(bytes(24))
        self.set()

    def set(self, offset: float = 0.0, speed: float = 1.0) -> None:
        """Shift the clock by ``offset`` seconds, and let it run at ``speed``."""
        numbers = (round(offset * SECOND), round(speed * 1000), time.time_ns())
        with self.file.open("r+b") as file:  # mapped: it keeps its place
            file.write(struct.pack("<3q", *numbers))

    def environ(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(library()), "CLOCK_FILE": str(self.file)}


class ShiftedCluster(Cluster):
    """A cluster whose servers and workers have clocks of their own."""

    def __init__(self, *parts: Any, **more: Any) -> None:
        self.clocks: dict[str, Clock] = {}
        super().__init__(*parts, **more)

    def environ_of(self, name: str) -> dict[str, str]:
        if name not in self.clocks:
            self.clocks[name] = Clock(self.home.folder / f"{name}.clock")
        return {**super().environ_of(name), **self.clocks[name].environ()}


class WrongClocks(Scenario):
    """One clock at a time is wrong, for some seconds.

    A server that is an hour ahead takes every lease for expired: the tools of two
    owners may meet, and both starts are on record. A wait that begins by its clock is
    over by that clock. So in the end all servers are ahead for good, and no wait may be
    left.
    """

    name: ClassVar[str] = "wrong clocks"
    at_least: ClassVar[int] = 3
    required: ClassVar[frozenset[str]] = frozenset(
        {"server ahead", "server behind", "worker a day behind"}
    )
    overlaps: ClassVar[bool] = True

    def __init__(self) -> None:
        self._harms = self._take_turns()

    def open(self, folder: Path) -> Cluster:
        return ShiftedCluster(folder, 2, 3, nats=True)

    async def strike(self, cluster: Cluster, dice: random.Random) -> str:
        assert isinstance(cluster, ShiftedCluster)
        who, what, offset, speed = next(self._harms)
        name = dice.choice(cluster.servers if who == "server" else cluster.workers)
        with _shifted(cluster.clocks[name], offset, speed):
            await asyncio.sleep(dice.uniform(0.5, 3.0))
        await asyncio.sleep(dice.uniform(0.2, 1.0))
        return f"{who} {what}"

    def _take_turns(self) -> Iterator[tuple[str, str, float, float]]:
        while True:
            yield "server", "ahead", HOUR, 1.0
            yield "worker", "a day behind", -DAY, 1.0
            yield "server", "behind", -HOUR, 1.0
            yield "worker", "at double speed", 0.0, 2.0
            yield "server", "at double speed", 0.0, 2.0
            yield "worker", "ahead", HOUR, 1.0

    def heal(self, cluster: Cluster) -> None:
        assert isinstance(cluster, ShiftedCluster)
        for name in cluster.servers:
            cluster.clocks[name].set(HOUR + 10.0)


@contextmanager
def _shifted(clock: Clock, offset: float, speed: float) -> Iterator[None]:
    clock.set(offset, speed)
    try:
        yield
    finally:
        clock.set()
