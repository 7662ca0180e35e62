"""S-48: a large value is read as itself wherever it is read, never as a reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from servers import Api, Running, WorkerProcess, playbook

pytestmark = pytest.mark.spec("S-48")

TEXT = "row " * 30_000
"""120,000 characters: more than an event holds."""

PATCH = """{kind: noop, result: "@MAKE", spec: {policy: {rules: [
                {else: {then: {do: continue, @PATCH}}}]}}}"""
MACROS = {
    "@CTX": 'gen: set_ctx: {big: "{{ outcome.result }}"}',
    "@PATH": 'gen: set_ctx: {a.b: "{{ outcome.result }}"}',
    "@PART": 'gen: set_ctx: {big: {inner: ["{{ outcome.result }}"]}}',
    "@ITER": 'gen: set_iter: {big: "{{ outcome.result }}"}',
    "@SMALL": "gen: set_ctx: {small: 1}",
    "@LIST": "{{ ['row ' * 10000, 'row ' * 10000] }}",
    "@MAKE": "{{ 'row ' * 30000 }}",
}


def expand(text: str) -> str:
    """The workflow with tasks and values for its macros."""
    for name, value in MACROS.items():
        if value.startswith("gen: "):
            value = "gen: " + PATCH.replace("@PATCH", value.removeprefix("gen: "))
        text = text.replace(name, value)
    return text


PLACES = {
    "ctx, in the next task of the same step": """
        - step: start
          tool: [@CTX, {read: {kind: noop, result: "{{ ctx.big }}"}}]
        """,
    "ctx by its bare name, in the next task": """
        - step: start
          tool: [@CTX, {read: {kind: noop, result: "{{ big }}"}}]
        """,
    "ctx, three tasks later and after a wait": """
        - step: start
          tool:
            - @CTX
            - other: {kind: noop}
            - nap: {kind: wait, for: 0s}
            - read: {kind: noop, result: "{{ ctx.big }}"}
        """,
    "ctx, in the next step": """
        - step: start
          tool: [@CTX]
          next: {arcs: [{step: read}]}
        - {step: read, tool: {kind: noop, result: "{{ ctx.big }}"}}
        """,
    "a path into ctx": """
        - step: start
          tool:
            - @PATH
            - read: {kind: noop, result: "{{ ctx.a.b }}"}
        """,
    "a mapping around a path into ctx": """
        - step: start
          tool:
            - @PATH
            - read: {kind: noop, result: "{{ (ctx.a).b }}"}
        """,
    "a part of a large ctx": """
        - step: start
          tool:
            - @PART
            - read: {kind: noop, result: "{{ ctx.big.inner[0] }}"}
        """,
    "ctx, through filters": """
        - step: start
          tool: [@CTX, {read: {kind: noop, result: "{{ ctx.big | upper | lower }}"}}]
        """,
    "ctx, in a patch of the next task": """
        - step: start
          tool:
            - @CTX
            - copy: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue,
                set_ctx: {copied: "{{ ctx.big }}"}}}}]}}}
            - read: {kind: noop, result: "{{ ctx.copied }}"}
        """,
    "ctx, in a rule of the next task": """
        - step: start
          tool:
            - @CTX
            - judge: {kind: noop, spec: {policy: {rules: [
                {when: "{{ ctx.big | length != 120000 }}", then: {do: fail}},
                {else: {then: {do: continue}}}]}}}
            - read: {kind: noop, result: "{{ ctx.big }}"}
        """,
    "ctx, in the second attempt of a task": """
        - step: start
          tool:
            - @CTX
            - read: {kind: noop, result: "{{ ctx.big }}", spec: {policy: {rules: [
                {when: "{{ _attempt == 1 }}", then: {do: retry, attempts: 2}},
                {else: {then: {do: continue}}}]}}}
        """,
    "ctx, in the next iteration": """
        - step: start
          loop: {in: [1, 2], iterator: n}
          tool:
            - read:
                kind: noop
                result: "{{ ctx.big | default('') }}"
                spec: {policy: {rules: [{else: {then: {do: continue,
                  set_ctx: {big: "@MAKE"}}}}]}}
          next: {arcs: [{step: read, args: {all: "{{ event.payload.results }}"}}]}
        - {step: read, tool: {kind: noop, result: "{{ args.all[1] }}"}}
        """,
    "iter, in the next task": """
        - step: start
          loop: {in: [1], iterator: n}
          tool:
            - @ITER
            - nap: {kind: wait, for: 0s}
            - read: {kind: noop, result: "{{ iter.big }}"}
          next: {arcs: [{step: read, args: {all: "{{ event.payload.results }}"}}]}
        - {step: read, tool: {kind: noop, result: "{{ args.all[0] }}"}}
        """,
    "_prev": """
        - step: start
          tool: [@SMALL, {read: {kind: noop, result: "{{ _prev }}"}}]
        """,
    "_prev, in a patch after a wait": """
        - step: start
          tool:
            - @SMALL
            - nap:
                kind: wait
                for: 0s
                spec: {policy: {rules: [{else: {then: {do: continue,
                  set_ctx: {big: "{{ _prev }}"}}}}]}}
            - read: {kind: noop, result: "{{ ctx.big }}"}
        """,
    "the outcome of a task by its label": """
        - step: start
          tool:
            - @SMALL
            - nap: {kind: wait, for: 0s}
            - read: {kind: noop, result: "{{ _outcomes.gen.result }}"}
        """,
    "an argument of an arc": """
        - step: start
          tool: {kind: noop, result: "@MAKE"}
          next: {arcs: [{step: read,
            when: "{{ event.payload.result | length == 120000 }}",
            args: {x: "{{ event.payload.result }}"}}]}
        - {step: read, tool: {kind: noop, result: "{{ args.x }}"}}
        """,
    "an argument, in the rule that admits": """
        - step: start
          tool: {kind: noop, result: "@MAKE"}
          next: {arcs: [{step: read, args: {x: "{{ event.payload.result }}"}}]}
        - step: read
          spec: {policy: {admit: {rules: [
            {when: "{{ args.x | length == 120000 }}", then: {allow: true}},
            {else: {then: {allow: false}}}]}}}
          tool: {kind: noop, result: "{{ args.x }}"}
        """,
    "arguments that meet in a join": """
        - step: start
          tool: {kind: noop}
          next: {spec: {mode: inclusive}, arcs: [{step: one}, {step: two}]}
        - step: one
          tool: {kind: noop, result: "@MAKE"}
          next: {arcs: [{step: both, args: {x: "{{ event.payload.result }}"}}]}
        - step: two
          tool: {kind: noop, result: "@MAKE"}
          next: {arcs: [{step: both, args: {y: "{{ event.payload.result }}"}}]}
        - step: both
          spec: {join: {mode: all, from: [one, two]}}
          tool: {kind: noop, result: "{{ args.x if args.x == args.y else 1 }}"}
        """,
    "an item of a loop": """
        - step: start
          loop: {in: "@LIST", iterator: item}
          tool: {kind: noop, result: "{{ iter.item }}"}
          next: {arcs: [{step: read, args: {all: "{{ event.payload.results }}"}}]}
        - step: read
          tool: {kind: noop, result: "{{ args.all[0] ~ args.all[1] ~ args.all[0] }}"}
        """,
    "an item of the loop around a loop": """
        - step: start
          loop:
            in: ["@MAKE"]
            iterator: outer
            loop: {in: [1, 2], iterator: inner}
          tool: {kind: noop, result: "{{ iter.parent.outer }}"}
          next: {arcs: [{step: read, args: {all: "{{ event.payload.results }}"}}]}
        - {step: read, tool: {kind: noop, result: "{{ args.all[0][1] }}"}}
        """,
    "results of a loop, in a condition": """
        - step: start
          loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
          tool: {kind: noop, result: "@MAKE"}
          next: {arcs: [{step: read,
            when: "{{ (event.payload.results | map('length') | sum) == 240000 }}",
            args: {x: "{{ event.payload.results[1] }}"}}]}
        - {step: read, tool: {kind: noop, result: "{{ args.x }}"}}
        """,
    "the input and the result of a child": """
        - step: start
          tool:
            - @CTX
            - call: {kind: playbook, path: tests/echo, args: {given: "{{ ctx.big }}"}}
            - read: {kind: noop, result: "{{ _prev }}"}
        """,
    "the result of a child, in an arc": """
        - step: start
          tool: {kind: playbook, path: tests/echo, args: {given: "@MAKE"}}
          next: {arcs: [{step: read, args: {x: "{{ event.payload.result }}"}}]}
        - {step: read, tool: {kind: noop, result: "{{ args.x }}"}}
        """,
    "the iteration that calls a child": """
        - step: start
          loop: {in: ["@MAKE"], iterator: item}
          tool: {kind: playbook, path: tests/outer}
          next: {arcs: [{step: read, args: {all: "{{ event.payload.results }}"}}]}
        - {step: read, tool: {kind: noop, result: "{{ args.all[0][0] }}"}}
        """,
    "the choice on a large event": """
        - step: start
          tool:
            - @CTX
            - pick:
                kind: choose
                event: {data: "{{ ctx.big }}"}
                when: {large: "{{ event.data | length == 120000 }}"}
                otherwise: small
            - read:
                kind: noop
                result: "{{ ctx.big if _outcomes.pick.choose.matched[0] == 'large' }}"
        """,
    "a table of duckdb": """
        - step: start
          tool:
            - make:
                kind: noop
                result: "{{ [{'x': 'row ' * 30000}] }}"
                spec: {policy: {rules: [{else: {then: {do: continue,
                  set_ctx: {rows: "{{ outcome.result }}"}}}}]}}
            - query:
                kind: duckdb
                tables: {t: "{{ ctx.rows }}"}
                command: SELECT x FROM t
            - read: {kind: noop, result: "{{ _prev.rows[0].x }}"}
        """,
    "code of a python task": """
        - step: start
          tool:
            - @CTX
            - read:
                kind: python
                args: {x: "{{ ctx.big }}"}
                code: "def main(x): return x"
        """,
}
GIVEN = {
    "the workload of the request": ("workload", "{{ workload.x }}"),
    "ctx of the request": ("ctx", "{{ ctx.x }}"),
    "args of the request": ("args", "{{ args.x }}"),
}
ECHO = playbook(
    "echo",
    '- {step: start, tool: {kind: noop, result: "{{ workload.given }}"}}',
    root="workload: {given: null}\n",
)
OUTER = playbook(
    "outer",
    """
    - step: start
      loop: {in: [1], iterator: n}
      tool: {kind: noop, result: "{{ iter.parent.item }}"}
    """,
)


@pytest.fixture(scope="module", params=["own slots", "remote worker"])
def api(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("large")
    remote = request.param == "remote worker"
    server = Running(folder / "home", slots=0 if remote else 8)
    worker = None
    if remote:
        worker = WorkerProcess(folder / "worker", server.url, server.token)
    found = Api(server.url, server.token)
    for text in (ECHO, OUTER):
        assert found.post("/api/catalog", {"playbook": text}).status == 201
    yield found
    if worker is not None:
        worker.stop()
    server.stop()


def assert_value(document: dict[str, Any], expected: Any = TEXT) -> None:
    """The result is stored elsewhere: its key is the hash of exactly this value."""
    assert document["status"] == "completed", document["error"]
    body = json.dumps(expected, separators=(",", ":")).encode()
    found = document["result"]
    assert isinstance(found, dict), found
    assert found.get("key") == sha256(body).hexdigest(), str(found)[:300]


@pytest.mark.parametrize("place", PLACES)
def test_a_large_value_is_read_as_itself_from(api: Api, place: str) -> None:
    assert_value(api.run(playbook("reads", expand(PLACES[place]))))


@pytest.mark.parametrize("place", GIVEN)
def test_a_large_value_of_a_request_is_read_as_itself_from(
    api: Api, place: str
) -> None:
    member, read = GIVEN[place]
    step = f'- {{step: start, tool: {{kind: noop, result: "{read}"}}}}'

    assert_value(api.run(playbook("reads", step), **{member: {"x": TEXT}}))


def test_large_data_of_a_signal_is_read_as_itself(api: Api) -> None:
    text = playbook(
        "asked",
        """
        - step: start
          tool:
            - ask: {kind: wait, signal: go}
            - read: {kind: noop, result: "{{ _prev.x }}"}
        """,
    )
    execution_id = api.start(text)
    api.await_event(execution_id, "task.suspended")

    said = {"name": "go", "data": {"x": TEXT}}
    assert api.post(f"/api/executions/{execution_id}/signal", said).status == 200

    assert_value(api.finish(execution_id))


def test_a_fork_reads_what_its_origin_had_stored(api: Api) -> None:
    text = playbook(
        "forked",
        expand(
            """
        - step: start
          tool: [@CTX]
          next: {arcs: [{step: read, args: {x: "{{ ctx.big }}"}}]}
        - step: read
          tool: {kind: noop, result: "{{ ctx.big if args.x == ctx.big else 1 }}"}
        """
        ),
    )
    origin = api.start(text)
    assert_value(api.finish(origin))

    made = api.post(f"/api/executions/{origin}/retry", {"step": "read"})

    assert made.status == 201, made.body
    assert_value(api.finish(made.body["execution_id"]))


def test_a_completion_trigger_reads_a_large_result(api: Api) -> None:
    first = playbook(
        "first", expand('- {step: start, tool: {kind: noop, result: "@MAKE"}}')
    )
    assert api.post("/api/catalog", {"playbook": first}).status in (200, 201)
    trigger = {
        "name": "after-first",
        "playbook": "tests/echo",
        "workload": {"given": "{{ execution.result }}"},
        "finished": {"path": "tests/first"},
    }
    made = api.post("/api/triggers", {"trigger": trigger})
    assert made.status == 201, made.body
    assert api.post("/api/triggers/after-first/pause").status == 200
    ended = api.run(first)

    fired = api.post(
        "/api/triggers/after-first/fire", {"execution_id": ended["execution_id"]}
    )

    assert fired.status == 201, fired.body
    assert_value(api.finish(fired.body["execution_id"]))


def test_embedded_the_same_holds(tmp_path: Path) -> None:
    workflow = PLACES["ctx, in the next task of the same step"]
    text = playbook("reads", expand(workflow))

    (tmp_path / "reads.yaml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "noetl", "run", "reads.yaml", "--json"],
        cwd=tmp_path,
        env={**os.environ, "NOETL_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert_value(json.loads(done.stdout))
