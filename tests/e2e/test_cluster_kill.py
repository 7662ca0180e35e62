"""Everything is killed, again and again: nothing is lost, nothing done twice that was
recorded once, and nobody has to help. ``make faults`` is the long form."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from campaign import FULL
from faults.campaign import Plan, run
from faults.cluster import Cluster
from servers import Api, playbook

# PostgreSQL and NATS are started as `noetl up` does it: they outlive who started them.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running")


@pytest.mark.spec("S-45", "S-46", "WKR-02", "SRV-09", "SRV-10")
def test_a_storm_of_faults_loses_nothing(tmp_path: Path) -> None:
    plan = Plan(seed=7, iterations=400, size=400, kills=24, freezes=2, wipes=1)
    if FULL:
        plan = Plan(seed=7, iterations=1000, size=500, kills=60, freezes=4, wipes=3)

    report = run(plan, tmp_path / "home")

    assert report.found.wrong == []
    assert report.found.iterations >= plan.iterations
    parts = {"server", "worker", "nats", "postgres", "nats, wiped", "frozen"}
    assert {*report.kills} == parts
    assert report.exits == []
    assert report.found.steals > 0
    if FULL:  # fewer kills may all miss a call
        assert report.found.in_doubt > 0


@pytest.mark.spec("S-45", "SRV-09")
def test_a_cluster_does_without_nats(tmp_path: Path) -> None:
    """It was never there, and never will be."""
    plan = Plan(seed=11, iterations=200, size=200, kills=10, nats=False)

    report = run(plan, tmp_path / "home")

    assert report.found.wrong == []
    assert report.exits == []


class Slow:
    """A peer that answers when it is told to: each call has a gate."""

    def __init__(self) -> None:
        self.came = threading.Condition()
        self.gates: list[threading.Event] = []
        slow = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                gate = threading.Event()
                with slow.came:
                    slow.gates.append(gate)
                    slow.came.notify_all()
                gate.wait()
                body = json.dumps(len(slow.gates)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def playbook(self) -> str:
        """One step that calls it."""
        tool = f"{{kind: http, method: POST, url: '{self.url}'}}"
        return playbook("slow", f"- {{step: start, tool: {tool}}}")

    def await_calls(self, count: int) -> None:
        with self.came:
            assert self.came.wait_for(lambda: len(self.gates) >= count, 60)

    def close(self) -> None:
        for gate in self.gates:
            gate.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def slow() -> Iterator[Slow]:
    peer = Slow()
    yield peer
    peer.close()


@pytest.mark.spec("S-45", "WKR-02")
def test_what_a_stopped_worker_leaves_is_taken_up_at_once(
    slow: Slow, tmp_path: Path
) -> None:
    """Its lease would last for an hour."""
    cluster = Cluster(tmp_path / "home", 1, 1, nats=False, ttl=3600)
    try:
        api = Api(cluster.urls[0], cluster.token)
        execution_id = api.start(slow.playbook())
        slow.await_calls(1)
        cluster.add_worker()
        worker = cluster.processes["worker0"]
        while worker.poll() is None:  # somebody insists: its tool does not end
            worker.terminate()
            with suppress(subprocess.TimeoutExpired):
                worker.wait(0.2)
        slow.await_calls(2)
        slow.gates[1].set()
        document = api.finish(execution_id)
    finally:
        cluster.close()

    assert (document["status"], document["result"]) == ("completed", "2")
    assert worker.returncode == 0


@pytest.mark.spec("S-45", "WKR-02")
def test_a_frozen_owner_comes_back_too_late(slow: Slow, tmp_path: Path) -> None:
    """It notices by itself, or is told when it reports: what its successor said
    counts."""
    cluster = Cluster(tmp_path / "home", 1, 1, nats=False)
    try:
        api = Api(cluster.urls[0], cluster.token)
        execution_id = api.start(slow.playbook())
        slow.await_calls(1)
        cluster.freeze("worker0")
        cluster.add_worker()
        slow.await_calls(2)
        slow.gates[0].set()
        cluster.thaw("worker0")
        said = cluster.elsewhere / "logs" / "worker.log"
        while "gave up step start" not in said.read_text():
            assert cluster.processes["worker0"].poll() is None
        slow.gates[1].set()
        document = api.finish(execution_id)
    finally:
        cluster.close()

    assert (document["status"], document["result"]) == ("completed", "2")
    assert len(slow.gates) == 2
