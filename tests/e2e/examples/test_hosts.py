"""The same playbook gives the same result, whatever host executes it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import asyncpg
import pytest
from databases import PASSWORD
from demo_api import EXAMPLES, DemoApi, Noetl
from servers import Api, Running, WorkerProcess

API, DSN, FOLDER = "$API", "$DSN", "$FOLDER"
"""What inputs name: the demo API, a database, a folder of the host."""

QUICK = {"api": API, "patience": "5ms"}
INPUTS: dict[str, dict[str, Any]] = {
    "agent.yaml": QUICK,
    "approval.yaml": {"api": API},
    "cheapest_hotel.yaml": QUICK,
    "countdown.yaml": {"numbers": [1]},
    "daily_report.yaml": {},
    "errors.yaml": {"api": API, "case": "unhandled"},
    "fan_out_fan_in.yaml": {"api": API, "thorough": True},
    "hello.yaml": {"name": "Ada"},
    "hotels.yaml": QUICK,
    "orders.yaml": {"api_url": API},
    "pages_to_duckdb.yaml": {
        **QUICK,
        "database": f"{FOLDER}/o.duckdb",
        "export": f"{FOLDER}/o.parquet",
    },
    "pagination.yaml": {"api": API},
    "postgres_etl.yaml": {"dsn": DSN},
    "quantum_sweep.yaml": {"patience": "20ms", "shots": 100},
    "rooms.yaml": QUICK,
    "secrets.yaml": {"api": API},
    "sub_playbooks.yaml": QUICK,
}
"""Every example, with inputs that make it quick."""

ELSEWHERE = {
    "directives/*.yaml": "they call api.example.com, which is nobody's: they are "
    "simulated, by their tests and for the reference of directives",
    "alert_*.yaml": "they tell people: tests/e2e/examples/test_alerts.py runs them",
    "classic/*.yaml": "they need the extension `classic`: those of the dialect and of "
    "the migration run them",
}
"""Examples that no host can run, and why."""

ORDINARY = {"orders.yaml", "pagination.yaml"}
"""Those that would wait for a second where the demo API says so: here it does not."""

SECRETS: Mapping[str, tuple[str, Mapping[str, str], str]] = {
    "demo_user": ("http_credential", {"username": "demo"}, "password=demo-password"),
    "demo_client": (
        "oauth2",
        {"token_url": f"{API}/oauth/token", "client_id": "demo-client"},
        "client_secret=demo-client-secret",
    ),
    "shop_api": ("http_credential", {"username": "demo"}, "password=demo-password"),
}
YES = {"approved": True, "by": "ada"}


class Host(Protocol):
    """``home`` has its secrets; of its tools, files below ``folder`` are allowed."""

    home: Path
    folder: Path

    def start(self, example: str, inputs: dict[str, Any]) -> Callable[[], Any]:
        """Begin; what is returned waits for the end, and has the document."""
        ...

    def signal(self, execution_id: str, name: str, data: Any) -> None: ...


class OnCommandLine:
    def __init__(self, home: Path) -> None:
        self.home = self.folder = home
        self._noetl = Noetl(home)

    def start(self, example: str, inputs: dict[str, Any]) -> Callable[[], Any]:
        settings = {name: json.dumps(value) for name, value in inputs.items()}
        process = self._noetl.start(example, **settings)
        return lambda: json.loads(process.communicate()[0])

    def signal(self, execution_id: str, name: str, data: Any) -> None:
        done = self._noetl("signal", execution_id, name, "--data", json.dumps(data))
        assert done.returncode == 0, done.stderr


class OnServer:
    def __init__(self, server: Running, folder: Path) -> None:
        self.home, self.folder = server.home.folder, folder
        self._api = Api(server.url, server.token)
        child = (EXAMPLES / "cheapest_hotel.yaml").read_text()
        assert self._api.post("/api/catalog", {"playbook": child}).status == 201

    def start(self, example: str, inputs: dict[str, Any]) -> Callable[[], Any]:
        text = (EXAMPLES / example).read_text()
        execution_id = self._api.start(text, workload=inputs)
        return lambda: self._api.finish(execution_id)

    def signal(self, execution_id: str, name: str, data: Any) -> None:
        path = f"/api/executions/{execution_id}/signal"
        assert self._api.post(path, {"name": name, "data": data}).status == 200


@pytest.fixture(scope="module")
def environment() -> Iterator[pytest.MonkeyPatch]:
    """Servers run in this process: their secrets are in its environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEMO_TOKEN", "demo-token")
        patch.setenv("NOETL_NETWORK_PRIVATE", "allow")  # the demo API is on loopback
        yield patch


def allow_folder(environment: pytest.MonkeyPatch, folders: Folders) -> Path:
    """A folder that tools of the servers started next may use."""
    folder = folders.mktemp("data")
    environment.setenv("NOETL_FILES_ROOTS", str(folder))
    return folder


def make_database(port: int, name: str) -> str:
    """One that no other test empties."""
    from urllib.parse import quote

    server = f"postgresql://postgres:{quote(PASSWORD, safe='')}@127.0.0.1:{port}"

    async def make() -> None:
        connection = await asyncpg.connect(f"{server}/postgres")
        await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()

    asyncio.run(make())
    return f"{server}/{name}"


@pytest.fixture(scope="module")
def dsn(postgres_server: int) -> str:
    return make_database(postgres_server, "etl")


Prepare = Callable[[Host], Host]


@pytest.fixture(scope="module")
def prepare(running_api: DemoApi, environment: pytest.MonkeyPatch) -> Prepare:
    def store(host: Host) -> Host:
        noetl = Noetl(host.home)
        for name, (kind, fields, secret) in SECRETS.items():
            known = [f"--field={k}={v}" for k, v in fields.items()]
            known = [each.replace(API, running_api.url) for each in known]
            field, _, value = secret.partition("=")
            order = ["set", name, "--kind", kind, *known, "--field", field]
            done = noetl("keychain", *order, stdin=f"{value}\n")
            assert done.returncode == 0, done.stderr
        where = ("--kind", "env", "--field", "variable=DEMO_TOKEN")
        done = noetl("keychain", "declare", "demo_token", *where)
        assert done.returncode == 0, done.stderr
        return host

    return store


Folders = pytest.TempPathFactory


@pytest.fixture(scope="module")
def at_home(prepare: Prepare, tmp_path_factory: Folders) -> Host:
    return prepare(OnCommandLine(tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def on_server(
    prepare: Prepare, tmp_path_factory: Folders, environment: pytest.MonkeyPatch
) -> Iterator[Host]:
    folder = allow_folder(environment, tmp_path_factory)
    server = Running(tmp_path_factory.mktemp("server"))
    yield prepare(OnServer(server, folder))
    server.stop()


@pytest.fixture(scope="module")
def on_cluster(
    prepare: Prepare,
    tmp_path_factory: Folders,
    postgres_server: int,
    environment: pytest.MonkeyPatch,
) -> Iterator[Host]:
    """A server on PostgreSQL that runs no tools, and two workers on another machine:
    no folder is shared."""
    database = make_database(postgres_server, "hosts")
    server = Running(tmp_path_factory.mktemp("server"), database=database, slots=0)
    folder = allow_folder(environment, tmp_path_factory)
    home = tmp_path_factory.mktemp("workers")
    workers = [WorkerProcess(home, server.url, server.token) for _ in range(2)]
    yield prepare(OnServer(server, folder))
    assert [worker.stop() for worker in workers] == [0, 0]
    server.stop()


class Runs:
    """Runs of examples against the demo API, each of which is made once."""

    def __init__(self, api: DemoApi, dsn: str, at_home: Host) -> None:
        self._api = api
        self._dsn = dsn
        self._at_home = at_home
        self._known: dict[str, Any] = {}

    def expected(self, example: str) -> Any:
        """What ``noetl run`` makes of it."""
        if example not in self._known:
            self._known[example] = self.run(self._at_home, example)
        return self._known[example]

    def run(self, host: Host, example: str) -> Any:
        """The document, as far as it must be the same, and the calls of the API."""
        self._api.post("/reset", {"plan": []} if example in ORDINARY else None)
        known = {API: self._api.url, DSN: self._dsn, FOLDER: str(host.folder)}
        finish = host.start(example, filled(INPUTS[example], known))
        if example == "approval.yaml":
            host.signal(self._asked(), "approval", YES)
        document = finish()
        unknown = {text: name for name, text in known.items()}
        unknown[document["execution_id"]] = "$ID"
        calls = self._api.calls()
        calls.pop("GET /results/inbox", None)  # our own
        return filled(essence(document), unknown), calls

    def _asked(self) -> str:
        items: list[Any] = []
        while not items:
            items = self._api.get("/results/inbox").body["items"]
        found: str = items[0]["execution"]
        return found


@pytest.fixture(scope="module")
def runs(running_api: DemoApi, dsn: str, at_home: Host) -> Runs:
    return Runs(running_api, dsn, at_home)


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """The value with texts for names, or names for texts."""
    text = json.dumps(value)
    for name, found in names.items():
        text = text.replace(json.dumps(name)[1:-1], json.dumps(found)[1:-1])
    return json.loads(text)


def essence(document: dict[str, Any]) -> dict[str, Any]:
    """What the playbook decides, and not the host: no times, no names of secrets."""
    members = ("status", "result", "ctx", "workload", "error")
    found = {name: masked(document[name]) for name in members}
    lines = ("step", "status", "args", "result", "error", "iterations")
    steps = [{name: masked(step[name]) for name in lines} for step in document["steps"]]
    return {**found, "steps": sorted(steps, key=json.dumps)}


def masked(value: Any) -> Any:
    """Handles of secrets and jobs, and hours, are new each time."""
    if isinstance(value, dict):
        news = ("secret", "job", "id", "size") if "secret" in value else ("job",)
        return {k: "…" if k in news else masked(v) for k, v in value.items()}
    return [masked(each) for each in value] if isinstance(value, list) else value


def test_every_example_is_run_or_says_why_not() -> None:
    found = [
        path.relative_to(EXAMPLES)
        for path in sorted(EXAMPLES.rglob("*.yaml"))
        if ".test" not in path.suffixes
    ]

    left = [each for each in found if str(each) not in INPUTS]
    unknown = [each for each in left if not any(map(each.match, ELSEWHERE))]
    assert unknown == []


@pytest.mark.parametrize("pattern", ELSEWHERE)
def test_an_example_that_no_host_can_run(pattern: str) -> None:
    assert list(EXAMPLES.glob(pattern))
    pytest.skip(ELSEWHERE[pattern])


@pytest.mark.spec("S-62", "SRV-02", "SRV-16", "S-71")
@pytest.mark.parametrize("where", ["on_server", "on_cluster"])
@pytest.mark.parametrize("example", INPUTS)
def test_an_example_ends_as_by_noetl_run(
    runs: Runs, example: str, where: str, request: pytest.FixtureRequest
) -> None:
    expected, calls = runs.expected(example)

    found, made = runs.run(request.getfixturevalue(where), example)

    assert found == expected
    assert made == calls
