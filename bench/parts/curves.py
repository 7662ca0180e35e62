"""The curves: what grows, what one unit is, and where the figures are kept."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

BENCH = Path(__file__).parents[1]
FOLDER = BENCH / "curves"
MODULES = (BENCH, BENCH.parent / "tests" / "support")


class Curve(msgspec.Struct, frozen=True):
    """``of`` is what there is more and more of, ``unit`` what is paid for.

    One that is ``timed`` shows how many there are in a second: there are more hands.
    """

    of: str
    unit: str
    sizes: tuple[int, ...]
    takes: str
    module: str = "parts.embedded"
    bytes: bool = False
    timed: bool = False

    def show(self, size: int) -> str:
        if not self.bytes:
            return f"{size:,}"
        for scale, name in ((10**6, "MB"), (10**3, "KB")):
            if size >= scale:
                return f"{size // scale:,} {name}"
        return f"{size} B"


CURVES = {
    "iterations": Curve(
        "iterations of a loop",
        "an iteration",
        (100, 1_000, 10_000, 100_000, 1_000_000),
        "4 minutes",
    ),
    "steps": Curve("steps of a chain", "a step", (100, 1_000, 10_000), "1 minute"),
    "executions": Curve(
        "executions in the log",
        "one more execution",
        (100, 1_000, 10_000, 100_000),
        "2 minutes",
    ),
    "concurrent": Curve(
        "executions at once",
        "an execution of three steps",
        (1, 3, 10, 30, 100, 300, 1_000),
        "2 minutes",
    ),
    "in-flight": Curve(
        "iterations in flight", "an iteration", (1, 2, 4, 8, 16, 32, 64), "1 minute"
    ),
    "payload": Curve(
        "size of the rows",
        "an execution that hands them on",
        tuple(10**power for power in range(3, 9)),
        "1 minute",
        bytes=True,
    ),
    "values": Curve(
        "size of a text",
        "an execution that hands it on",
        tuple(10**power for power in range(3, 8)),
        "1 minute",
        bytes=True,
    ),
    "cluster": Curve(
        "iterations of a loop in a cluster",
        "an iteration",
        (1_000, 10_000, 100_000, 1_000_000),
        "10 minutes",
        "parts.clusters",
    ),
    "workers": Curve(
        "workers of a cluster",
        "an iteration",
        (1, 2, 3, 4),
        "1 minute",
        "parts.clusters",
        timed=True,
    ),
    "servers": Curve(
        "servers of a cluster",
        "an execution of three steps",
        (1, 2),
        "1 minute",
        "parts.clusters",
        timed=True,
    ),
}


class Point(msgspec.Struct, frozen=True):
    """``cpu`` in µs a unit; ``memory`` in MB at its peak, ``grew`` since the start;
    ``stored`` in bytes a unit in the log's file, with its indexes."""

    size: int
    cpu: float
    memory: float
    grew: float
    per_second: float
    stored: float | None = None


class Measured(msgspec.Struct, frozen=True):
    python: str
    cores: int
    points: list[Point]


def measure(name: str, most: int | None) -> Iterator[Point]:
    """Each point in a process of its own, so that memory is that of this point."""
    curve = CURVES[name]
    for size in curve.sizes:
        if most is not None and size > most:
            return
        done = subprocess.run(
            [sys.executable, "-m", curve.module, name, str(size)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, MODULES))},
            stdout=subprocess.PIPE,
            check=False,
        )
        if done.returncode:
            raise SystemExit(
                f"{name} of {curve.show(size)} was not measured: see above"
            )
        yield msgspec.json.decode(done.stdout, type=Point)


def store(name: str, points: list[Point]) -> Path:
    found = Measured(platform.python_version(), os.cpu_count() or 1, points)
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    return path


def stored(folder: Path = FOLDER) -> dict[str, Measured]:
    """Of those curves that were measured."""
    return {
        name: msgspec.json.decode(path.read_bytes(), type=Measured)
        for name in CURVES
        if (path := folder / f"{name}.json").exists()
    }


def peak(pid: int | str = "self") -> float:
    """MB that a process had at most. (What `getrusage` says starts at its parent's.)"""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
