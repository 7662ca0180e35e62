"""Points of the curves of a cluster on this machine, made of real processes.

python -m parts.clusters NAME SIZE

CPU is that of all parts, PostgreSQL and NATS among them, and of their children; memory
is that of servers and workers. The parts share the cores of one machine.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
from faults.cluster import Cluster
from servers import Api

from cluster import LOOP, Meter, backlog, finish
from parts.curves import Point, peak

ITERATIONS = 5_000
EXECUTIONS = 500
ROUNDS = 3
BESIDE = 2
"""Workers, where it is not their number that changes: enough for two servers."""


def measure(
    size: int,
    servers: int,
    workers: int,
    units: int,
    work: Callable[[list[Api]], None],
    count: int = ROUNDS,
) -> Point:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        cluster = Cluster(home, servers, workers, nats=True, ttl=30.0, slots=16)
        try:
            apis = [Api(url, cluster.token) for url in cluster.urls]
            for api in apis:
                finish(api, LOOP, n=100)  # all are awake
            meter, start = Meter(cluster), peaks(cluster)
            rounds = [meter.measure(lambda: work(apis)) for _ in range(count)]
            memory = peaks(cluster)
        finally:
            cluster.close()
    return Point(
        size,
        round(statistics.median(used.total for used in rounds) / units * 1e6, 1),
        round(memory, 1),
        round(memory - start, 1),
        round(units / statistics.median(used.wall for used in rounds), 1),
    )


def peaks(cluster: Cluster) -> float:
    return sum(peak(process.pid) for process in cluster.processes.values())


def iterations(size: int) -> Point:
    """A long loop is its own median."""
    count = ROUNDS if size <= 10_000 else 1
    return measure(
        size, 1, BESIDE, size, lambda apis: finish(apis[0], LOOP, n=size), count
    )


def workers(size: int) -> Point:
    return measure(
        size, 1, size, ITERATIONS, lambda apis: finish(apis[0], LOOP, n=ITERATIONS)
    )


def servers(size: int) -> Point:
    return measure(
        size,
        size,
        BESIDE,
        EXECUTIONS,
        lambda apis: backlog(*apis, count=EXECUTIONS),
    )


TAKES = {"cluster": iterations, "workers": workers, "servers": servers}

if __name__ == "__main__":
    found = TAKES[sys.argv[1]](int(sys.argv[2]))
    sys.stdout.buffer.write(msgspec.json.encode(found))
