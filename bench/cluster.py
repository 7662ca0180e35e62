"""A cluster on this machine: latency, idle CPU, loops over more and more processes.

python bench/cluster.py [--short]

Real processes: PostgreSQL and NATS as ``noetl up`` starts them, servers, workers. CPU
is user and system time of all processes of a part, children included. ``--short`` takes
a tenth of everything, to see that it works.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from faults.cluster import Cluster, free_port  # noqa: E402
from servers import Api  # noqa: E402

SHORT = "--short" in sys.argv
PART = 10 if SHORT else 1
SAMPLES = 100 // PART
IDLE = 60.0 / PART
ITERATIONS = 5_000 // PART
STEPS = 300 // PART
BACKLOG = 500 // PART
ROUNDS = 1 if SHORT else 3
TICKS = os.sysconf("SC_CLK_TCK")

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: b, path: bench/b}\n"
CALL = HEAD + (
    'workload: {url: ""}\n'
    "workflow:\n"
    "  - step: start\n"
    '    tool: {kind: http, method: POST, url: "{{ workload.url }}"}\n'
)
LOOP = HEAD + (
    "workflow:\n"
    "  - step: start\n"
    "    loop:\n"
    '      in: "{{ range(workload.n) }}"\n'
    "      iterator: x\n"
    "      spec: {mode: parallel, max_in_flight: 64}\n"
    '    tool: {kind: noop, result: "{{ iter.x + 1 }}"}\n'
)
STEP = "  - {step: s%d, tool: {kind: noop}, next: {arcs: [{step: s%d}]}}\n"
END = "  - {step: s%d, tool: {kind: noop}}\n"


def chain(length: int) -> str:
    steps = [STEP % (number, number + 1) for number in range(length - 1)]
    return HEAD + "workflow:\n" + "".join(steps) + END % (length - 1)


class Peer:
    """Says when it was called."""

    def __init__(self) -> None:
        self.came = 0.0
        self.called = threading.Event()
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                peer.came = time.time()
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()
                peer.called.set()

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()


class Used(NamedTuple):
    wall: float
    cpu: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.cpu.values())

    def less(self, start: Used) -> Used:
        """Without the start of the process."""
        cpu = {name: self.cpu[name] - start.cpu[name] for name in self.cpu}
        return Used(self.wall - start.wall, cpu)


class Meter:
    """The CPU that the parts of a cluster use."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def measure(self, work: Callable[[], Any]) -> Used:
        before, began = self._read(), time.perf_counter()
        work()
        wall, after = time.perf_counter() - began, self._read()
        return Used(wall, {name: after[name] - before[name] for name in after})

    def _read(self) -> dict[str, float]:
        cluster = self._cluster
        parents, spent = _processes()
        found = {}
        for name in cluster.parts:
            root = cluster.pid_of(name)
            found[name] = sum(
                seconds
                for pid, seconds in spent.items()
                if root in _ancestors(pid, parents)
            )
        return found


def _processes() -> tuple[dict[int, int], dict[int, float]]:
    """Of each process its parent, and its CPU with that of children that are gone."""
    parents, spent = {}, {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
        spent[int(folder.name)] = sum(map(int, fields[11:15])) / TICKS
    return parents, spent


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid:
        yield pid
        pid = parents.get(pid, 0)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def latency(apis: Sequence[Api], peer: Peer) -> list[float]:
    """Milliseconds from a command that is ready to the call of its tool."""
    found = []
    for number in range(SAMPLES):
        peer.called.clear()
        api = apis[number % len(apis)]
        execution_id = api.start(CALL, workload={"url": peer.url})
        assert peer.called.wait(30)
        for event in api.stream(execution_id):
            if event["name"] == "step.scheduled":
                found.append((peer.came - moment(event["timestamp"])) * 1000)
        time.sleep(0.05)
    return sorted(found)


def finish(api: Api, text: str, **workload: Any) -> None:
    execution_id = api.start(text, workload=workload)
    while api.get("/api/executions?limit=1").body["executions"][0]["status"] in (
        "running",
        "waiting",
    ):
        time.sleep(0.02)
    document = api.get("/api/executions?limit=1").body["executions"][0]
    assert (document["execution_id"], document["status"]) == (execution_id, "completed")


def backlog(*apis: Api, count: int = BACKLOG) -> None:
    text = chain(3)
    with ThreadPoolExecutor(8) as pool:
        each = lambda number: apis[number % len(apis)].start(text)  # noqa: E731
        last = list(pool.map(each, range(count)))
    while apis[0].get("/api/executions?status=running&limit=1").body["executions"]:
        time.sleep(0.02)
    assert len(set(last)) == count


def embedded(folder: Path, text: str, *args: str) -> Used:
    file = folder / "playbook.yaml"
    file.write_text(text)
    with tempfile.TemporaryDirectory(dir=folder) as home:
        before, began = os.times(), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "noetl", "run", str(file), "--json", *args],
            env={**os.environ, "NOETL_HOME": home},
            stdout=subprocess.PIPE,
            check=True,
        )
        wall, after = time.perf_counter() - began, os.times()
    assert json.loads(done.stdout)["status"] == "completed"
    cpu = after.children_user + after.children_system
    return Used(wall, {"run": cpu - before.children_user - before.children_system})


@contextmanager
def one_node(folder: Path) -> Iterator[Api]:
    """A server by itself, on SQLite."""
    port = free_port()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "noetl",
            "server",
            "start",
            "--foreground",
            "--port",
            str(port),
        ],
        env={
            **os.environ,
            "NOETL_HOME": str(folder),
            "NOETL_NETWORK_PRIVATE": "allow",  # the peer is on loopback
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            try:
                token = (folder / "token").read_text().strip()
                api = Api(f"http://127.0.0.1:{port}", token)
                api.get("/healthz")
                break
            except OSError:
                time.sleep(0.05)
        yield api
    finally:
        process.terminate()
        process.wait()


def say(name: str, used: Used, count: int, base: Used | None = None) -> None:
    ratio = ""
    if base:
        ratio = f" {used.wall / base.wall:5.2f} x time"
    if base and base.cpu:
        ratio += f" {used.total / base.total:5.2f} x CPU"
    print(
        f"{name:<44} {used.wall:7.2f} s {count / used.wall:9,.0f}/s "
        f"{used.total * 1e6 / count:8.0f} us CPU each{ratio}",
        flush=True,
    )


def best(work: Callable[[], Used]) -> Used:
    """The median of some rounds."""
    rounds = sorted((work() for _ in range(ROUNDS)), key=lambda used: used.wall)
    return rounds[len(rounds) // 2]


def measure(folder: Path) -> None:
    start = best(lambda: embedded(folder, LOOP, "--set", "n=0"))
    loop = best(lambda: embedded(folder, LOOP, "--set", f"n={ITERATIONS}")).less(start)
    say("embedded: loop, 64 in flight", loop, ITERATIONS)
    steps = best(lambda: embedded(folder, chain(STEPS))).less(start)
    say("embedded: chain", steps, STEPS)
    with one_node(folder / "node") as api:
        began = time.perf_counter()
        backlog(api)
        jobs = Used(time.perf_counter() - began, {})
    say("one node on SQLite: backlog of 3-step runs", jobs, BACKLOG)
    cluster = Cluster(folder / "home", 1, 1, nats=True, ttl=30.0, slots=16)
    try:
        meter, api = Meter(cluster), Api(cluster.urls[0], cluster.token)
        finish(api, CALL.replace("http, method: POST", "noop"), url="")  # all awake
        many = lambda: finish(api, LOOP, n=ITERATIONS)  # noqa: E731
        first = best(lambda: meter.measure(many))
        say("1 server, 1 worker: loop", first, ITERATIONS, loop)
        cluster.add_worker()
        time.sleep(2)
        say(
            "1 server, 2 workers: loop",
            best(lambda: meter.measure(many)),
            ITERATIONS,
            loop,
        )
        text = chain(STEPS)
        used = best(lambda: meter.measure(lambda: finish(api, text)))
        say("1 server, 2 workers: chain", used, STEPS, steps)
        used = best(lambda: meter.measure(lambda: backlog(api)))
        say("1 server, 2 workers: backlog", used, BACKLOG, jobs)
        wait_for(cluster.urls[:1], api, "1 server, 2 workers")
        cluster.add_server()
        for name in [*cluster.workers]:  # so that all of them know both servers
            cluster.kill(name)
            cluster.start(name)
        for _ in range(2):
            cluster.add_worker()
        time.sleep(5)
        say(
            "2 servers, 4 workers: loop",
            best(lambda: meter.measure(many)),
            ITERATIONS,
            loop,
        )
        used = best(lambda: meter.measure(lambda: finish(api, text)))
        say("2 servers, 4 workers: chain", used, STEPS, steps)
        used = best(lambda: meter.measure(lambda: backlog(api)))
        say("2 servers, 4 workers: backlog", used, BACKLOG, jobs)
        for name, url in zip(cluster.servers, cluster.urls, strict=True):
            print(
                f"{name}: {memory(cluster.pid_of(name))} MB, {loaded(url, api)} loaded"
            )
        tidy(cluster.database)
        idle(meter)
        wait_for(cluster.urls, api, "2 servers, 4 workers")
    finally:
        cluster.close()


def wait_for(urls: Sequence[str], api: Api, name: str) -> None:
    delays = latency([Api(url, api.token) for url in urls], Peer())
    p50, p99 = statistics.median(delays), delays[-1 - len(delays) // 100]
    load = Path("/proc/loadavg").read_text().split()[0]
    print(
        f"{name}: idle, from ready to the call: fastest {delays[0]:.1f} ms, "
        f"p50 {p50:.1f} ms, p99 {p99:.1f} ms (load {load})",
        flush=True,
    )


def memory(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024**2


def loaded(url: str, api: Api) -> int:
    """Executions that a server has in memory."""
    text = Api(url, api.token).get("/metrics").body.decode()
    [line] = [x for x in text.splitlines() if x.startswith("noetl_executions_loaded ")]
    return int(float(line.split()[1]))


def tidy(database: str) -> None:
    """What PostgreSQL would do by itself within the next minutes."""

    async def vacuum() -> None:
        connection = await asyncpg.connect(database)
        await connection.execute("VACUUM ANALYZE")
        await connection.close()

    asyncio.run(vacuum())


def idle(meter: Meter) -> None:
    time.sleep(2)
    used = meter.measure(lambda: time.sleep(IDLE))
    print(f"idle for {IDLE:g} s, in % of one core:")
    for name, seconds in used.cpu.items():
        print(f"  {name:<10} {seconds / used.wall * 100:5.2f} %")
    print(f"  {'together':<10} {used.total / used.wall * 100:5.2f} %", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        measure(Path(place))
