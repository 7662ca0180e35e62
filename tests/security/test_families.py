"""S-37, I-38: a large family of executions is bounded, and keeps no team waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from latency import Latency
from servers import HEAD, HUNG, Api, Running

from noetl.runtime.executions.children import MAX_AT_ONCE

pytestmark = pytest.mark.spec("S-37")

CHILDREN = 300
LIMIT = 40
MOST = LIMIT + MAX_AT_ONCE + 1
"""Those, the root, and as many as a server is just beginning."""
OVER = ("completed", "failed", "cancelled")
NOOP = f"""{HEAD}metadata: {{name: quick, path: other/quick}}
workflow: [{{step: start, tool: {{kind: noop, result: 1}}}}]
"""
CHILD = f"""{HEAD}metadata: {{name: child, path: large/child}}
workflow: [{{step: start, tool: [{{w: {{kind: wait, signal: go}}}}]}}]
"""
LOOP = "{mode: parallel, max_in_flight: %d}"


def caller(name: str, child: str, count: int) -> str:
    return f"""{HEAD}metadata: {{name: {name}, path: large/{name}}}
workflow:
- step: start
  loop: {{in: "{{{{ range({count}) }}}}", iterator: i, spec: {LOOP % count}}}
  tool: [{{call: {{kind: playbook, path: large/{child}}}}}]
"""


class Neighbour:
    """Runs a playbook of another team again and again, and notes how long it takes."""

    def __init__(self, api: Api) -> None:
        self._api, self._over = api, threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)
        self.seconds: list[float] = []

    def __enter__(self) -> Neighbour:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join(HUNG)

    def _repeat(self) -> None:
        while not self._over.is_set():
            began = time.perf_counter()
            assert self._api.run(NOOP)["status"] == "completed"
            self.seconds.append(time.perf_counter() - began)


def executions(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    query = ""
    while True:
        page = api.get(f"/api/executions?limit=200{query}").body
        found += page["executions"]
        if not page.get("cursor"):
            return found
        query = f"&cursor={page['cursor']}"


def family(running: Running) -> dict[str, str]:
    """The status of each execution below ``large``."""
    listed = executions(Api(running.url, running.token))
    mine = [x for x in listed if x["playbook"]["path"].startswith("large/")]
    return {x["execution_id"]: x["status"] for x in mine}


def wait_until_over(
    running: Running, of: tuple[str, ...] = ("cancelled",)
) -> dict[str, str]:
    end = time.monotonic() + HUNG
    while time.monotonic() < end:
        found = family(running)
        if set(found.values()) <= set(of):
            return found
    raise AssertionError("some executions of the family were not cancelled")


@pytest.fixture
def author(fresh: Running) -> Api:
    admin = Api(fresh.url, fresh.token)
    for text in (CHILD, caller("self", "self", 100)):
        assert admin.post("/api/catalog", {"playbook": text}).status in (200, 201)
    return fresh.person("author", "author:large/*")


def test_cancelling_many_children_keeps_no_other_team_waiting(
    fresh: Running, author: Api
) -> None:
    neighbour = fresh.person("neighbour", "author:other/*")
    root = author.start(caller("many", "child", CHILDREN))
    while len(family(fresh)) <= CHILDREN:
        pass

    with Latency(fresh.url) as latency, Neighbour(neighbour) as beside:
        assert author.post(f"/api/executions/{root}/cancel", {}).status == 200
        found = wait_until_over(fresh)

    assert len(found) == CHILDREN + 1
    latency.check()
    assert max(beside.seconds) < 1.0


def test_a_playbook_that_calls_itself_a_hundredfold_ends_when_it_is_cancelled(
    fresh: Running, author: Api
) -> None:
    """Its executions begin no more children from then on, and all of them end."""
    root = author.start(caller("self", "self", 100))
    while len(family(fresh)) < 100:
        pass

    with Latency(fresh.url) as latency:
        assert author.post(f"/api/executions/{root}/cancel", {}).status == 200
        before = len(family(fresh))
        found = wait_until_over(fresh)

    assert len(found) <= before + 16  # those that were just being begun
    latency.check()


@pytest.fixture
def bounded(tmp_path: Path) -> Iterator[Running]:
    """A server on which a family has few unfinished executions."""
    running = Running(tmp_path / "home", family_limit=LIMIT)
    admin = Api(running.url, running.token)
    for text in (CHILD, caller("self", "self", 100)):
        assert admin.post("/api/catalog", {"playbook": text}).status in (200, 201)
    yield running
    running.stop()


def test_a_child_above_the_limit_of_its_family_is_not_begun(bounded: Running) -> None:
    admin = Api(bounded.url, bounded.token)
    root = admin.start(caller("many", "child", CHILDREN))

    failed = admin.await_event(root, "loop.iteration.failed")["payload"]["error"]
    while len(found := family(bounded)) <= LIMIT:
        pass

    assert failed["kind"] == "playbook.family", failed
    assert "descend from one root have not finished" in failed["message"]
    assert "setting 'family_limit'" in failed["message"]
    assert len(found) <= MOST
    assert admin.post(f"/api/executions/{root}/cancel", {}).status == 200
    assert len(wait_until_over(bounded)) <= MOST


def test_a_family_within_the_limit_is_left_alone(bounded: Running) -> None:
    admin = Api(bounded.url, bounded.token)
    root = admin.start(caller("many", "child", LIMIT))
    while len(found := family(bounded)) <= LIMIT:
        pass

    for execution_id in found.keys() - {root}:
        path = f"/api/executions/{execution_id}/signal"
        assert admin.post(path, {"name": "go"}).status == 200

    assert admin.finish(root)["status"] == "completed"


def test_a_playbook_that_calls_itself_stays_within_the_limit(bounded: Running) -> None:
    admin = Api(bounded.url, bounded.token)
    root = admin.start(caller("self", "self", 100))
    while len(family(bounded)) <= LIMIT:
        pass

    for _ in range(10):  # each of them tries to begin a hundred more meanwhile
        now = family(bounded)
        assert sum(status not in OVER for status in now.values()) <= MOST

    assert admin.post(f"/api/executions/{root}/cancel", {}).status == 200
    wait_until_over(bounded, of=OVER)
