"""S-82, I-35 to I-37, rows 90 to 93: the server alone makes references to values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servers import Answer, Api, Running, playbook

from noetl.api.app import endpoints
from noetl.api.http.routes import Endpoint
from noetl.runtime.worker_protocol import messages as wire

pytestmark = pytest.mark.spec("S-82", "S-48", "S-65")

SOURCE = Path(__file__).parents[2] / "src" / "noetl" / "api"
SALARY = "the salary of each "
PAD = "x" * 70_000
"""With it a value is larger than an event, and stored by the server."""


# -- the door: every route that takes JSON ---------------------------------------------

OTHER = {
    "/api/events": "reports of workers: what they name is proven by receipts (row 93)",
    "/api/worker/value": "asks for a reference: whose it is, the log says",
}
"""Routes of workers, whose messages name what they have stored."""


def free_members(shape: type[Any]) -> list[list[str]]:
    """Where a body may hold any JSON: paths of members."""
    return list(_free(msgspec.inspect.type_info(shape), []))


def _free(found: Any, path: list[str]) -> Iterator[list[str]]:
    inspect = msgspec.inspect
    if isinstance(found, inspect.AnyType):
        yield path
    elif isinstance(found, inspect.UnionType):
        for each in found.types:
            yield from _free(each, path)
    elif isinstance(found, inspect.StructType):
        for field in found.fields:
            yield from _free(field.type, [*path, field.encode_name])
    elif isinstance(found, inspect.DictType):
        yield from _free(found.value_type, [*path, "x"])
    elif isinstance(found, inspect.ListType | inspect.VarTupleType):
        yield from _free(found.item_type, path)


def holding(path: list[str], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


TAKING = [
    (endpoint, path)
    for endpoint in endpoints()
    for path in free_members(endpoint.body)
    if not issubclass(endpoint.body, wire.Message)
]
FORGED = {"store": "noetl", "key": "0" * 64, "size": 9}


def test_the_routes_that_take_any_json_are_known() -> None:
    found = {f"{e.path} {'.'.join(path)}" for e, path in TAKING}
    messages = {
        endpoint.path
        for endpoint in endpoints()
        if issubclass(endpoint.body, wire.Message) and free_members(endpoint.body)
    }

    assert found >= {
        *(f"/api/executions {name}.x" for name in ("workload", "ctx", "args")),
        "/api/executions/{execution_id}/signal data",
        "/api/executions/{execution_id}/fork workload.x",
        "/api/triggers trigger.workload.x",
        "/api/triggers/{name}/fire payload",
    }
    assert messages == OTHER.keys(), "say how it proves the references that it names"


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [pytest.param(e, p, id=f"{e.path} {'.'.join(p)}") for e, p in TAKING],
)
def test_a_forged_reference_comes_through_no_route(
    admin: Api, endpoint: Endpoint, path: list[str]
) -> None:
    place = re.sub(r"\{\w+(:\w+)?\}", "0" * 8, endpoint.path)

    answer = admin.call(endpoint.method, place, holding(path, {"deep": [FORGED]}))

    if answer.status == 404:  # what the path names comes first
        assert "{" in endpoint.path
        return
    assert_refused(answer, "$." + ".".join(path) + ".deep[0]")


def assert_refused(answer: Answer, path: str | None = None) -> None:
    assert (answer.status, answer.body["kind"]) == (422, "ref.not_owner"), answer.body
    if path is not None:
        assert answer.body["path"] == path
        assert path in answer.body["message"]


def test_every_route_reads_json_through_the_request_body() -> None:
    reading = re.compile(r"json\.(?:loads|decode|Decoder)|\.json\(\)")
    found = {
        file.name for file in SOURCE.rglob("*.py") if reading.search(file.read_text())
    }

    assert found == {"request_body.py"}


@pytest.fixture(scope="module")
def hook(running: Running) -> Api:
    """A sender of a webhook."""
    admin = Api(running.url, running.token)
    text = playbook("hooked", "- {step: start, tool: {kind: noop}}")
    assert admin.post("/api/catalog", {"playbook": text}).status in (200, 201)
    workload = {"given": "{{ payload }}"}
    trigger = {"name": "refs-hook", "playbook": "tests/hooked", "webhook": {}}
    made = admin.post("/api/triggers", {"trigger": {**trigger, "workload": workload}})
    assert made.status == 201, made.body
    return Api(running.url, made.body["token"])


@pytest.fixture(scope="module")
def waiting(running: Running) -> str:
    """An execution that takes a signal."""
    admin = Api(running.url, running.token)
    text = playbook("waits", "- {step: start, tool: {kind: wait, signal: go}}")
    execution_id = admin.start(text)
    admin.await_event(execution_id, "task.suspended")
    return execution_id


POISON: dict[str, Any] = {
    "no range": {"store": "noetl", "key": "log:a-1", "size": 1},
    "a range that is a number": {"store": "noetl", "key": "log:a-1", "range": 5},
    "a key that is a mapping": {"store": "noetl", "key": {}},
    "nothing but the store": {"store": "noetl"},
    "escaped": b'{"st\\u006fre": "n\\u006fetl", "key": 5}',
}


@pytest.mark.parametrize("door", ["request", "signal", "webhook"])
@pytest.mark.parametrize("shape", POISON)
def test_poison_is_refused_and_nothing_of_it_is_recorded(
    admin: Api, hook: Api, waiting: str, door: str, shape: str
) -> None:
    poison = POISON[shape]
    text = poison.decode() if isinstance(poison, bytes) else json.dumps(poison)
    inner = f'{{"deep": [{text}], "pad": "{PAD}"}}'
    if door == "webhook":
        answer = hook.post("/hooks/refs-hook", inner.encode())
    elif door == "signal":
        body = f'{{"name": "go", "data": {inner}}}'.encode()
        answer = admin.post(f"/api/executions/{waiting}/signal", body)
    else:
        hello = json.dumps(playbook("p", "- {step: start, tool: {kind: noop}}"))
        body = f'{{"playbook": {hello}, "ctx": {inner}}}'.encode()
        answer = admin.post("/api/executions", body)

    assert_refused(answer)
    assert "execution_id" not in answer.body
    events = admin.get(f"/api/executions/{waiting}/events").body["events"]
    assert events[-1]["name"] == "task.suspended"


# -- reading what is others' -----------------------------------------------------------


def text_of(path: str, workflow: str, root: str = "") -> str:
    return playbook("x", workflow, root).replace("tests/x", path)


class Teams:
    """A server with a secret of ``hr`` and an author of ``finance``."""

    def __init__(self, server: Running, name: str) -> None:
        self.admin = Api(server.url, server.token)
        self.thief = server.person(
            name, "author:finance/*", "operator:finance/*", "viewer:finance/*"
        )
        workflow = f"""
            - step: start
              loop: {{in: [1, 2, 3], iterator: n}}
              tool: {{kind: noop, result: "{{{{ '{SALARY}' * 1500 }}}}"}}
              next: {{arcs: [{{step: sum}}]}}
            - {{step: sum, tool: {{kind: noop, result: "{{{{ '{SALARY}' * 4000 }}}}"}}}}
            """
        self.victim = self.admin.start(text_of("hr/pay", workflow))
        self.admin.finish(self.victim)
        results = self.admin.get(f"/api/executions/{self.victim}/results").body
        self.keys = [each["key"] for each in results["results"]]
        body = json.dumps(SALARY * 4000).encode()
        self.blob = sha256(body).hexdigest()
        assert self.blob in self.keys
        assert self.log in self.keys

    @property
    def log(self) -> str:
        return f"log:{self.victim}-1"

    def references(self) -> list[str]:
        """As playbooks write them: by the known hash, and by the execution's id."""
        blob = f"{{store: noetl, key: '{self.blob}', size: 9, schema_hint: text}}"
        loop = f"{{store: noetl, key: '{self.log}', range: '1-1000', size: 1}}"
        return [blob, loop]

    def assert_nothing_leaked(self, execution_id: str) -> dict[str, Any]:
        document = self.thief.finish(execution_id)
        shown = [document, self.thief.get(f"/api/executions/{execution_id}/events")]
        listed = self.thief.get(f"/api/executions/{execution_id}/results")
        assert listed.status == 200, listed.body
        for each in listed.body["results"]:
            path = f"/api/results/{each['key']}?execution_id={execution_id}"
            answer = self.thief.get(path)
            assert answer.status in (200, 404), answer.body
            shown.append(answer)
        assert SALARY not in str(shown)
        return document


@pytest.fixture(scope="module")
def teams(running: Running) -> Teams:
    return Teams(running, "refs-thief")


RULES = "spec: {policy: {rules: [{else: {then: {do: continue, %s}}}]}}"
BIG = "{ref: FORGED, pad: \"{{ 'x' * 70000 }}\"}"
READING = {
    "ctx of the same step": f"""
        - step: start
          tool:
            - a: {{kind: noop, {RULES % f"set_ctx: {{big: {BIG}}}"}}}
            - b: {{kind: noop, result: "{{{{ ctx.big.ref }}}}"}}
        """,
    "ctx of another step": f"""
        - step: start
          tool: {{kind: noop, {RULES % f"set_ctx: {{big: {BIG}}}"}}}
          next: {{arcs: [{{step: read, when: "{{{{ ctx.big.ref | length > 0 }}}}"}}]}}
        - {{step: read, tool: {{kind: noop, result: "{{{{ ctx.big.ref }}}}"}}}}
        """,
    "the arguments of an arc": f"""
        - step: start
          tool: {{kind: noop}}
          next: {{arcs: [{{step: read, args: {{big: {BIG}}}}}]}}
        - {{step: read, tool: {{kind: noop, result: "{{{{ args.big.ref }}}}"}}}}
        """,
    "the items of a loop": f"""
        - step: start
          loop: {{in: [{BIG}], iterator: item}}
          tool: {{kind: noop, result: "{{{{ iter.item.ref }}}}"}}
        """,
    "iter of the same iteration": f"""
        - step: start
          loop: {{in: [1], iterator: n}}
          tool:
            - a: {{kind: noop, {RULES % f"set_iter: {{big: {BIG}}}"}}}
            - b: {{kind: noop, result: "{{{{ iter.big.ref }}}}"}}
        """,
    "the input of a child": f"""
        - step: start
          tool: {{kind: playbook, path: finance/echo, args: {{given: {BIG}}}}}
        """,
    "the iteration that calls a child": f"""
        - step: start
          loop: {{in: [{BIG}], iterator: item}}
          tool: {{kind: playbook, path: finance/outer}}
        """,
    "the result of a choice": """
        - step: start
          tool:
            - a: {kind: choose, wait: true, when: {x: true}, timers: {soon: 0s},
                result: FORGED}
            - b: {kind: noop, result: "{{ _prev }}"}
        """,
    "a table": """
        - step: start
          tool: {kind: duckdb, tables: {t: FORGED}, command: SELECT * FROM t}
        """,
}
ECHO = text_of(
    "finance/echo",
    '- {step: start, tool: {kind: noop, result: "{{ workload.given }}"}}',
    "workload: {given: null}\n",
)
OUTER = text_of(
    "finance/outer",
    """
    - step: start
      loop: {in: [1], iterator: n}
      tool:
        - ask: {kind: wait, for: 0s}
        - read: {kind: noop, result: "{{ iter.parent.item.ref }}"}
    """,
)


@pytest.mark.parametrize("place", READING)
def test_what_another_team_has_stored_is_not_read_by_way_of(
    teams: Teams, place: str
) -> None:
    for text in (ECHO, OUTER):
        made = teams.admin.post("/api/catalog", {"playbook": text})
        assert made.status in (200, 201)
    for reference in teams.references():
        workflow = READING[place].replace("FORGED", reference)
        execution_id = teams.thief.start(text_of("finance/x", workflow))

        document = teams.assert_nothing_leaked(execution_id)

        assert document["status"] == "failed", document
        refused = json.dumps(document["error"])
        reasons = (
            "ref.not_owner",
            "is not a result of",
            "is a reference without a file",
        )
        assert any(each in refused for each in reasons), refused


def test_a_fork_reads_no_more_than_its_origin(teams: Teams) -> None:
    """What its origin was called with may hold what a template has written."""
    assert teams.admin.post("/api/catalog", {"playbook": OUTER}).status in (200, 201)
    for reference in teams.references():
        calling = READING["the iteration that calls a child"]
        workflow = calling.replace("FORGED", reference)
        parent = teams.thief.start(text_of("finance/x", workflow))
        teams.thief.finish(parent)
        found = teams.thief.get("/api/executions?path=finance/outer&limit=1").body
        child = found["executions"][0]["execution_id"]

        forked = teams.thief.post(f"/api/executions/{child}/retry", {})

        assert forked.status == 201, forked.body
        document = teams.assert_nothing_leaked(forked.body["execution_id"])
        assert document["error"]["kind"] == "ref.not_owner"


def test_the_inputs_of_a_playbook_hold_no_reference(teams: Teams) -> None:
    for reference in teams.references():
        text = text_of(
            "finance/x",
            '- {step: start, tool: {kind: noop, result: "{{ workload.big.ref }}"}}',
            f"workload: {{big: {{ref: {reference}, pad: {PAD}}}}}\n",
        )

        answer = teams.thief.post("/api/executions", {"playbook": text})

        assert_refused(answer, "workload.big.ref")
        events = teams.admin.get(
            f"/api/executions/{answer.body['execution_id']}/events"
        )
        assert events.body["events"][-1]["name"] == "playbook.processed"


def test_the_templates_of_a_trigger_make_no_reference(teams: Teams) -> None:
    assert teams.admin.post("/api/catalog", {"playbook": ECHO}).status in (200, 201)
    workload = {"given": {"store": "{{ 'no' ~ 'etl' }}", "key": teams.blob, "size": 9}}
    trigger = {"name": "forging", "playbook": "finance/echo", "webhook": {}}
    made = teams.admin.post(
        "/api/triggers", {"trigger": {**trigger, "workload": workload}}
    )
    assert made.status == 201, made.body

    answer = Api(teams.admin.url, made.body["token"]).post("/hooks/forging", {})

    assert_refused(answer, "workload.given")


def test_a_stored_value_is_found_by_its_viewers_alone(teams: Teams) -> None:
    """Row 90; what is poisoned in the log of one execution stops no other search."""
    poison = "{store: noetl, key: {}, size: -1}"
    workflow = f"""
        - step: start
          tool:
            - a: {{kind: noop, {RULES % f"set_ctx: {{x: {poison}, y: {BIG}}}"}}}
            - b: {{kind: noop, result: "{{{{ [ctx.x.size, ctx.x] | length }}}}"}}
        """
    forged = workflow.replace("FORGED", "{store: noetl, key: 'log:x-1', range: 5}")
    mine = teams.thief.start(text_of("finance/x", forged))
    assert teams.assert_nothing_leaked(mine)["result"] == 2

    for key in (teams.blob, teams.log, "0" * 64):
        for where in ("", f"?execution_id={mine}", f"?execution_id={teams.victim}"):
            answer = teams.thief.get(f"/api/results/{key}{where}")
            assert answer.status == 404, (key, where, answer.body)
    assert teams.admin.get(f"/api/results/{teams.blob}").status == 200
    assert SALARY in str(teams.admin.get(f"/api/results/{teams.log}").body)


RANGES = ["100-50", f"0-{10**18}", f"0-{10**30}", "5", "-1-5", "0x0-0x5", "", "0-5-9"]


@pytest.mark.parametrize("span", RANGES, ids=lambda span: f"92 '{span[:9]}'")
def test_a_range_that_is_not_there_is_said(teams: Teams, span: str) -> None:
    answer = teams.admin.get(
        f"/api/results/{teams.blob}:{span}?execution_id={teams.victim}"
    )

    assert (answer.status, answer.body["kind"]) == (422, "ref.range")


def test_on_postgresql_the_same_holds(tmp_path: Path, postgres: str) -> None:
    server = Running(tmp_path / "home", database=postgres)
    try:
        teams = Teams(server, "thief")
        big = {"ref": {**FORGED, "key": teams.blob}, "pad": PAD}
        text = text_of("finance/x", "- {step: start, tool: {kind: noop}}")
        asked = {"playbook": text, "ctx": {"big": big}}
        assert_refused(teams.thief.post("/api/executions", asked), "$.ctx.big.ref")
        for place in ("ctx of the same step", "ctx of another step"):
            for reference in teams.references():
                workflow = READING[place].replace("FORGED", reference)
                execution_id = teams.thief.start(text_of("finance/x", workflow))
                document = teams.assert_nothing_leaked(execution_id)
                assert document["error"]["kind"] == "ref.not_owner"
    finally:
        server.stop()


# -- anything that looks like a reference, at every door -------------------------------

TEXT = st.text("ab0:/.-_ '\"", max_size=9)
PLAIN = st.none() | st.booleans() | st.integers(-9, 2**60) | TEXT
ODD = PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(TEXT, PLAIN, max_size=2)


def like_references(keys: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """With the right members or without them, and of any type."""
    return st.fixed_dictionaries(
        {"store": st.just("noetl")},
        optional={
            "key": st.sampled_from(keys) | ODD,
            "size": st.integers(0, 99) | ODD,
            "range": st.sampled_from(["1-1000", "9-1", "1"]) | ODD,
            "refs": st.lists(st.sampled_from(keys) | PLAIN, max_size=2) | ODD,
            "made": st.lists(st.sampled_from(keys), max_size=2) | ODD,
            "checksum": ODD,
            "schema_hint": st.sampled_from(["list", "text", "parquet"]) | ODD,
        },
    )


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_whatever_looks_like_a_reference_is_refused_or_is_data(
    teams: Teams, hook: Api, waiting: str, data: st.DataObject
) -> None:
    keys = [teams.blob, teams.log, "log:", "../x"]
    value = data.draw(like_references(keys), "value")
    body = {"deep": [value]}
    text = text_of("finance/x", "- {step: start, tool: {kind: noop}}")
    for answer in (
        hook.post("/hooks/refs-hook", body),
        teams.thief.post("/api/executions", {"playbook": text, "workload": body}),
        teams.admin.post(
            f"/api/executions/{waiting}/signal", {"name": "go", "data": body}
        ),
    ):
        if answer.status == 429:
            continue  # it is counted before it is read
        assert_refused(answer)
    literal = json.dumps(value)
    workflow = f"""
        - step: start
          tool:
            - a: {{kind: noop, {RULES % f"set_ctx: {{x: {literal}}}"}}}
            - b: {{kind: noop, result: "{{{{ ctx.x | string | length }}}}"}}
        """
    started = teams.thief.post(
        "/api/executions", {"playbook": text_of("finance/x", workflow)}
    )
    assert started.status in (201, 403, 422, 429), started.body  # or it is no YAML
    if started.status == 201:
        document = teams.assert_nothing_leaked(started.body["execution_id"])
        kind = (document["error"] or {"kind": None})["kind"]
        known = (None, "ref.not_owner", "template.budget", "template.undefined")
        assert kind in known, document["error"]


# -- workers: what they name they must have stored -------------------------------------

FAR = playbook(
    "far", "- {step: start, spec: {pool: refs-far}, tool: {kind: noop, result: 1}}"
)


def claim(admin: Api) -> tuple[str, dict[str, Any]]:
    """An execution that waits for a worker of another pool, and its lease."""
    execution_id = admin.start(FAR)
    asked = {"worker": "w", "pool": "refs-far", "slots": 1, "wait_seconds": 10}
    answer = admin.post("/api/worker/claim", {**asked, "protocol": wire.PROTOCOL})
    [order] = answer.body["work"]
    return execution_id, order["lease"]


def report(admin: Api, lease: dict[str, Any], payload: dict[str, Any]) -> Answer:
    task = {"label": "task_1", "attempt": 1}
    facts = [
        {"name": "step.started"},
        {"name": "task.started", **task},
        {"name": "task.done", **task, "payload": payload},
    ]
    said = {"lease": lease, "number": 1, "facts": facts}
    body = {"worker": "w", "pool": "refs-far", "reports": [said]}
    return admin.post("/api/events", body)


@pytest.mark.parametrize("spilled", [[], ["outcome.result"]], ids=["named", "claimed"])
def test_93_an_outcome_names_nothing_of_others(
    teams: Teams, spilled: list[str]
) -> None:
    _, lease = claim(teams.admin)
    payload = {
        "outcome": {"status": "ok", "result": {**FORGED, "key": teams.blob}},
        "directive": {"do": "continue", "next": None},
        "spilled": spilled,
    }

    answer = report(teams.admin, lease, payload)

    assert answer.status == 200, answer.body
    assert answer.body["replies"][0]["error"][0] == "ref.not_owner"


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_whatever_a_worker_names_it_reads_nothing_of_others(
    teams: Teams, data: st.DataObject
) -> None:
    admin = teams.admin
    execution_id, lease = claim(admin)
    value = data.draw(like_references([teams.blob, teams.log]), "value")
    member = data.draw(st.sampled_from(["result", "set_ctx", "set_iter"]), "member")
    payload: dict[str, Any] = {
        "outcome": {"status": "ok", "result": value if member == "result" else 1},
        "directive": {"do": "continue", "next": None},
        "spilled": data.draw(st.sampled_from([[], [f"{member}.x"], [f"{member}.x.y"]])),
    }
    if member != "result":
        payload[member] = {"x": value}

    wanted = {"worker": "w", "lease": lease, "reference": value}
    asked = admin.post("/api/worker/value", wanted)
    told = report(admin, lease, payload)
    again = admin.post("/api/worker/value", wanted)

    for answer in (asked, told, again):
        assert answer.status < 500, answer.body
        assert SALARY not in str(answer.body)
    if told.status == 200 and told.body["replies"][0]["error"] is None:
        document = admin.finish(execution_id)
        assert SALARY not in str(document)
        found = admin.get(f"/api/results/{teams.blob}?execution_id={execution_id}")
        assert found.status == 404
