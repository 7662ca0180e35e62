"""RELIABILITY 4.3, 4.4: limits of the operator hold whatever a playbook says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import HELLO, Answer, Api, Running, WorkerProcess, playbook

from noetl.engine.limits import Ceilings
from noetl.runtime.worker_protocol.messages import PROTOCOL

MOST = 300
"""Events that the log of an execution may have in these tests."""

Serve = Callable[..., Api]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start a server of this test, in the folder ``server``; the admin of it."""
    running: list[Running] = []

    def start(**options: Any) -> Api:
        stop()
        running.append(Running(tmp_path / "server", **options))
        return Api(running[-1].url, running[-1].token)

    def stop() -> None:
        if running:
            running.pop().stop()

    yield start
    stop()


def only(*pools: str) -> Ceilings:
    return Ceilings(code_pools=frozenset(pools))


def code(kind: str, pool: str | None = None) -> str:
    named = "" if pool is None else f"spec: {{pool: {pool}}}, "
    inputs = "code: 'result = 42'" if kind == "python" else "command: echo 42"
    return playbook(
        "code", f"- {{step: start, {named}tool: {{kind: {kind}, {inputs}}}}}"
    )


@pytest.mark.parametrize("kind", ["python", "script", "shell"])
def test_by_default_the_default_pool_alone_runs_code(serve: Serve, kind: str) -> None:
    admin = serve()

    here, elsewhere = admin.run(code(kind)), admin.run(code(kind, "gpu"))

    assert here["status"] == "completed", here["error"]
    error = elsewhere["error"]
    assert (elsewhere["status"], error["kind"]) == ("failed", "pool.code_off")
    for word in ("'gpu'", f"'{kind}'", "setting pools.code", "an admin"):
        assert word in error["message"]


def test_an_operator_switches_code_off_in_every_pool(serve: Serve) -> None:
    admin = serve(ceilings=only())

    assert admin.run(code("python"))["error"]["kind"] == "pool.code_off"
    assert admin.run(HELLO)["status"] == "completed"


def test_the_settings_of_the_operator_say_which_pools(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_POOLS_CODE", "gpu")
    admin = serve()

    error = admin.run(code("shell"))["error"]

    assert error["kind"] == "pool.code_off"
    assert "'default'" in error["message"]


def test_of_a_step_that_is_refused_nothing_is_run(serve: Serve) -> None:
    """Neither its tasks without code nor iterations of a loop; its arcs are judged."""
    admin = serve()
    text = playbook(
        "mixed",
        """
        - step: start
          spec: {pool: gpu}
          loop: {in: [1, 2], iterator: x}
          tool:
            - first: {kind: noop}
            - second: {kind: python, code: "result = 1"}
          next:
            arcs: [{step: refused, when: "{{ event.name == 'step.failed' }}"}]
        - {step: refused, tool: {kind: noop, result: handled}}
        """,
    )
    execution_id = admin.start(text)

    document = admin.finish(execution_id)

    log = list(admin.stream(execution_id))
    failed = next(each for each in log if each["name"] == "step.failed")
    assert failed["payload"]["error"]["task"] == "second"
    ran = {each["step"] for each in log if each["name"] == "task.started"}
    assert ran == {"refused"}
    assert document["result"] == "handled"


def test_what_waits_when_code_is_switched_off_is_not_given_to_a_worker(
    serve: Serve,
) -> None:
    admin = serve(ceilings=only("gpu"))
    execution_id = admin.start(code("python", "gpu"))
    admin = serve()
    asked = {"worker": "w", "pool": "gpu", "slots": 1, "protocol": PROTOCOL}

    claimed = admin.post("/api/worker/claim", asked)

    assert claimed.body["work"] == []
    assert admin.finish(execution_id)["error"]["kind"] == "pool.code_off"


def test_a_worker_refuses_code_that_its_own_settings_do_not_allow(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = serve(slots=0)
    monkeypatch.setenv("NOETL_POOLS_CODE", "none")
    assert admin.token is not None
    worker = WorkerProcess(tmp_path / "worker", admin.url, admin.token)
    try:
        document = admin.run(code("python"))
    finally:
        worker.stop()

    assert document["error"]["kind"] == "pool.code_off"
    assert "'default'" in document["error"]["message"]


def test_the_list_of_workers_says_whose_pool_runs_code(serve: Serve) -> None:
    admin = serve()
    for pool in ("default", "gpu"):
        asked = {"worker": pool, "pool": pool, "slots": 1, "protocol": PROTOCOL}
        assert admin.post("/api/worker/claim", asked).status == 200

    workers = admin.get("/api/workers").body["workers"]

    assert {each["pool"]: each["code"] for each in workers} == {
        "default": True,
        "gpu": False,
    }


@pytest.mark.parametrize("timeout", ["365d", '"{{ none }}"', "{total: 99d}"])
@pytest.mark.spec("S-35")
def test_no_timeout_of_a_playbook_outlasts_the_operators(
    serve: Serve, timeout: str
) -> None:
    admin = serve(ceilings=Ceilings(tool_time=1.0))
    text = playbook(
        "sleeps",
        f"""
        - step: start
          tool: {{kind: shell, command: sleep 3000, spec: {{timeout: {timeout}}}}}
        """,
    )

    error = admin.run(text)["error"]

    assert (error["kind"], error["retryable"]) == ("timeout", True)
    assert "not done after 1 s" in error["message"]
    assert "setting limits.tool_time" in error["message"]


CHILD = playbook("waits", "- {step: start, tool: {kind: wait, signal: never}}")
ENDLESS = playbook(
    "endless",
    """
    - step: start
      tool: {kind: noop}
      next: {spec: {mode: inclusive}, arcs: [{step: call}, {step: sleep}, {step: ask}]}
    - {step: call, tool: {kind: playbook, path: tests/waits}}
    - {step: sleep, tool: {kind: wait, for: 3d}}
    - {step: ask, tool: {kind: wait, signal: go}, next: {arcs: [{step: on}]}}
    - {step: on, tool: {kind: noop}, next: {arcs: [{step: back}]}}
    - step: back
      tool: {kind: noop}
      next: {arcs: [{step: on, when: "{{ args.n | default(true) }}"}]}
    """,
)


def children_of(admin: Api) -> list[str]:
    """Executions of the child that have begun."""
    listed = admin.get("/api/executions").body["executions"]
    mine = [each for each in listed if each["playbook"]["path"] == "tests/waits"]
    return [each["execution_id"] for each in mine]


def signal(admin: Api, execution_id: str) -> Answer:
    """Send what the endless branch waits for."""
    return admin.post(f"/api/executions/{execution_id}/signal", {"name": "go"})


@pytest.mark.parametrize("store", ["files", "a database"])
@pytest.mark.spec("S-36")
def test_an_execution_whose_log_has_grown_to_the_limit_fails(
    serve: Serve, store: str, request: pytest.FixtureRequest
) -> None:
    """Its waits and its child end with it, and others go on."""
    more = {} if store == "files" else {"database": request.getfixturevalue("postgres")}
    admin = serve(ceilings=Ceilings(execution_events=MOST), **more)
    assert admin.post("/api/catalog", {"playbook": CHILD}).status == 201
    execution_id = admin.start(ENDLESS)
    while not (children := children_of(admin)):
        pass
    assert signal(admin, execution_id).status == 200

    document = admin.finish(execution_id)

    error, log = document["error"], list(admin.stream(execution_id))
    assert (document["status"], error["kind"]) == ("failed", "limit.exceeded")
    assert "reached 300 events" in error["message"]
    assert "setting limits.execution_events" in error["message"]
    assert MOST <= len(log) < 2 * MOST
    stopped = [admin.finish(each)["error"]["kind"] for each in children]
    assert stopped == ["limit.exceeded"]
    assert admin.run(HELLO)["status"] == "completed"
