"""Every route is guarded, described and strict; whatever a client makes of its path."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import jsonschema_rs
import pytest
from servers import ASKS, HELLO, Api, Running, playbook

from noetl.api.access import Headers, Principal
from noetl.api.app import endpoints
from noetl.api.openapi import problems_of
from noetl.api.problems import STATUSES
from noetl.api.routing import PUBLIC, Endpoint
from noetl.errors import AccessError

ROUTES = [pytest.param(each, id=f"{each.method} {each.path}") for each in endpoints()]
OPEN = {"/healthz", "/readyz", "/openapi.json"}
READING = {"executions:read", "playbooks:read", "workers:read"}


class Roles:
    """A token is a name; what it may is in a table: permissions, and where."""

    def __init__(self, table: dict[str, dict[str, str]]) -> None:
        self._table = table

    async def authenticate(self, method: str, headers: Headers) -> Principal:
        name = (headers.get("authorization") or [""])[0].removeprefix("Bearer ")
        if name not in self._table:
            raise AccessError("auth.required", "who are you?", 401)
        return Principal(name)

    def allows(self, principal: Principal, permission: str, path: str | None) -> bool:
        where = self._table[principal.name].get(permission)
        return where is not None and (path is None or path.startswith(where))


EVERYTHING = {each.permission for each in endpoints()} | {"playbooks:write"}
PEOPLE = {
    "admin": dict.fromkeys(EVERYTHING | {"tools:code"}, ""),
    "viewer": dict.fromkeys(READING, ""),
    "guest": dict.fromkeys(EVERYTHING - {"playbooks:write"}, "tests/he"),
    "author": dict.fromkeys(EVERYTHING, ""),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("guarded") / "home", Roles(PEOPLE))
    yield server
    server.stop()


def a_path(endpoint: Endpoint) -> str:
    return re.sub(r"\{\w+(:\w+)?\}", "x", endpoint.path)


@pytest.mark.parametrize("endpoint", ROUTES)
def test_a_route_says_everything_about_itself(endpoint: Endpoint) -> None:
    assert re.fullmatch(r"[a-z]+:[a-z]+", endpoint.permission) or (
        endpoint.permission == PUBLIC and endpoint.path in OPEN
    )
    assert endpoint.doc, "its docstring is its page"
    assert endpoint.answers
    assert set(problems_of(endpoint)) <= STATUSES.keys()
    assert inspect.iscoroutinefunction(endpoint.handler)


def test_no_route_is_there_twice() -> None:
    places = [(each.method, each.plain_path) for each in endpoints()]
    names = [each.name for each in endpoints()]

    assert len(set(places)) == len(places)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("endpoint", ROUTES)
@pytest.mark.parametrize(
    "credential",
    [
        pytest.param(None, id="none"),
        pytest.param("Bearer nothing", id="a wrong one"),
        pytest.param("Bearer ntl_" + "0" * 64, id="one of another instance"),
        pytest.param("Basic bG9jYWw6bG9jYWw=", id="another scheme"),
        pytest.param("Bearer", id="an empty one"),
    ],
)
def test_without_a_credential_nothing_is_touched(
    running: Running, endpoint: Endpoint, credential: str | None
) -> None:
    stranger = Api(running.url, None)
    headers = {"Authorization": credential} if credential else {}

    answer = stranger.call(
        endpoint.method, f"{a_path(endpoint)}?token={running.token}", **headers
    )

    if endpoint.permission == PUBLIC:
        assert answer.status == 422, "only the parameter is wrong"
        return
    assert (answer.status, answer.body["kind"]) == (401, "auth.required")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert running.token not in str(answer.body)


@pytest.mark.parametrize("endpoint", ROUTES)
def test_who_may_read_changes_nothing(guarded: Running, endpoint: Endpoint) -> None:
    viewer = Api(guarded.url, "viewer")
    admin = Api(guarded.url, "admin")
    execution_id = admin.start(ASKS)
    admin.await_event(execution_id, "task.suspended")
    path = endpoint.path.replace("{execution_id}", execution_id)
    before = admin.get(f"/api/executions/{execution_id}").body

    answer = viewer.call(endpoint.method, re.sub(r"\{path:path\}", "x", path))

    if endpoint.permission in {*READING, PUBLIC}:
        assert answer.status != 403
    else:
        assert (answer.status, answer.body["kind"]) == (403, "auth.role")
    assert admin.get(f"/api/executions/{execution_id}").body == before


def test_rights_end_where_their_paths_do(guarded: Running) -> None:
    """The guest has the paths that begin with tests/he."""
    admin, guest = Api(guarded.url, "admin"), Api(guarded.url, "guest")
    for text in (HELLO, ASKS):
        assert admin.post("/api/catalog", {"playbook": text}).status in (200, 201)
    hidden, shown = admin.start(ASKS), admin.run(HELLO)["execution_id"]

    assert guest.get(f"/api/executions/{shown}").status == 200
    for rest in ("", "/events", "/state"):
        answer = guest.get(f"/api/executions/{hidden}{rest}")
        assert (answer.status, answer.body["kind"]) == (404, "execution.unknown")
    assert guest.post(f"/api/executions/{hidden}/cancel").status == 404
    paths = {
        line["playbook"]["path"]
        for line in guest.get("/api/executions").body["executions"]
    }
    assert paths == {"tests/hello"}
    assert guest.post("/api/executions", {"path": "tests/asks"}).status == 403
    assert guest.post("/api/executions", {"path": "tests/hello"}).status == 201
    assert guest.post("/api/executions", {"playbook": HELLO}).status == 403
    bulk = {"action": "cancel", "path": "tests/asks"}
    assert guest.post("/api/executions/bulk", bulk).body["done"] == []
    listed = guest.get("/api/catalog").body["playbooks"]
    assert [each["path"] for each in listed] == ["tests/hello"]
    assert guest.get("/api/catalog/tests/asks").status == 403
    asks = admin.get("/api/catalog/tests/asks").body["playbook_id"]
    assert guest.post("/api/executions", {"playbook_id": asks}).status == 403


def test_who_brings_code_needs_the_right_to(guarded: Running) -> None:
    author, admin = Api(guarded.url, "author"), Api(guarded.url, "admin")
    code = playbook("code", "- {step: start, tool: {kind: shell, command: 'true'}}")

    for path in ("/api/executions", "/api/catalog"):
        answer = author.post(path, {"playbook": code})
        assert (answer.status, answer.body["kind"]) == (403, "auth.role")
        assert "tools:code" in answer.body["message"]
        assert author.post(path, {"playbook": HELLO}).status in (200, 201)
    assert admin.post("/api/catalog", {"playbook": code}).status == 201
    assert author.post("/api/executions", {"path": "tests/code"}).status == 201


@pytest.mark.parametrize(
    "change",
    [
        "{}/",
        "{}/health",
        "{}/healthz",
        "{}/configs",
        "/{}",
        "{};x",
        "{}.",
        "{}%00",
        "/healthz/..{}",
        "/healthz/%2e%2e{}",
        "{}%2f",
        "upper",
    ],
)
def test_no_spelling_of_a_path_is_a_way_around(running: Running, change: str) -> None:
    path = "/api/executions"
    asked = path.upper() if change == "upper" else change.format(path)
    api, stranger = Api(running.url, running.token), Api(running.url, None)

    assert api.get(asked).status in (404, 405)
    assert stranger.get(asked).status in (401, 404, 405)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_do_nothing(api: Api, method: str) -> None:
    for path in ("/api/executions", "/healthz"):
        answer = api.call(method, path, X_HTTP_Method_Override="GET")

        assert (answer.status, answer.body["kind"]) == (405, "route.method")
        assert method not in answer.headers["allow"]


def test_a_method_cannot_be_overridden(api: Api) -> None:
    execution_id = api.start(ASKS)
    path = f"/api/executions/{execution_id}/cancel"

    answer = api.get(path, X_HTTP_Method_Override="POST")

    assert answer.status == 405
    assert api.get(f"/api/executions/{execution_id}").body["status"] != "cancelled"


def test_the_description_fits_the_standard_and_has_all_routes(api: Api) -> None:
    document = api.get("/openapi.json").body

    assert document["openapi"] == "3.1.0"
    described = {
        (method.upper(), path)
        for path, item in document["paths"].items()
        for method in item
    }
    assert described == {(each.method, each.plain_path) for each in endpoints()}
    for name, schema in document["components"]["schemas"].items():
        whole = {**schema, "components": document["components"]}
        jsonschema_rs.validator_for(whole), name
    operations = [op for item in document["paths"].values() for op in item.values()]
    assert all(operation["x-permission"] for operation in operations)


def test_health_readiness_and_metrics(running: Running, api: Api) -> None:
    anybody = Api(running.url, None)
    api.run(HELLO)

    assert anybody.get("/healthz").body["status"] == "ok"
    assert anybody.get("/readyz").body["status"] == "ready"
    text = api.get("/metrics").body.decode()
    for name in (
        'noetl_executions_finished_total{status="completed"}',
        "noetl_executions_started_total",
        "noetl_events_total",
        "noetl_streams",
        'noetl_http_requests_total{method="POST",route="/api/executions",status="201"}',
    ):
        assert name in text
