"""I-36: what an execution has stored is read by it and its relatives alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import Api, Running, playbook

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


@pytest.fixture
def lease(api: Api) -> dict[str, Any]:
    """Of a pipeline that waits for a worker of the pool ``far``."""
    waits = playbook(
        "waits", "- {step: start, spec: {pool: far}, tool: {kind: noop, result: 1}}"
    )
    api.start(waits)
    asked = {"worker": "w", "pool": "far", "slots": 1, "wait": 10}
    [order] = api.post("/api/worker/claim", asked).body["orders"]
    found: dict[str, Any] = order["lease"]
    return found


def test_a_worker_reads_only_for_the_execution_that_it_works_for(
    api: Api, key: str, lease: dict[str, Any]
) -> None:
    forged = {"store": "noetl", "key": key, "size": 9}
    refused = [
        api.post("/api/worker/value", {"lease": lease, "reference": forged}),
        api.post("/api/worker/result", {"lease": lease, "key": key}),
        api.post("/api/worker/result", {"lease": lease, "key": key, "only_look": True}),
    ]

    for answer in refused:
        assert (answer.status, answer.body["kind"]) == (403, "ref.not_owner")


def test_what_a_worker_sends_must_be_what_it_announced(
    api: Api, lease: dict[str, Any]
) -> None:
    def send(data: bytes, size: int, key: str = "0" * 64, **more: str) -> Any:
        query = {**lease, "key": key, "size": size}
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
