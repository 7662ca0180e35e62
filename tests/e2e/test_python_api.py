"""``noetl.run`` and the clients, as a program uses them."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import ASKS, Running, playbook

import noetl
from noetl import (
    AsyncClient,
    Client,
    ConfigError,
    ExecutionFailed,
    PlaybookInvalid,
    Refused,
)

ROOT = Path(__file__).parents[2]
HELLO = ROOT / "examples" / "hello.yaml"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"
BROKEN = f"""{HEAD}workflow:
- step: start
  tool: {{kind: python, code: "print('a line')\\nraise ValueError('no')"}}
"""
SIGNATURES = {
    "run": "playbook workload=None * timeout=None labels=None playbooks=()"
    " extensions=() home=None check=True",
    "Client": "url=None token=None * ca=None home=None",
    "Client.exec": "path workload=None * version=None key=None again=None labels=None"
    " concurrency=None wait=False timeout=None",
    "Client.get": "execution_id",
    "Client.list": "**filters",
    "Client.wait": "execution_id timeout=None",
    "Client.events": "execution_id **filters",
    "Client.follow": "execution_id",
    "Client.logs": "execution_id **filters",
    "Client.download": "execution_id ref file",
    "Client.signal": "execution_id name data=None",
    "Client.cancel": "execution_id",
    "Client.pause": "execution_id",
    "Client.resume": "execution_id",
    "Client.retry": "execution_id **changes",
    "Client.fork": "execution_id at **changes",
    "Client.plan": "execution_id **changes",
    "Client.register": "playbook",
}


def test_the_import_loads_nothing_else() -> None:
    code = "import sys, noetl; print(*(m for m in sys.modules if 'noetl.' in m))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == ""


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_signature_stays(name: str) -> None:
    found: object = noetl
    for part in name.split("."):
        found = getattr(found, part)
    words = []
    for each in inspect.signature(found).parameters.values():  # type: ignore[arg-type]
        if each.kind is each.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        given = "" if each.default is each.empty else f"={each.default!r}"
        stars = {each.VAR_KEYWORD: "**", each.VAR_POSITIONAL: "*"}.get(each.kind, "")
        if each.name != "self":
            words.append(f"{stars}{each.name}{given}")

    assert " ".join(words) == SIGNATURES[name]


def test_both_clients_have_the_same_calls() -> None:
    def calls(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert calls(Client) == calls(AsyncClient)
    assert inspect.signature(noetl.run) == inspect.signature(noetl.arun)


def test_a_playbook_runs_to_its_result(tmp_path: Path) -> None:
    found = noetl.run(
        HELLO, {"name": "Ada"}, labels={"team": "a"}, home=tmp_path / "home"
    )

    assert (found.status, found.result) == ("completed", "Hello, Ada!")
    assert found.document["labels"] == {"team": "a"}
    assert [(step.step, step.status) for step in found.steps] == [("greet", "done")]
    names = [event["name"] for event in found.events()]
    assert names[0] == "playbook.execution.requested"
    assert names[-1] == "playbook.processed"
    assert "<b>examples/hello · completed" in found._repr_html_()


def test_it_runs_where_an_event_loop_runs(tmp_path: Path) -> None:
    async def notebook() -> tuple[str, str]:
        first = noetl.run(HELLO, home=tmp_path / "home")
        second = await noetl.arun(HELLO, home=tmp_path / "home")
        return first.result, second.result

    assert asyncio.run(notebook()) == ("Hello, world!", "Hello, world!")


def test_a_failure_carries_the_execution(tmp_path: Path) -> None:
    with pytest.raises(ExecutionFailed, match=r"failed: tool\.exception") as caught:
        noetl.run(BROKEN, home=tmp_path / "home")

    failed = caught.value.execution
    assert caught.value.kind == "tool.exception"
    assert [line["text"] for line in failed.logs()] == ["a line"]
    assert "ValueError: no" in failed._repr_html_()
    again = noetl.run(BROKEN, home=tmp_path / "home", check=False)
    assert again.status == "failed"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param({"playbook": "no.yaml"}, ConfigError, "no such file", id="file"),
        pytest.param(
            {"playbook": HEAD + "workflow: [{step: a, tool: {kind: pithon}}]\n"},
            PlaybookInvalid,
            r"4:35: unknown tool kind 'pithon' \(did you mean 'python'\?\)",
            id="playbook",
        ),
        pytest.param(
            {"playbook": HELLO, "workload": {"name": object()}},
            ConfigError,
            "workload: it cannot become JSON",
            id="workload",
        ),
        pytest.param(
            {"playbook": HELLO, "labels": {"a b": "c"}},
            ConfigError,
            "labels: 'a b' is not the name of a label",
            id="label",
        ),
    ],
)
def test_a_mistake_is_an_error_with_its_place(
    arguments: dict[str, object], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        noetl.run(**arguments, home=tmp_path / "home")  # type: ignore[arg-type]


def test_a_cancelled_task_leaves_an_execution_to_resume(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = f"""{HEAD}workflow:
- step: a
  tool:
    - mark: {{kind: shell, command: [touch, {mark}]}}
    - later: {{kind: wait, signal: go}}
"""

    async def leave() -> None:
        running = asyncio.ensure_future(noetl.arun(text, home=tmp_path / "home"))
        await asyncio.to_thread(wait_for_file, mark, running)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(leave())
    done = noetl_command(tmp_path / "home", "cancel", "last")

    assert done.returncode == 0, done.stderr


def wait_for_file(path: Path, running: asyncio.Future[noetl.Execution]) -> None:
    while not path.exists():
        assert not running.done(), running


def noetl_command(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "noetl", *words],
        capture_output=True,
        text=True,
        check=False,
        env={"NOETL_HOME": str(home), "PATH": "/usr/bin:/bin"},
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("server") / "home")
    yield running
    running.stop()


@pytest.fixture
def client(server: Running) -> Client:
    return Client(server.url, server.token)


def test_a_client_starts_follows_signals_and_waits(client: Client) -> None:
    path = client.register(ASKS)["path"]
    begun = client.exec(path, key="one")
    assert client.exec(path, key="one").id == begun.id
    with pytest.raises(TimeoutError, match=begun.id):
        client.wait(begun.id, timeout=0.1)

    for event in client.follow(begun.id):
        if event["name"] == "task.suspended":
            client.signal(begun.id, "go")

    done = client.wait(begun.id, timeout=60)
    assert done.status == "completed"
    assert [each.execution_id for each in client.list(path=path)] == [begun.id]
    assert [e["seq"] for e in client.events(begun.id)] == [
        e["seq"] for e in done.events()
    ]


def test_a_failed_execution_is_retried_with_other_inputs(client: Client) -> None:
    path = client.register(DIVIDE)["path"]
    failed = client.exec(path, {"by": 0}, wait=True, timeout=60)
    assert failed.status == "failed"
    assert [each["text"] for each in client.logs(failed.id)] == ["dividing"]
    plan = client.plan(failed.id, workload={"by": 2})
    assert plan["workload"] == {"by": 2}

    again = client.retry(failed.id, workload={"by": 2})

    assert client.wait(again.id, timeout=60).result == 4.0


def test_the_async_client_does_the_same(server: Running, client: Client) -> None:
    path = client.register(ASKS.replace("asks", "asks_async"))["path"]

    async def work() -> tuple[str, list[str]]:
        other = AsyncClient(server.url, server.token)
        begun = await other.exec(path)
        names = []
        async for event in other.follow(begun.id):
            names.append(event["name"])
            if event["name"] == "task.suspended":
                await other.signal(begun.id, "go")
        return (await other.wait(begun.id)).status, names

    status, names = asyncio.run(work())

    assert (status, names[-1]) == ("completed", "playbook.processed")


def test_what_a_server_refuses_has_a_kind(server: Running, client: Client) -> None:
    with pytest.raises(Refused) as refused:
        client.exec("no/such/playbook")
    assert refused.value.kind == "playbook.not_found"
    with pytest.raises(ConfigError, match="not the whole id"):
        client.get("019a")
    with pytest.raises(noetl.Unreachable, match="no server is running"):
        Client(home="/nonexistent")


DIVIDE = playbook(
    "divide",
    """
    - step: divide
      tool:
        kind: python
        args: {by: "{{ workload.by }}"}
        code: |
          def main(by):
              print("dividing")
              return 8 / by
    """,
)
