"""A server shows the runs of its home's owner, whose own processes write them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_stream import stream, until
from servers import HELLO, HUNG, Api, Running

from noetl.adapters.stores.sqlite.connection import find_holder

WAITS = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: tests/waits}
workflow:
- {step: start, tool: {kind: noop, result: 3}, next: {arcs: [{step: ask}]}}
- {step: ask, tool: {kind: wait, signal: go}}
"""


PRINTS = HELLO.replace(
    "{kind: noop, result: 1}",
    "{kind: python, code: 'def main(): print(7); return 1'}",
)


@pytest.fixture(params=["files", "database"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    """A server whose own executions are in its home, or in PostgreSQL."""
    options = {}
    if request.param == "database":
        options["database"] = request.getfixturevalue("postgres")
    server = Running(tmp_path / "home", **options)
    yield server
    server.stop()


@pytest.fixture
def api(server: Running) -> Api:
    return Api(server.url, server.token)


NOETL = (sys.executable, "-m", "noetl")


def settings(server: Running) -> dict[str, str]:
    return {**os.environ, "NOETL_HOME": str(server.home.folder)}


def run(server: Running, text: str, tmp_path: Path) -> str:
    """Run a playbook with ``noetl run``; its id."""
    file = tmp_path / "playbook.yaml"
    file.write_text(text)
    done = subprocess.run(
        [*NOETL, "run", str(file), "--json"],
        capture_output=True,
        check=True,
        timeout=HUNG,
        env=settings(server),
    )
    found: str = json.loads(done.stdout)["execution_id"]
    return found


@pytest.fixture
def waiting(server: Running, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A ``noetl run`` that waits for a signal."""
    file = tmp_path / "waits.yaml"
    file.write_text(WAITS)
    process = subprocess.Popen(
        [*NOETL, "run", str(file), "--no-progress"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=settings(server),
    )
    yield process
    if process.poll() is None:
        process.kill()
        process.wait()


def listed(api: Api) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = api.get("/api/executions").body["executions"]
    return lines


def await_line(api: Api, status: str) -> dict[str, object]:
    """The line of the only local execution, once it has the status."""
    deadline = time.monotonic() + HUNG
    while time.monotonic() < deadline:
        for line in listed(api):
            if line.get("local") and line["status"] == status:
                return line
    raise AssertionError(f"no local execution becomes {status}")


def test_runs_are_listed_among_the_executions_of_the_server(
    server: Running, api: Api, tmp_path: Path
) -> None:
    before = api.run(HELLO)["execution_id"]
    local = run(server, HELLO, tmp_path)
    after = api.run(HELLO)["execution_id"]

    lines = listed(api)
    pages = [
        api.get(f"/api/executions?limit=1{cursor}").body["executions"][0]
        for cursor in ("", f"&cursor={after}", f"&cursor={local}")
    ]

    assert [line["execution_id"] for line in lines] == [after, local, before]
    assert [line.get("local") for line in lines] == [None, True, None]
    assert [line["execution_id"] for line in pages] == [after, local, before]


def test_a_run_has_all_that_a_page_shows(
    server: Running, api: Api, tmp_path: Path
) -> None:
    execution_id = run(server, PRINTS, tmp_path)
    path = f"/api/executions/{execution_id}"

    head = api.get(f"{path}/head").body
    answers = [
        api.get(f"{path}{rest}")
        for rest in ("", "/events", "/track", "/state", "/graph", "/playbook", "/logs")
    ]

    assert [answer.status for answer in answers] == [200] * len(answers)
    assert answers[0].body["result"] == 1
    assert [line["text"] for line in answers[-1].body["lines"]] == ["7"]
    assert head["line"]["local"] is True
    assert head["may"] == ["logs", "payloads"]


def test_a_run_whose_process_still_writes_is_only_read(
    server: Running, api: Api, waiting: subprocess.Popen[bytes]
) -> None:
    line = await_line(api, "waiting")
    path = f"/api/executions/{line['execution_id']}"
    holder = find_holder(server.home.log(1))

    orders = [
        api.post(f"{path}/signal", {"name": "go"}),
        api.post(f"{path}/cancel"),
        api.post(f"{path}/retry", {}),
    ]
    bulk = api.post("/api/executions/bulk", {"action": "cancel", "status": "waiting"})

    assert line["interrupted"] is False
    assert [answer.body["kind"] for answer in orders] == ["execution.state"] * 3
    assert bulk.body["done"] == bulk.body["refused"] == []
    assert holder is not None
    assert str(waiting.pid) in str(holder)
    assert waiting.poll() is None
    assert api.get("/api/inbox").body["items"] == []
    before = api.get(path).body["events"]
    subprocess.run(
        [*NOETL, "signal", str(line["execution_id"]), "go"],
        check=True,
        capture_output=True,
        timeout=HUNG,
        env=settings(server),
    )
    assert waiting.wait(HUNG) == 0
    assert api.get(path).body["status"] == "completed"
    assert api.get(path).body["events"] > before


def test_a_run_whose_process_is_gone_says_so(
    api: Api, waiting: subprocess.Popen[bytes]
) -> None:
    await_line(api, "waiting")
    waiting.kill()
    waiting.wait()

    assert await_line(api, "waiting")["interrupted"] is True


def test_runs_are_hidden_once_the_server_has_other_accounts(
    server: Running, api: Api, tmp_path: Path
) -> None:
    local = run(server, HELLO, tmp_path)
    assert api.get(f"/api/executions/{local}").status == 200

    admin = server.person("ann", "admin")

    for each in (api, admin):
        assert listed(each) == []
        assert each.get(f"/api/executions/{local}").status == 404
        assert each.get(f"/api/executions/{local}/events").status == 404


def test_a_stream_tells_others_nothing_of_the_runs_before_them(
    server: Running, api: Api, tmp_path: Path
) -> None:
    """Not even to a reader that asks for all changes since the server began."""
    with stream(api) as found:
        local = run(server, HELLO, tmp_path)
        mark = until(found, local, "completed").id.partition(".")[0]
    admin = server.person("ann", "admin")

    with stream(admin, last=f"{mark}.0") as found:
        own = admin.run(HELLO)["execution_id"]
        lines = []
        for message in found:
            lines += [each["execution_id"] for each in message.data.get("lines", ())]
            if own in lines:
                break

    assert local not in lines
