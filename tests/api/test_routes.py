"""Every route is guarded, described and strict; whatever a client makes of its path."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Iterator

import jsonschema_rs
import pytest
from servers import ASKS, HELLO, Api, Running, playbook

from noetl.access.permissions import PERMISSIONS, ROLES
from noetl.api.app import endpoints
from noetl.api.http.openapi import problems_of
from noetl.api.http.problems import STATUSES
from noetl.api.http.routes import PUBLIC, SIGNED_IN, WEBHOOK, Endpoint

ROUTES = [pytest.param(each, id=f"{each.method} {each.path}") for each in endpoints()]
OPEN = {
    *("/healthz", "/readyz", "/openapi.json"),
    *("/api/sessions", "/api/sessions/current", "/api/sessions/means"),
    *("/api/sessions/oidc", "/api/sessions/oidc/callback"),
    *("/api/answers", "/api/answers/look", "/api/logins", "/api/logins/token"),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("guarded") / "home")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def people(guarded: Running) -> dict[str, Api]:
    """One of each role, and some whose rights end somewhere."""
    everybody = {
        name: guarded.person(name, "worker:gpu" if name == "worker" else name)
        for name in ROLES
    }
    return everybody | {
        "guest": guarded.person("guest", "operator:tests/hello"),
        "nobody": guarded.person("nobody"),
    }


def a_path(endpoint: Endpoint) -> str:
    return re.sub(r"\{\w+(:\w+)?\}", "x", endpoint.path)


@pytest.mark.parametrize("endpoint", ROUTES)
def test_a_route_says_everything_about_itself(endpoint: Endpoint) -> None:
    assert endpoint.permission in {*PERMISSIONS, SIGNED_IN, WEBHOOK} or (
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
    """Row 53."""
    stranger = Api(running.url, None)
    headers = {"Authorization": credential} if credential else {}

    answer = stranger.call(
        endpoint.method, f"{a_path(endpoint)}?token={running.token}", **headers
    )

    if endpoint.permission == PUBLIC:
        wrong = (401, 404) if endpoint.name == "finish_sign_in" else (401, 422)
        assert answer.status in wrong, "what is no credential, or the parameter"
        return
    assert (answer.status, answer.body["kind"]) == (401, "auth.required")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert running.token not in str(answer.body)


@pytest.mark.parametrize("role", [*ROLES, "nobody"])
@pytest.mark.parametrize("endpoint", ROUTES)
def test_a_role_may_what_the_table_says(
    people: dict[str, Api], endpoint: Endpoint, role: str
) -> None:
    """Row 55: whoever may not is told so, before anything of the body is read."""
    held = ROLES[role].permissions if role in ROLES else frozenset()

    answer = people[role].call(endpoint.method, a_path(endpoint), b"{")

    if endpoint.permission == WEBHOOK:
        assert (answer.status, answer.body["kind"]) == (401, "auth.required")
    elif endpoint.permission in {*held, PUBLIC, SIGNED_IN}:
        assert answer.status not in (401, 403)
    else:
        assert (answer.status, answer.body["kind"]) == (403, "auth.role")
        assert endpoint.permission in answer.body["message"]


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume", "signal"])
def test_who_may_read_changes_nothing(
    guarded: Running, people: dict[str, Api], verb: str
) -> None:
    admin = Api(guarded.url, guarded.token)
    execution_id = admin.start(ASKS)
    admin.await_event(execution_id, "task.suspended")
    path = f"/api/executions/{execution_id}"
    before = people["viewer"].get(path)

    answer = people["viewer"].post(f"{path}/{verb}", {"name": "go"})

    assert before.status == 200
    assert (answer.status, answer.body["kind"]) == (403, "auth.role")
    assert admin.get(path).body == before.body


def test_rights_end_where_their_paths_do(
    guarded: Running, people: dict[str, Api]
) -> None:
    admin, guest = Api(guarded.url, guarded.token), people["guest"]
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
    assert guest.post("/api/executions", {"playbook_id": asks}).status == 404


def test_an_author_of_some_paths_writes_there_alone(guarded: Running) -> None:
    author = guarded.person("hello-author", "author:tests/hello")

    assert author.post("/api/executions", {"playbook": HELLO}).status == 201
    for text in (ASKS, HELLO.replace("path: tests/hello", "")):
        answer = author.post("/api/executions", {"playbook": text})
        assert (answer.status, answer.body["kind"]) == (403, "auth.role")


def test_who_brings_code_needs_the_right_to(
    guarded: Running, people: dict[str, Api]
) -> None:
    author, developer = people["author"], people["developer"]
    code = playbook("code", "- {step: start, tool: {kind: shell, command: 'true'}}")

    for path in ("/api/executions", "/api/catalog"):
        answer = author.post(path, {"playbook": code})
        assert (answer.status, answer.body["kind"]) == (403, "auth.role")
        assert "tools:code" in answer.body["message"]
        assert author.post(path, {"playbook": HELLO}).status in (200, 201)
    assert developer.post("/api/catalog", {"playbook": code}).status == 201
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
    """Row 54."""
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


@pytest.mark.parametrize("endpoint", ROUTES)
def test_no_other_method_of_any_path_does_anything(
    people: dict[str, Api], endpoint: Endpoint
) -> None:
    """Row 55: of every path, what it does not declare."""
    path = a_path(endpoint)
    declared = {
        each.method
        for each in endpoints()
        if re.fullmatch(re.sub(r"\{\w+(:\w+)?\}", ".+", each.path), path)
    }
    for method in {"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - declared:
        answer = people["viewer"].call(method, path)
        assert (answer.status, answer.body["kind"]) == (405, "route.method")
    if "GET" not in declared:
        assert people["viewer"].call("HEAD", path).status == 405


def test_a_method_cannot_be_overridden(api: Api) -> None:
    """Row 54."""
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


def test_metrics_tell_when_a_playbook_last_succeeded_and_how_long_it_took(
    running: Running, api: Api
) -> None:
    begun = time.time()
    api.run(HELLO)
    viewer = running.person("lea", "viewer:elsewhere/*")

    text = api.get("/metrics").body.decode()
    path = "tests/hello"
    [last] = re.findall(
        rf'^noetl_playbook_last_success_timestamp_seconds{{path="{path}"}} (.+)$',
        text,
        re.MULTILINE,
    )

    assert begun - 1 <= float(last) <= time.time() + 1
    ended = f'finished_total{{path="{path}",status="completed"}}'
    assert f"noetl_playbook_executions_{ended}" in text
    assert f'noetl_playbook_execution_seconds_bucket{{le="60.0",path="{path}"}}' in text
    assert path not in viewer.get("/metrics").body.decode(), "it may not read it"


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
        "noetl_event_subscribers",
        "# TYPE noetl_open_streams gauge",
        "# TYPE noetl_waiting_claims gauge",
        "# TYPE noetl_request_body_bytes gauge",
        "# TYPE noetl_connections_refused_total counter",
        "# TYPE noetl_connections_closed_idle_total counter",
        "# TYPE noetl_quota_refusals_total counter",
        'noetl_http_requests_total{method="POST",route="/api/executions",status="201"}',
    ):
        assert name in text
