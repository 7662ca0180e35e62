"""Who does the work: what workers say of themselves, for whoever looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from servers import HELLO, Api, Running

from noetl.engine.ids import server_id_of
from noetl.runtime.worker_protocol.messages import PROTOCOL


def claim(api: Api, name: str, pool: str, slots: int) -> list[dict[str, Any]]:
    body = {"worker": name, "pool": pool, "slots": slots, "protocol": PROTOCOL}
    answer = api.post("/api/worker/claim", body)
    assert answer.status == 200, answer.body
    return [order["lease"] for order in answer.body["work"]]


def test_workers_are_listed_with_their_load(tmp_path: Path) -> None:
    server = Running(tmp_path / "home", slots=0)
    try:
        admin = Api(server.url, server.token)
        gpu = server.person("gpu-1", "worker:*")
        viewer = server.person("vic", "viewer")
        assert admin.get("/api/workers").body == {"workers": []}

        claim(gpu, "rack-7", "gpu", 4)
        admin.start(HELLO)
        leases = claim(gpu, "rack-8", "default", 2)
        beat = {"worker": "rack-8", "pool": "default", "slots": 2, "leases": leases}
        assert gpu.post("/api/worker/heartbeat", beat).status == 200

        first, second = viewer.get("/api/workers").body["workers"]
        assert (first["worker"], first["pool"]) == ("rack-8", "default")
        assert (first["running"], first["slots"]) == (1, 2)
        assert (second["worker"], second["account"]) == ("rack-7", "gpu-1")
        assert (second["running"], second["slots"]) == (0, 4)
        assert second["address"] == "127.0.0.1"
        named = viewer.get("/api/workers?pool=gpu").body["workers"]
        assert [each["worker"] for each in named] == ["rack-7"]
        claim(gpu, "rack-8", "default", 1)
        assert viewer.get("/api/workers").body["workers"][0]["running"] == 1
        assert gpu.get("/api/workers").status == 403
    finally:
        server.stop()


@pytest.mark.spec("WKR-01")
def test_names_of_executions_say_who_accepted_them(
    tmp_path: Path, postgres: str
) -> None:
    """So that a worker can tell the server that has them in memory."""
    one = Running(tmp_path / "one", database=postgres, slots=0)
    two = Running(tmp_path / "two", database=postgres, slots=0)
    try:
        marks = []
        for server in (one, two):
            api = Api(server.url, server.token)
            asked = {"worker": "w", "pool": "p", "slots": 1, "protocol": PROTOCOL}
            marks.append(api.post("/api/worker/claim", asked).headers["noetl-server"])
            assert server_id_of(api.start(HELLO)) == marks[-1]
    finally:
        one.stop()
        two.stop()


def test_servers_on_one_database_know_each_others_workers(
    tmp_path: Path, postgres: str
) -> None:
    one = Running(tmp_path / "one", database=postgres, slots=0)
    two = Running(tmp_path / "two", database=postgres, slots=0)
    try:
        claim(Api(one.url, one.token), "w-1", "default", 3)
        claim(Api(two.url, two.token), "w-2", "default", 5)

        for server in (one, two):
            found = Api(server.url, server.token).get("/api/workers").body["workers"]
            assert [(each["worker"], each["slots"]) for each in found] == [
                *[("w-1", 3), ("w-2", 5)]
            ]
    finally:
        one.stop()
        two.stop()
