"""Attacks that worked once, from outside: a playbook or a request in, an answer out.

They use nothing of the code but the HTTP API, on a server that runs tools by itself,
and on one with PostgreSQL whose tools run in a worker elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import asyncpg
import pytest
from databases import PASSWORD
from servers import HEAD, Api, Running, WorkerProcess, playbook

from noetl.engine.limits import Ceilings
from noetl.runtime.worker_protocol.messages import PROTOCOL

VARIABLE = "CANARY_OF_THE_OPERATOR"
CANARY = "canary-of-the-operator-81f3"
OTHERS = "canary-of-another-team-c20a"
PEM = [f"line-{number}-of-a-private-key-{number * 7919}" for number in range(4)]
SPELLED = "{{ keychain.t | string | reverse | join('') }}"
"""Backwards, which no mask can recognize."""


class Stage(NamedTuple):
    """A server, those who attack it, and the files and secrets they are after."""

    running: Running
    admin: Api
    author: Api
    developer: Api
    worker: Api
    pool: str
    homes: list[Path]

    def text(self, tool: dict[str, Any], keychain: Any = ()) -> str:
        """A playbook of team finance with one task, in the pool of this stage."""
        tool = {**tool, "spec": {"pool": self.pool, **tool.get("spec", {})}}
        steps = [{"step": "start", "tool": tool}]
        return (
            f"{HEAD}metadata: {{name: attack, path: finance/attack}}\n"
            f"keychain: {json.dumps([*keychain])}\nworkflow: {json.dumps(steps)}\n"
        )

    def attack(
        self, tool: dict[str, Any], keychain: Any = (), by: Api | None = None
    ) -> str:
        """All that the attacker, by default the author, sees of a run in one text."""
        api = by or self.author
        asked = {"playbook": self.text(tool, keychain)}
        answer = api.post("/api/executions?wait=30", asked)
        seen = [answer.body]
        if execution_id := answer.body.get("execution_id"):
            seen.append(api.get(f"/api/executions/{execution_id}/events").body)
        return json.dumps(seen)

    def check(self, seen: str) -> None:
        """Fail if a secret is in it, also backwards."""
        for secret in (self.running.token, CANARY, OTHERS):
            assert secret not in seen
            assert secret[::-1] not in seen


class Peer:
    """A listener on loopback that keeps what it is sent."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.heads: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(0.2)  # a client of NATS listens first
                self.heads.append(b"")
                self.heads[-1] = connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


def make_database(port: int) -> str:
    """A database of this module alone."""
    server = f"postgresql://postgres:{quote(PASSWORD, safe='')}@127.0.0.1:{port}"

    async def make() -> None:
        connection = await asyncpg.connect(f"{server}/postgres")
        await connection.execute("DROP DATABASE IF EXISTS black_box WITH (FORCE)")
        await connection.execute("CREATE DATABASE black_box")
        await connection.close()

    asyncio.run(make())
    return f"{server}/black_box"


def make_stage(running: Running, pool: str, homes: list[Path]) -> Stage:
    admin = Api(running.url, running.token)
    for home in homes:
        (home / "canary.txt").write_text(CANARY)
    client = {"client_id": "hr", "client_secret": OTHERS, "token_url": "https://x"}
    for name, value, team in (
        ("hr_db", OTHERS, "hr/*"),
        ("hr_client", client, "hr/*"),
        ("pem", "\n".join(PEM), "finance/*"),
    ):
        body = {"value": value, "for": [team]}
        assert admin.post(f"/api/keychain/{name}", body).status == 201
    return Stage(
        running,
        admin,
        running.person("black-author", "author:finance/*"),
        running.person("black-developer", "developer:finance/*"),
        running.person("black-worker", "worker:claimed", "worker:elsewhere"),
        pool,
        homes,
    )


@pytest.fixture(scope="module", params=["embedded", "cluster"])
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    patch = pytest.MonkeyPatch()
    for name in (VARIABLE, "VAULT_TOKEN"):
        patch.setenv(name, CANARY)
    folder = tmp_path_factory.mktemp("black")
    if request.param == "embedded":
        running = Running(folder / "home")
        yield make_stage(running, "default", [running.home.folder])
    else:
        database = make_database(request.getfixturevalue("postgres_server"))
        allowed = Ceilings(code_pools=frozenset({"elsewhere"}))
        running = Running(folder / "home", database=database, ceilings=allowed)
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        stage = make_stage(running, "elsewhere", [running.home.folder, elsewhere])
        worker = WorkerProcess(
            elsewhere, running.url, str(stage.worker.token), pool="elsewhere"
        )
        yield stage
        worker.stop()
    running.stop()
    patch.undo()


# -- files, secrets and addresses of the host (C1, H6) ---------------------------------


def test_an_author_reads_no_file_of_a_home(stage: Stage) -> None:
    home = stage.homes[-1]  # of the process that runs tools
    for file in ("token", "canary.txt"):
        if (home / file).exists():
            sql = f"SELECT reverse(content) FROM read_text('{home}/{file}')"
            stage.check(stage.attack({"kind": "duckdb", "command": sql}))


def test_an_author_writes_no_file_of_a_home(stage: Stage) -> None:
    file = stage.homes[-1] / "written.csv"
    stage.attack({"kind": "duckdb", "command": f"COPY (SELECT 1) TO '{file}'"})
    assert not file.exists()


@pytest.mark.parametrize(
    "entry",
    [
        {"kind": "file", "path": "HOME/token"},
        {"kind": "file", "path": "HOME/canary.txt"},
        {"kind": "env", "variable": VARIABLE},
        {"kind": "secret_manager", "provider": "file", "path": "HOME/token"},
        {"kind": "secret_manager", "provider": "env", "path": VARIABLE},
        {"kind": "secret_manager", "path": "hr_db"},
    ],
    ids=lambda entry: "-".join(entry.values()).replace("/", "-"),
)
def test_an_author_gets_no_secret_of_the_host_or_of_another_team(
    stage: Stage, entry: dict[str, str]
) -> None:
    for home in stage.homes:
        filled = {key: text.replace("HOME", str(home)) for key, text in entry.items()}
        tool = {"kind": "noop", "result": SPELLED}
        stage.check(stage.attack(tool, [{"name": "t", **filled}]))


@pytest.mark.parametrize(
    "entry",
    [
        {"kind": "vault", "path": "secret/data/app", "address": "PEER"},
        {"kind": "oauth2", "path": "hr_client", "token_url": "PEER"},
    ],
    ids=["vault", "oauth2"],
)
def test_no_credential_is_sent_where_an_author_says(
    stage: Stage, peer: Peer, entry: dict[str, str]
) -> None:
    filled = {key: text.replace("PEER", peer.url) for key, text in entry.items()}
    stage.attack({"kind": "noop", "result": SPELLED}, [{"name": "t", **filled}])
    assert peer.heads == []


@pytest.mark.parametrize(
    "tool",
    [
        {"kind": "http", "url": "PEER"},
        {"kind": "http", "url": "http://192.0.2.7/", "spec": {"proxy": "PEER"}},
        {"kind": "postgres", "dsn": "postgresql://u:p@HERE/d", "command": "SELECT 1"},
    ],
    ids=["http", "proxy", "postgres"],
)
def test_an_author_connects_to_nothing_that_is_local(
    stage: Stage, peer: Peer, tool: dict[str, Any]
) -> None:
    text = json.dumps(tool).replace("PEER", peer.url)
    seen = stage.attack(json.loads(text.replace("HERE", f"127.0.0.1:{peer.port}")))
    assert peer.heads == []
    assert "blocked_address" in seen


# -- code (H4) -------------------------------------------------------------------------

STEALS = """
import glob
def main(home):
    seen = []
    for path in [f'{home}/token', f'{home}/canary.txt', *glob.glob('/proc/*/environ')]:
        try:
            with open(path, errors='replace') as file:
                seen += [line[::-1] for line in file.read().split(chr(0))
                         if 'canary-of' in line or line.startswith('ntl_')]
        except OSError:
            pass
    try:
        open(f'{home}/written.txt', 'w').close()
    except OSError:
        pass
    return seen
"""


@pytest.mark.parametrize("kind", ["python", "shell"])
def test_code_of_a_developer_reaches_no_file_of_a_home(stage: Stage, kind: str) -> None:
    home = stage.homes[-1]
    command = f"rev {home}/token {home}/canary.txt; echo x > {home}/written.txt"
    tool = {
        "python": {"kind": kind, "code": STEALS, "args": {"home": str(home)}},
        "shell": {"kind": kind, "command": command},
    }[kind]

    stage.check(stage.attack(tool, by=stage.developer))

    assert not (home / "written.txt").exists()


# -- the token of a worker (C3, H1) ----------------------------------------------------


def claim(stage: Stage, marked: str) -> tuple[str, dict[str, Any]]:
    """An execution with this text in its playbook, and the lease of its first step."""
    tool = {"kind": "noop", "result": marked, "spec": {"pool": "claimed"}}
    execution_id = stage.admin.start(stage.text(tool))
    body = {"worker": marked, "pool": "claimed", "slots": 1, "protocol": PROTOCOL}
    [order] = stage.worker.post("/api/worker/claim", body).body["work"]
    return execution_id, order["lease"]


@pytest.mark.parametrize(
    "asked",
    [
        {"provider": "file", "path": "HOME/token"},
        {"provider": "env", "path": VARIABLE},
        {"name": "hr_db"},
    ],
    ids=["file", "env", "stored"],
)
def test_a_lease_opens_no_secret_that_its_step_does_not_name(
    stage: Stage, asked: dict[str, str]
) -> None:
    _, lease = claim(stage, "mine")
    home = str(stage.running.home.folder)
    body = {"worker": "mine", "lease": lease}
    body |= {key: text.replace("HOME", home) for key, text in asked.items()}

    for more in ({}, {"task": "start"}, {"task": "task_1"}):
        answer = stage.worker.post("/api/worker/secret", {**body, **more})
        assert answer.status in (403, 422), answer.body
        stage.check(str(answer.body))


def test_a_lease_opens_no_other_execution(stage: Stage) -> None:
    other, _ = claim(stage, "theirs")
    _, lease = claim(stage, "mine")
    forged = {**lease, "execution_id": other}
    loop = {"store": "noetl", "key": f"log:{other}-1", "range": "1-9", "size": 1}

    for call, named, more in (
        ("source", forged, {}),
        ("value", forged, {"reference": loop}),
        ("value", lease, {"reference": loop}),
    ):
        body = {"worker": "mine", "lease": named, **more}
        answer = stage.worker.post(f"/api/worker/{call}", body)
        assert answer.status in (403, 409, 422), answer.body
        assert "theirs" not in str(answer.body)


# -- masks, references and budgets (H2, L2, L3) ----------------------------------------


def test_the_lines_of_a_secret_are_masked_in_an_answer(stage: Stage) -> None:
    code = "def main(t): return t.split('\\n')"
    tool = {"kind": "python", "code": code, "args": {"t": "{{ keychain.t }}"}}
    entry = {"name": "t", "kind": "secret_manager", "path": "pem"}

    document = stage.admin.run(stage.text(tool, [entry]))

    assert document["status"] == "completed", document
    assert document["result"] == ["***"] * len(PEM)


def test_a_reference_of_a_caller_is_refused(stage: Stage) -> None:
    """H2: it took slots, or stopped tools of others, when the step had begun."""
    text = stage.text({"kind": "noop", "result": "{{ ctx.big.ref }}"})
    for more in ({"key": "log:x-1"}, {"key": "log:x-1", "range": 5}, {"key": {}}):
        big = {"ref": {"store": "noetl", "size": 1, **more}, "pad": "x" * 70_000}
        asked = {"playbook": text, "ctx": {"big": big}}
        answer = stage.author.post("/api/executions", asked)
        assert answer.status == 422, answer.body
        assert answer.body["kind"] == "ref.not_owner"


def test_ever_new_formats_of_dates_have_a_budget(running: Running, admin: Api) -> None:
    date = "('2026-01-02 03:04:05' ~ i) | parse_datetime('%Y-%m-%d %H:%M:%S' ~ i)"
    result = f"{{% for i in range(1000) %}}{{% set x = {date} %}}{{% endfor %}}"
    step = json.dumps({"step": "start", "tool": {"kind": "noop", "result": result}})

    document = admin.run(playbook("dates", f"- {step}"))

    assert document["status"] == "failed", "200 ms of the processor were granted"
    assert document["error"]["kind"] == "template.budget"
