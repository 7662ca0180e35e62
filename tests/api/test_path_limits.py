"""How many executions of a team may be unfinished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from servers import ASKS, HELLO, Answer, Api, Running

from noetl.service.executions import path_limits

LIMITS = (("tests/*", 3), ("tests/hello", 0))


@pytest.fixture
def cluster(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Api]]:
    """Two servers that count anew at each start that they would refuse."""
    monkeypatch.setattr(path_limits, "AT_LIMIT_S", 0.0)
    with ExitStack() as stack:
        apis = []
        for name in ("a", "b"):
            server = Running(tmp_path / name, database=postgres, path_limits=LIMITS)
            stack.callback(server.stop)
            apis.append(Api(server.url, server.token))
        yield apis


def start(api: Api, text: str = ASKS, key: str | None = None) -> Answer:
    body = {"playbook": text, "idempotency_key": key}
    return api.post("/api/executions", body)


def test_a_team_has_so_many_unfinished_executions_and_no_more(
    cluster: list[Api],
) -> None:
    first, second = cluster
    names = [start(first, key=f"k{n}").body["execution_id"] for n in range(3)]

    refused = start(second)

    assert refused.status == 429
    assert refused.body["kind"] == "quota.executions"
    assert "3 executions of tests/* have not finished" in refused.body["detail"]
    assert start(first).status == 429
    assert start(first, key="k0").body["execution_id"] == names[0], "it is known"
    assert start(first, HELLO).body["kind"] == "quota.executions"
    assert start(first, ASKS.replace("tests/asks", "other/asks")).status == 201
    page = first.get("/api/executions?path=tests/*").body["executions"]
    assert len(page) == 3, "a refused request leaves no execution"

    first.post(f"/api/executions/{names[0]}/cancel")
    first.finish(names[0])

    assert start(second).status == 201
    retried = second.post(f"/api/executions/{names[0]}/fork", {"at": 4})
    assert (retried.status, retried.body["kind"]) == (429, "quota.executions")
