"""I-36: what an execution has stored is read by it and its relatives alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from servers import Api, Running, playbook

from noetl.runtime.worker_protocol.messages import PROTOCOL

pytestmark = pytest.mark.spec("S-48", "S-65")

SECRET = "the salaries of all "
OWNER = playbook(
    "owner",
    f"""
    - {{step: start, tool: {{kind: noop, result: "{{{{ '{SECRET}' * 9000 }}}}"}}}}
    """,
)
CHILD = playbook(
    "child",
    """
    - step: start
      tool: {kind: noop, result: "{{ workload.given | string | length }}"}
    """,
    root="workload: {given: null}\n",
)
WAITS = playbook(
    "waits", "- {step: start, spec: {pool: far}, tool: {kind: noop, result: 1}}"
)


def reference(key: str, hint: str = "text") -> str:
    checksum = f"checksum: 'sha256:{key}'"
    return f"{{store: noetl, key: '{key}', size: 9, {checksum}, schema_hint: {hint}}}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "home")
    yield running
    running.stop()


@pytest.fixture
def api(server: Running) -> Api:
    return Api(server.url, server.token)


@pytest.fixture
def key(api: Api) -> str:
    found: str = api.run(OWNER)["result"]["key"]
    return found


STEALING = {
    "as an input of a tool": """
        - step: start
          tool: {kind: python, args: {x: FORGED}, code: "result = x"}
        """,
    "by way of ctx": """
        - step: start
          tool:
            kind: noop
            spec:
              policy: {rules: [{else: {then: {do: continue, set_ctx: {x: FORGED}}}}]}
          next: {arcs: [{step: read}]}
        - step: read
          tool: {kind: python, args: {x: "{{ ctx.x }}"}, code: "result = x"}
        """,
    "by way of an arc, where the server reads it": """
        - step: start
          tool: {kind: noop}
          next: {arcs: [{step: read, args: {x: FORGED}}]}
        - step: read
          spec: {policy: {admit: {rules: [{when: "{{ 'the' in args.x }}",
            then: {allow: true}}, {else: {then: {allow: true}}}]}}}
          tool: {kind: python, args: {x: "{{ args.x }}"}, code: "result = x"}
        """,
    "as a table": """
        - step: start
          tool:
            kind: duckdb
            tables: {t: FORGED}
            command: SELECT * FROM t
        """,
    "as the input of a child": """
        - step: start
          tool: {kind: playbook, path: tests/child, args: {given: FORGED}}
        """,
    "as the items of a loop": """
        - step: start
          tool:
            kind: noop
            spec:
              policy: {rules: [{else: {then: {do: continue, set_ctx: {x: FORGED}}}}]}
          next: {arcs: [{step: each}]}
        - step: each
          loop: {in: "{{ ctx.x }}", iterator: item}
          tool: {kind: noop, result: "{{ iter.item }}"}
        """,
}


@pytest.mark.parametrize("how", STEALING)
def test_what_another_execution_stored_cannot_be_read(
    api: Api, key: str, how: str
) -> None:
    hint = "list" if "table" in how or "loop" in how else "text"
    workflow = STEALING[how].replace("FORGED", reference(key, hint))
    assert api.post("/api/catalog", {"playbook": CHILD}).status in (200, 201)
    large = {"of its own": "x" * 70_000}  # so that it has references at all
    execution_id = api.start(playbook("thief", workflow), workload=large)

    done = api.finish(execution_id)
    events = api.get(f"/api/executions/{execution_id}/events").body

    assert done["status"] == "failed", done
    assert done["error"]["kind"] == "ref.not_owner", done["error"]
    assert SECRET not in str(events)


def test_what_a_child_stored_is_its_parents(api: Api) -> None:
    makes = playbook(
        "makes",
        """
        - step: start
          loop: {in: "{{ range(3) }}", iterator: n}
          tool: {kind: noop, result: "{{ 'row' * 30000 }}"}
        """,
    )
    uses = playbook(
        "uses",
        """
        - step: start
          tool: {kind: playbook, path: tests/makes}
          next: {arcs: [{step: count, args: {rows: "{{ event.payload.result }}"}}]}
        - step: count
          tool: {kind: noop, result: "{{ args.rows | map('length') | sum }}"}
        """,
    )
    assert api.post("/api/catalog", {"playbook": makes}).status in (200, 201)

    assert api.run(uses)["result"] == 3 * 90_000


CLAIM = {
    **{"worker": "w", "pool": "far", "slots": 1, "wait_seconds": 10},
    "protocol": PROTOCOL,
}


@pytest.fixture
def lease(api: Api) -> dict[str, Any]:
    """Of a pipeline that waits for a worker of the pool ``far``."""
    api.start(WAITS)
    [order] = api.post("/api/worker/claim", CLAIM).body["work"]
    found: dict[str, Any] = order["lease"]
    return found


def test_a_worker_reads_only_for_the_execution_that_it_works_for(
    api: Api, key: str, lease: dict[str, Any]
) -> None:
    forged = {"store": "noetl", "key": key, "size": 9}
    said = {"worker": "w", "lease": lease}
    refused = [
        api.post("/api/worker/value", {**said, "reference": forged}),
        api.post("/api/worker/result", {"worker": "w", "lease": lease, "key": key}),
        api.post("/api/worker/result", {**said, "key": key, "only_check": True}),
    ]

    for answer in refused:
        assert (answer.status, answer.body["kind"]) == (403, "ref.not_owner")


def test_what_a_worker_sends_must_be_what_it_announced(
    api: Api, lease: dict[str, Any]
) -> None:
    def send(data: bytes, size: int, key: str = "0" * 64, **more: str) -> Any:
        query = {**lease, "worker": "w", "key": key, "size": size}
        text = "&".join(f"{name}={value}" for name, value in query.items())
        return api.call("PUT", f"/api/worker/results?{text}", data, **more)

    other = send(b"abc", 3)
    longer = send(b"abcd", 3)
    shorter = send(b"ab", 3)
    no_key = send(b"ab", 2, "../../etc/passwd")

    assert [each.status for each in (other, longer, shorter, no_key)] == [
        *(503, 413, 503),
        422,
    ]
    assert other.body["kind"] == "ref.corrupt"


def named(key: str, **more: Any) -> dict[str, Any]:
    about = {"size": 9, "checksum": f"sha256:{key}", "schema_hint": "text"}
    return {"store": "noetl", "key": key, **about, **more}


def report(api: Api, lease: dict[str, Any], result: Any, **more: Any) -> dict[str, Any]:
    """Say that the task has stored its result; the reply."""
    task = {"label": "task_1", "attempt": 1}
    payload = {
        "outcome": {"status": "ok", "result": result},
        "directive": {"do": "continue", "next": None},
        "spilled": ["outcome.result"],
    }
    facts = [
        {"name": "step.started"},
        {"name": "task.started", **task},
        {"name": "task.done", **task, "payload": payload},
    ]
    said = {"lease": lease, "number": 1, "facts": facts, **more}
    body = {"worker": "w", "pool": "far", "reports": [said]}
    answer = api.post("/api/events", body)
    assert answer.status == 200, answer.body
    reply: dict[str, Any] = answer.body["replies"][0]
    return reply


def upload(api: Api, lease: dict[str, Any], data: bytes) -> dict[str, Any]:
    query = {**lease, "worker": "w", "key": sha256(data).hexdigest(), "size": len(data)}
    text = "&".join(f"{name}={value}" for name, value in query.items())
    answer = api.call("PUT", f"/api/worker/results?{text}", data)
    assert answer.status == 200, answer.body
    kept: dict[str, Any] = answer.body
    return kept


@pytest.mark.parametrize(
    "how", ["by its key", "inside of a value of its own", "with a made up receipt"]
)
def test_a_worker_cannot_name_what_it_never_had(
    api: Api, key: str, lease: dict[str, Any], how: str
) -> None:
    """Row 93."""
    forged, receipts = named(key), {key: "0" * 64}
    if how == "inside of a value of its own":
        kept = upload(api, lease, json.dumps([named(key)]).encode())
        forged = named(kept["key"], refs=[key])
        receipts = {kept["key"]: kept["receipt"]}
    more = {} if how == "by its key" else {"receipts": receipts}

    reply = report(api, lease, forged, **more)

    assert reply["error"][0] == "ref.not_owner"
    path = f"/api/executions/{lease['command_id'].rpartition('-')[0]}"
    names = [e["name"] for e in api.get(f"{path}/events").body["events"]]
    assert "task.done" not in names
    answer = api.post("/api/worker/result", {"worker": "w", "lease": lease, "key": key})
    assert (answer.status, answer.body["kind"]) == (403, "ref.not_owner")


def test_a_worker_names_what_it_sent_with_the_receipt_for_it(
    api: Api, lease: dict[str, Any]
) -> None:
    """Row 93."""
    data = json.dumps("mine " * 100).encode()
    kept = upload(api, lease, data)

    reply = report(
        api, lease, named(kept["key"]), receipts={kept["key"]: kept["receipt"]}
    )

    assert reply["error"] is None
    execution_id = lease["command_id"].rpartition("-")[0]
    document = api.get(f"/api/executions/{execution_id}").body
    assert document["status"] == "completed"


def test_a_receipt_is_for_one_execution(api: Api, lease: dict[str, Any]) -> None:
    """Row 93: it is worth nothing to another one."""
    kept = upload(api, lease, b'"of the first"')
    api.start(WAITS)
    [order] = api.post("/api/worker/claim", CLAIM).body["work"]
    receipts = {kept["key"]: kept["receipt"]}

    reply = report(api, order["lease"], named(kept["key"]), receipts=receipts)

    assert reply["error"][0] == "ref.not_owner"


def test_a_receipt_is_good_at_every_server_of_a_database(
    tmp_path: Path, postgres: str
) -> None:
    """Row 93: also if the homes of the servers have nothing in common."""
    one = Running(tmp_path / "one", database=postgres, slots=0)
    two = Running(tmp_path / "two", database=postgres, slots=0)
    try:
        here, there = Api(one.url, one.token), Api(two.url, two.token)
        here.start(WAITS)
        [order] = here.post("/api/worker/claim", CLAIM).body["work"]
        kept = upload(here, order["lease"], b'"large"')
        receipts = {kept["key"]: kept["receipt"]}

        reply = report(there, order["lease"], named(kept["key"]), receipts=receipts)

        assert reply["error"] is None
    finally:
        one.stop()
        two.stop()


@pytest.mark.parametrize("spilled", ["outcome.result", [1], {"a": 1}, [["x"]]])
def test_what_was_stored_is_a_list_of_paths(
    api: Api, lease: dict[str, Any], spilled: Any
) -> None:
    payload = {
        "outcome": {"status": "ok", "result": 1},
        "directive": {"do": "continue", "next": None},
        "spilled": spilled,
    }
    fact = {"name": "task.done", "label": "task_1", "attempt": 1, "payload": payload}
    said = {"lease": lease, "number": 1, "facts": [fact]}
    body = {"worker": "w", "pool": "far", "reports": [said]}

    answer = api.post("/api/events", body)

    assert (answer.status, answer.body["kind"]) == (422, "outcome.shape")
