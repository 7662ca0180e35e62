"""What executions wait for, and who may answer it with what."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import asyncpg
import pytest
from servers import HELLO, Api, Running, playbook

from noetl.runtime.executions import inbox

FORM = playbook(
    "form",
    """
    - step: start
      tool:
        - ask:
            kind: wait
            signal: approval
            timeout: 1h
            roles: [author]
            schema:
              type: object
              required: [approved]
              properties: {approved: {type: boolean}, by: {type: string}}
              additionalProperties: false
    """,
)
MANY = playbook(
    "many",
    """
    - step: start
      tool:
        - first: {kind: wait, signal: go}
        - second: {kind: wait, signal: go}
        - both: {kind: noop, result: "{{ _prev }}"}
    """,
)


def waiting(api: Api, text: str = FORM) -> str:
    """An execution that has begun to wait."""
    execution_id = api.start(text)
    api.await_event(execution_id, "task.suspended")
    return execution_id


def names(api: Api, execution_id: str) -> list[str]:
    events = api.get(f"/api/executions/{execution_id}/events").body["events"]
    return [event["name"] for event in events]


@pytest.mark.spec("S-54")
def test_data_that_do_not_fit_are_refused_with_all_that_is_wrong(api: Api) -> None:
    execution_id = waiting(api)
    body = {"name": "approval", "data": {"aproved": 1, "by": 2}}

    answer = api.post(f"/api/executions/{execution_id}/signal", body)

    assert (answer.status, answer.body["kind"]) == (422, "signal.invalid")
    assert answer.body["problems"] == [
        "'approved' is missing",
        "'aproved' is not expected; did you mean 'approved'?",
        "'by' must be text, found a whole number",
    ]
    [wait] = answer.body["waits"]
    assert (wait["signal"], wait["schema"]["required"]) == ("approval", ["approved"])
    assert "message.received" not in names(api, execution_id)


@pytest.mark.spec("S-54")
def test_an_unmatched_signal_gets_the_names_of_the_waits(api: Api) -> None:
    execution_id = waiting(api)

    answer = api.post(f"/api/executions/{execution_id}/signal", {"name": "aproval"})

    assert (answer.status, answer.body["kind"]) == (409, "signal.unknown")
    assert "did you mean 'approval'?" in answer.body["message"]
    assert answer.body["waits"][0]["step"] == "start"
    assert "message.received" not in names(api, execution_id)


@pytest.mark.spec("S-54")
def test_only_accounts_with_the_role_may_answer(running: Running, api: Api) -> None:
    operator = running.person("olga", "operator")
    elsewhere = running.person("elsa", "operator", "author:other/*")
    author = running.person("alan", "author:tests/*")
    execution_id = waiting(api)
    path, body = f"/api/executions/{execution_id}/signal", {"name": "approval"}
    body["data"] = {"approved": True}

    for person in (operator, elsewhere):
        answer = person.post(path, body)
        assert (answer.status, answer.body["kind"]) == (403, "auth.role")
        assert "is for author, which" in answer.body["message"]
    assert author.post(path, body).status == 200

    assert api.finish(execution_id)["result"] == {"approved": True}
    received = api.await_event(execution_id, "message.received")["payload"]
    assert received["by"] == {"name": "alan", "roles": ["author"]}


@pytest.mark.spec("S-54")
def test_racing_signals_are_taken_once_each_in_their_order(fresh: Api) -> None:
    execution_id = fresh.start(MANY)
    path = f"/api/executions/{execution_id}/signal"
    together = threading.Barrier(8)
    statuses: list[int] = []

    def send(data: int) -> None:
        sender = Api(fresh.url, fresh.token)
        together.wait()
        statuses.append(sender.post(path, {"name": "go", "data": data}).status)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fresh.finish(execution_id)

    events = fresh.get(f"/api/executions/{execution_id}/events").body["events"]
    sent = [e["payload"] | {"seq": e["seq"]} for e in events if e["name"][0:2] == "me"]
    taken = [e["payload"] for e in events if e["name"] == "task.resumed"]
    assert set(statuses) <= {200, 409}
    assert statuses.count(200) == len(sent) >= 2
    assert [each["message"] for each in taken] == [each["seq"] for each in sent[:2]]
    results = [each["answer"]["data"] for each in taken]
    assert results == [each["data"] for each in sent[:2]]


@pytest.mark.spec("S-68", "SRV-15")
def test_a_listing_says_what_is_waited_for(fresh: Api) -> None:
    fresh.run(HELLO)
    ids = [waiting(fresh), waiting(fresh, MANY), waiting(fresh)]
    fresh.post(f"/api/executions/{ids[2]}/pause")

    pages, cursor = [], ""
    while cursor is not None:
        after = f"&cursor={cursor}" if cursor else ""
        page = fresh.get(f"/api/executions?waiting=true&limit=2{after}").body
        pages.append(page["executions"])
        cursor = page["cursor"]

    lines = [line for page in pages for line in page]
    assert [line["execution_id"] for line in lines] == ids[::-1]
    assert [line["status"] for line in lines] == ["paused", "waiting", "waiting"]
    [form] = lines[0]["waits"]
    assert (form["step"], form["task"], form["on"]) == ("start", "ask", "signal")
    assert form["since"] < form["until"]
    assert form["roles"] == ["author"]
    [plain] = lines[1]["waits"]
    assert (plain["signal"], plain["until"], plain["schema"]) == ("go", None, None)
    shown = fresh.get(f"/api/executions/{ids[2]}").body
    assert shown["waits"] == [form]
    filtered = fresh.get("/api/executions?waiting=true&path=tests/many").body
    assert [line["execution_id"] for line in filtered["executions"]] == [ids[1]]


@pytest.mark.spec("S-68")
@pytest.mark.parametrize(
    ("wait", "is_kept"),
    [
        ("signal: go", False),
        ("signal: go, timeout: 1h", False),
        ("for: 1d", False),
        ("for: 30", True),
    ],
)
def test_a_server_forgets_what_only_waits(
    running: Running, api: Api, wait: str, is_kept: bool
) -> None:
    assert running.server is not None
    orchestrator = running.server.orchestrator
    text = playbook("rests", f"- {{step: start, tool: {{kind: wait, {wait}}}}}")
    execution_id = waiting(api, text)
    refused = api.post(f"/api/executions/{execution_id}/signal", {"name": "no"})

    assert refused.status == 409
    assert (execution_id in orchestrator.cache) == is_kept
    assert api.post(f"/api/executions/{execution_id}/cancel").status == 200


@pytest.mark.spec("S-35", "S-55", "S-68")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_what_was_forgotten_goes_on_in_time_and_not_before(
    store: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inbox, "KEEP_WAITING_FOR_S", 0.0)
    options = {}
    if store == "postgres":
        options["database"] = request.getfixturevalue("postgres")
    server = Running(tmp_path / "home", **options)
    api = Api(server.url, server.token)
    flows = {
        "for: 1": "completed",
        "signal: go, timeout: 1": "failed",
        "signal: go": "failed",  # by the deadline of its step
    }
    tool = "- {{step: start, spec: {{deadline: 3}}, tool: {{kind: wait, {}}}}}"
    ids = {api.start(playbook("due", tool.format(wait))): wait for wait in flows}
    try:
        for execution_id, wait in ids.items():
            suspended = api.await_event(execution_id, "task.suspended")
            until = suspended["payload"]["until"]
            document = api.finish(execution_id)
            events = api.get(f"/api/executions/{execution_id}/events").body["events"]
            names = [event["name"] for event in events]

            assert document["status"] == flows[wait]
            assert names.count("step.done") + names.count("step.failed") == 1
            if until is not None:
                [done] = [each for each in events if each["name"] == "task.done"]
                assert done["timestamp"] >= until
    finally:
        server.stop()


@pytest.mark.spec("S-55", "S-68")
def test_a_timer_of_a_step_that_is_over_is_disarmed(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "KEEP_WAITING_FOR_S", 0.0)
    flow = """
    - step: start
      spec: {deadline: 1}
      tool: {kind: noop}
      next: {arcs: [{step: ask}]}
    - {step: ask, tool: {kind: wait, signal: go}}
    """
    server = Running(tmp_path / "home", database=postgres)
    api = Api(server.url, server.token)
    execution_id = waiting(api, playbook("timer", flow))

    async def armed() -> int:
        connection = await asyncpg.connect(postgres)
        try:
            return int(await connection.fetchval("SELECT count(*) FROM noetl.timer"))
        finally:
            await connection.close()

    try:
        scheduled = api.await_event(execution_id, "step.scheduled")
        assert scheduled["payload"]["deadline"] is not None
        give_up = time.monotonic() + 60.0
        while asyncio.run(armed()):
            assert time.monotonic() < give_up, "it is found due again and again"
        assert api.get(f"/api/executions/{execution_id}").body["status"] == "waiting"
    finally:
        server.stop()
