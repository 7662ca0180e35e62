"""A worker's token against a server's HTTP surface: its own work, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from servers import Answer, Api, Running, WorkerProcess, playbook

import noetl
from noetl.api.app import endpoints
from noetl.engine.limits import Ceilings
from noetl.runtime.worker_protocol.messages import PROTOCOL

SECRET = "the-operator-keeps-this-5b1d0c"


def waiting(name: str, pool: str) -> str:
    tool = f"{{kind: noop, result: 1, spec: {{pool: {pool}}}}}"
    return playbook(name, f"- {{step: start, tool: {tool}}}")


class Worker:
    def __init__(self, api: Api, name: str = "w") -> None:
        self.api = api
        self.name = name

    def claim(self, pool: str) -> Answer:
        body = {"worker": self.name, "pool": pool, "slots": 1, "protocol": PROTOCOL}
        return self.api.post("/api/worker/claim", body)

    def ask(self, call: str, lease: Any, **more: Any) -> Answer:
        body = {"worker": self.name, "lease": lease, **more}
        return self.api.post(f"/api/worker/{call}", body)


@pytest.fixture(scope="module")
def accounts(running: Running) -> dict[str, Worker]:
    names = {"wa": "worker:pool-a", "wa.b": "worker:pool-a", "wb": "worker:pool-b"}
    return {name: Worker(running.person(name, role)) for name, role in names.items()}


def lease_of(admin: Api, worker: Worker, pool: str) -> dict[str, Any]:
    admin.start(waiting("waits", pool))
    lease: dict[str, Any] = worker.claim(pool).body["work"][0]["lease"]
    return lease


def test_a_lease_on_the_wire_says_nothing_that_could_contradict_the_store(
    admin: Api, accounts: dict[str, Worker]
) -> None:
    lease = lease_of(admin, accounts["wa"], "pool-a")
    other = lease_of(admin, accounts["wb"], "pool-b")

    assert sorted(lease) == ["command_id", "epoch"]
    for more in ({"execution_id": other["command_id"]}, {"owner": "wb/w"}):
        answer = accounts["wa"].ask("source", {**lease, **more})
        assert (answer.status, answer.body["kind"]) == (422, "request.unknown_field")


@pytest.mark.parametrize("path", ["source", "value", "result", "secret", "token"])
def test_what_is_leased_to_others_is_refused(
    admin: Api, accounts: dict[str, Worker], path: str
) -> None:
    lease = lease_of(admin, accounts["wb"], "pool-b")
    more: dict[str, Any] = {
        **{"source": {}, "value": {"reference": {}}, "result": {"key": "0" * 64}},
        **{"secret": {"task": "task_1"}, "token": {"task": "task_1", "auth": ""}},
    }[path]
    thieves = [accounts["wa"], accounts["wa.b"], Worker(admin, "w")]
    thieves.append(Worker(accounts["wa"].api, "../wb/w"))
    for thief in thieves:
        answer = thief.ask(path, lease, **more)
        assert (answer.status, answer.body["kind"]) == (403, "lease.not_owner")


@pytest.mark.parametrize(
    "more",
    [
        {"name": "kept"},
        {"provider": "file", "path": "/etc/passwd"},
        {"provider": "env", "path": "NOETL_HOME"},
    ],
)
def test_no_secret_is_named_by_a_request(
    admin: Api, accounts: dict[str, Worker], more: dict[str, str]
) -> None:
    kept = admin.post("/api/keychain/kept", {"value": SECRET})
    assert kept.status in (200, 201, 204), kept.body
    worker = accounts["wa"]
    lease = lease_of(admin, worker, "pool-a")

    bare = worker.ask("secret", lease, **more)
    tasked = worker.ask("secret", lease, task="task_1", name=more.get("name"))

    assert bare.status == 422
    assert (tasked.status, tasked.body["kind"]) == (422, "secret.denied")
    assert SECRET not in str((bare.body, tasked.body))


@pytest.mark.parametrize("name", ["ключ", "w\n", "w w", "", "x" * 401])
def test_a_workers_name_is_one_plain_word(
    accounts: dict[str, Worker], name: str
) -> None:
    answer = Worker(accounts["wa"].api, name).claim("pool-a")

    assert (answer.status, answer.body["kind"]) == (422, "request.invalid")


@pytest.mark.parametrize("name", ["wa/w", "wa/", "/wa"])
def test_an_accounts_name_has_no_slash_in_it(admin: Api, name: str) -> None:
    """So that no account and worker together are named like two others."""
    answer = admin.post("/api/users", {"name": name, "roles": ["worker:pool-a"]})

    assert (answer.status, answer.body["kind"]) == (422, "account.name")


def test_a_workers_token_opens_no_other_route(accounts: dict[str, Worker]) -> None:
    api, opened = accounts["wa"].api, []
    theirs = {"work:claim", "public", "signed-in", "webhook"}
    for each in endpoints():
        if each.permission in theirs:
            continue
        path = each.plain_path
        for name in each.params:
            path = path.replace(f"{{{name}}}", "x")
        answer = api.call(each.method, path, None if each.method == "GET" else {})
        if answer.status not in (403, 404):
            opened.append((each.method, path, answer.status))

    assert opened == []


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        pytest.param({}, "upgrade the worker", id="version 1"),
        pytest.param(
            {"wait": 20.0, "again": False, "holds": [], "protocol": 2},
            "upgrade the worker",
            id="version 2",
        ),
        pytest.param({"protocol": 9}, "upgrade the server first", id="version 9"),
    ],
)
def test_a_worker_of_another_version_gets_a_hint(
    accounts: dict[str, Worker], fields: dict[str, Any], hint: str
) -> None:
    """Also one whose claim has fields that this version does not know."""
    body = {"worker": "w", "pool": "pool-a", "slots": 1, **fields}

    answer = accounts["wa"].api.post("/api/worker/claim", body)

    assert (answer.status, answer.body["kind"]) == (409, "worker.version")
    assert hint in answer.body["detail"]


def test_code_does_not_see_its_workers_token_in_its_environment(
    tmp_path: Path,
) -> None:
    ceilings = Ceilings(code_pools=frozenset({"pool-env"}))
    running = Running(tmp_path / "server", ceilings=ceilings)
    admin = Api(running.url, running.token)
    api = running.person("env-worker", "worker:default", "worker:pool-env")
    assert api.token is not None
    shows = playbook(
        "environ",
        """
        - step: start
          tool:
            kind: python
            code: |
              import os
              result = dict(os.environ)
            spec: {pool: pool-env}
        """,
    )
    worker = WorkerProcess(tmp_path, running.url, api.token, pool="pool-env")
    try:
        document = admin.run(shows)
    finally:
        worker.stop()
        running.stop()

    assert document["status"] == "completed", document["error"]
    given = {name for name in document["result"] if name.startswith("NOETL_")}
    assert given <= {"NOETL_ACTION_ID", "NOETL_ATTEMPT"}
    assert api.token not in str(document)


def test_no_pattern_of_a_field_admits_a_line_feed_at_the_end() -> None:
    """``$`` alone matches before the last line feed of a text, too."""
    found = []
    for folder in ("api", "ports", "runtime", "triggers"):
        for file in sorted((Path(noetl.__file__).parent / folder).rglob("*.py")):
            for text in re.findall(r'pattern=r[bf]?"([^"]+)"', file.read_text()):
                if text.endswith("$") and not text.endswith(r"(?!\n)$"):
                    found.append((file.name, text))

    assert found == []
