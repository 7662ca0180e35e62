"""A retry of a large loop calls what failed, and nothing else, also after a kill."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from campaign import FULL
from faults.cluster import Cluster
from servers import Api, playbook

# PostgreSQL is started as `noetl up` does it: it outlives its parent.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running")

FAIL = """spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}",
          then: {do: fail}}, {else: {then: {do: continue}}}]}}"""
TOTAL, STEP = (10_000, 769) if FULL else (1_000, 77)
"""Iterations, of which each ``STEP``-th fails: 13."""
MANY = f"""
- step: work
  spec: {{policy: {{failure: best_effort}}}}
  loop: {{in: "{{{{ range(workload.n) }}}}", iterator: n,
    spec: {{mode: parallel, max_in_flight: 4}}}}
  tool:
    - run:
        kind: python
        args: {{n: "{{{{ iter.n }}}}", folder: "{{{{ workload.folder }}}}"}}
        code: |
          import os, time
          def main(n, folder):
              with open(f"{{folder}}/calls", "a") as file:
                  file.write(f"{{n}}\\n")
              if n % {STEP} == 5 and not os.path.exists(f"{{folder}}/fixed"):
                  raise ValueError(n)
              while n > {TOTAL // 2} and os.path.exists(f"{{folder}}/hold"):
                  time.sleep(0.01)
              return {{"n": n, "text": "x" * 20}}
        {FAIL}
  next: {{arcs: [{{step: after, args: {{all: "{{{{ event.payload.results }}}}"}}}}]}}
- step: after
  tool: {{kind: noop, result: "{{{{ args.all | map(attribute='n') | sum }}}}"}}
"""
BAD = [n for n in range(TOTAL) if n % STEP == 5]


@pytest.mark.spec("S-76", "S-45")
def test_13_failures_of_a_large_loop_make_13_calls_also_after_a_kill(
    shell: Any,
) -> None:
    calls = shell.folder / "calls"
    root = f"workload: {{n: {TOTAL}, folder: {shell.folder}}}\n"
    origin = shell.run(shell.write("many", MANY, root))
    log = shell.events(origin["execution_id"])
    assert origin["steps"][0]["iterations"]["failed"] == len(BAD) == 13
    calls.unlink()
    (shell.folder / "fixed").touch()
    (shell.folder / "hold").touch()

    process = shell.start("retry", origin["execution_id"])
    while not calls.exists() or len(calls.read_text().split()) < 11:
        assert process.poll() is None, process.communicate()
    retry = shell.executions("many")[0]["execution_id"]
    while sum(e["name"] == "task.done" for e in shell.events(retry)) < TOTAL + 7:
        assert process.poll() is None, process.communicate()
    process.kill()
    process.communicate()
    (shell.folder / "hold").unlink()
    done = json.loads(shell.noetl("resume", retry, "--json").stdout)

    assert (done["status"], done["result"]) == ("completed", sum(range(TOTAL)))
    counts = Counter(map(int, calls.read_text().split()))
    assert sorted(counts) == BAD
    assert [counts[n] for n in BAD] == [1] * 7 + [2] * 4 + [1] * 2
    work = next(step for step in done["steps"] if step["step"] == "work")
    assert work["iterations"] == {
        "total": TOTAL,
        "done": TOTAL,
        "failed": 0,
        "skipped": 0,
    }
    assert shell.noetl("verify", "--execution", "all").returncode == 0
    assert shell.events(origin["execution_id"]) == log


@pytest.mark.spec("S-76")
def test_all_failed_executions_of_a_home_are_retried_once(shell: Any) -> None:
    gate = shell.folder / "gate"
    flow = "- {step: a, tool: {kind: shell, command: [test, -e, '{{ workload.f }}']}}"
    file = shell.write("gated", flow, f"workload: {{f: {gate}}}\n")
    origins = [shell.run(file)["execution_id"] for _ in range(2)]
    gate.touch()

    dry = shell.noetl("retry", "--path", "tests/*", "--dry-run")
    done = json.loads(shell.noetl("retry", "--status", "failed", "--json").stdout)
    again = shell.noetl("retry", "--status", "failed")
    wrong = shell.noetl("retry", "last", "--status", "failed")

    assert dry.stdout.splitlines() == [
        *(f"would retry {origin}: failed" for origin in origins[::-1]),
        "nothing was changed",
    ]
    assert [line["execution_id"] for line in done["done"]] == origins[::-1]
    assert [line["again"] for line in done["done"]] == ["completed", "completed"]
    assert again.stdout == "no execution matches\n"
    events = shell.noetl("events", done["done"][0]["retried_as"]).stdout
    assert events.count("(undone by the retry)") == 5
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "not both" in wrong.stderr


class Peer:
    """Answers ``/n`` with n and counts; fails for some until it is ``fixed``, and holds
    those that come later while it is on ``hold``."""

    def __init__(self, bad: frozenset[int]) -> None:
        self.calls: Counter[int] = Counter()
        self.fixed = False
        self.free = threading.Event()
        self.came = threading.Condition()
        self.free.set()
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                number = int(self.path[1:])
                with peer.came:
                    peer.calls[number] += 1
                    peer.came.notify_all()
                failed = number in bad and not peer.fixed
                if peer.calls.total() > 6:
                    peer.free.wait()
                body = str(number).encode()
                self.send_response(400 if failed else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def await_calls(self, count: int) -> None:
        with self.came:
            assert self.came.wait_for(lambda: self.calls.total() >= count, 60)

    def close(self) -> None:
        self.free.set()
        self._server.shutdown()
        self._server.server_close()


SOME = frozenset(range(5, 400, 31))


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer(SOME)
    yield peer
    peer.close()


@pytest.mark.spec("S-76", "S-45", "SRV-09")
def test_a_cluster_calls_what_failed_also_after_kills(
    peer: Peer, tmp_path: Path
) -> None:
    """A worker and the server that made the retry die in the middle."""
    results = '"{{ event.payload.results }}"'
    flow = f"""
    - step: work
      spec: {{policy: {{failure: best_effort}}}}
      loop: {{in: "{{{{ range(400) }}}}", iterator: n,
        spec: {{mode: parallel, max_in_flight: 4}}}}
      tool: [{{get: {{kind: http, url: "{peer.url}/{{{{ iter.n }}}}", {FAIL}}}}}]
      next: {{arcs: [{{step: after, args: {{all: {results}}}}}]}}
    - step: after
      tool: {{kind: noop, result: "{{{{ args.all | map('int') | sum }}}}"}}
    """
    cluster = Cluster(tmp_path / "home", 2, 2, nats=False)
    try:
        api, other = (Api(url, cluster.token) for url in cluster.urls)
        origin = api.start(playbook("many", flow))
        first = api.finish(origin)
        peer.fixed, peer.calls = True, Counter()
        peer.free.clear()
        retry = api.post(f"/api/executions/{origin}/retry", {}).body["execution_id"]
        peer.await_calls(10)
        cluster.kill("worker0")
        cluster.kill("server0")
        peer.free.set()
        document = other.finish(retry)
    finally:
        cluster.close()

    assert first["steps"][0]["iterations"]["failed"] == len(SOME) == 13
    assert (document["status"], document["result"]) == ("completed", sum(range(400)))
    assert set(peer.calls) == SOME
    once = [number for number, count in peer.calls.items() if count == 1]
    assert len(once) >= 13 - 4
