"""CPU and time of steps in a cluster, of two checkouts or numbers of servers in turns.

python bench/cluster_steps.py [--quick] [--servers N] [--against CHECKOUT]

Each checkout gets a cluster of its own: PostgreSQL and NATS as in ``noetl up``,
servers, and two workers. The same work goes to both in alternation, so that what else
the machine does concerns both. Figures are medians of the rounds; a ratio is the median
of the ratios of the rounds. Several servers are asked in turns; without another
checkout they are compared with one server.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import NamedTuple

import aiohttp

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from faults.cluster import NATS, POSTGRES, Cluster  # noqa: E402

from noetl.bench import WIDTH, playbooks  # noqa: E402

WORKERS = 2
PARTS = ("server", "worker", POSTGRES, NATS)
"""Parts of a cluster, by the beginning of their names."""


class Work(NamedTuple):
    """A measured piece of work: ``runs`` executions of ``size``, ``beside`` at once."""

    name: str
    unit: str
    playbook: str
    size: int
    runs: int
    beside: int = 1

    @property
    def units(self) -> int:
        return self.runs * (1 if self.unit == "execution" else self.size)

    @property
    def result(self) -> int:
        size = self.size
        return size if self.playbook == "chain" else size * (size + 1) // 2


WORKS = (
    Work("chain", "step", "chain", 500, 1),
    Work("fan-out", "iteration", "fanout", 5_000, 1),
    Work("one step", "execution", "chain", 1, 200),
    Work("backlog of 3 steps", "execution", "chain", 3, 600, 2 * WIDTH),
)


class Figure(NamedTuple):
    """Microseconds of a unit: CPU by part, and elapsed time."""

    cpu: dict[str, float]
    wall: float

    @property
    def own(self) -> float:
        return self.cpu["server"] + self.cpu["worker"]

    @property
    def total(self) -> float:
        return sum(self.cpu.values())


class Subject:
    """The cluster of one checkout."""

    def __init__(self, cluster: Cluster, http: aiohttp.ClientSession) -> None:
        self._cluster = cluster
        self._http = http
        self._urls = cycle(cluster.urls)

    async def prepare(self, body: str) -> None:
        for text in playbooks(body).values():  # type: ignore[arg-type]
            url = f"{next(self._urls)}/api/catalog"
            async with self._http.post(url, json={"playbook": text}):
                pass
        for work in WORKS:  # processes, connections and statements are ready
            await self._do(work._replace(size=min(work.size, 50), runs=20))

    async def measure(self, work: Work) -> Figure:
        before, began = self._spent(), time.perf_counter()
        await self._do(work)
        wall, after = time.perf_counter() - began, self._spent()
        scale = 1e6 / work.units
        return Figure(
            {name: (after[name] - before[name]) * scale for name in after},
            wall * scale,
        )

    async def _do(self, work: Work) -> None:
        gate = asyncio.Semaphore(work.beside)

        async def one(url: str) -> None:
            async with gate:
                path, workload = f"bench/{work.playbook}", {"n": work.size}
                body = {"path": path, "workload": workload}
                target = f"{url}/api/executions?wait=60"
                async with self._http.post(target, json=body) as answer:
                    assert (await answer.json())["result"] == work.result

        urls = [next(self._urls) for _ in range(work.runs)]
        await asyncio.gather(*(one(url) for url in urls))

    def _spent(self) -> dict[str, float]:
        """Return the CPU of each part, in seconds, of the processes that run."""
        children = _children()
        found = dict.fromkeys(PARTS, 0.0)
        for name in self._cluster.parts:
            part = next(each for each in PARTS if name.startswith(each))
            found[part] += sum(
                _seconds(pid) for pid in _tree(self._cluster.pid_of(name), children)
            )
        return found


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            parent = int(stat.rpartition(") ")[2].split()[1])
            found.setdefault(parent, []).append(int(folder.name))
    return found


def _tree(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    yield pid
    for child in children.get(pid, ()):
        yield from _tree(child, children)


def _seconds(pid: int) -> float:
    """Return the CPU of the threads of a process; its clock counts nanoseconds."""
    spent = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            spent += int(thread.read_text().split()[0])
        except OSError:
            continue
    return spent / 1e9


@contextmanager
def running(folder: Path, checkout: Path, servers: int) -> Iterator[Cluster]:
    """Start a cluster of this checkout's code, without limits of starts."""
    changed = {"PYTHONPATH": str(checkout / "src"), "NOETL_START_RATE": "1000000"}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        slots = WIDTH // WORKERS
        cluster = Cluster(folder, servers, WORKERS, nats=True, ttl=30.0, slots=slots)
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
    try:
        yield cluster
    finally:
        cluster.close()


async def compare(
    clusters: Sequence[Cluster], works: Sequence[Work], rounds: int, part: int
) -> None:
    connector = aiohttp.TCPConnector(limit=2 * WIDTH)
    opened = [
        aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {each.token}"},
            connector=connector,
            connector_owner=False,
            raise_for_status=True,
        )
        for each in clusters
    ]
    try:
        subjects = [
            Subject(each, http) for each, http in zip(clusters, opened, strict=True)
        ]
        for subject in subjects:
            await subject.prepare("noop")
        for work in works:
            smaller = work._replace(
                size=work.size if work.size <= 3 else work.size // part,
                runs=max(1, work.runs // part),
            )
            report(smaller, await _rounds(subjects, smaller, rounds))
    finally:
        for http in opened:
            await http.close()
        await connector.close()


async def _rounds(
    subjects: Sequence[Subject], work: Work, rounds: int
) -> list[list[Figure]]:
    """Return the figures of each subject; each round begins with another one."""
    found: list[list[Figure]] = [[] for _ in subjects]
    for number in range(rounds):
        order = range(len(subjects)) if number % 2 else reversed(range(len(subjects)))
        for index in order:
            found[index].append(await subjects[index].measure(work))
    return found


def report(work: Work, found: Sequence[Sequence[Figure]]) -> None:
    values: dict[str, Callable[[Figure], float]] = {
        name: (lambda figure, name=name: figure.cpu[name])  # type: ignore[misc]
        for name in PARTS
    }
    values |= {
        "server+worker": lambda figure: figure.own,
        "CPU": lambda figure: figure.total,
        "time": lambda figure: figure.wall,
    }
    print(f"{work.name}, µs for each {work.unit}:")
    for name, value in values.items():
        figures = [[value(each) for each in some] for some in found]
        line = f"  {name:<14}" + "".join(f"{median(some):9.1f}" for some in figures)
        if len(figures) == 2:
            pairs = zip(*figures, strict=True)
            ratios = [mine / other for mine, other in pairs if other]
            line += f"   x {median(ratios):5.3f}" if ratios else ""
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the work")
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--only", default="", help="the beginning of a name of work")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", type=Path, help="another checkout")
    options = parser.parse_args()
    subjects = [(ROOT, options.servers)]
    if options.against:
        subjects.append((options.against, options.servers))
    elif options.servers > 1:
        subjects.append((ROOT, 1))
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        clusters = [
            stack.enter_context(running(Path(place) / str(number), checkout, servers))
            for number, (checkout, servers) in enumerate(subjects)
        ]
        works = [each for each in WORKS if each.name.startswith(options.only)]
        part = 5 if options.quick else 1
        asyncio.run(compare(clusters, works, options.rounds, part))


if __name__ == "__main__":
    main()
