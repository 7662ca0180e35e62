"""The net of a playbook with its layout, of a version and of an execution."""

from __future__ import annotations

import pytest
from servers import ASKS, HELLO, Api, Running, playbook


def test_an_execution_shows_the_net_that_it_ran(api: Api) -> None:
    document = api.run(HELLO)

    answer = api.get(f"/api/executions/{document['execution_id']}/graph")

    assert answer.status == 200
    assert [node["id"] for node in answer.body["nodes"]] == ["start"]
    assert answer.body["digest"] == document["playbook"]["sha256"]
    assert answer.body["width"] > answer.body["nodes"][0]["w"]


def test_each_version_has_a_net_of_its_own(api: Api) -> None:
    one = playbook("drawn", "- {step: start, tool: {kind: noop}}", version="1")
    two = playbook(
        "drawn",
        """
        - {step: start, tool: {kind: noop}, next: {arcs: [{step: more}]}}
        - {step: more, tool: {kind: noop}}
        """,
        version="2",
    )
    for text in (one, two):
        assert api.post("/api/catalog", {"playbook": text}).status == 201

    first = api.get("/api/catalog/tests/drawn/-/graph?version=1")
    latest = api.get("/api/catalog/tests/drawn/-/graph")

    assert [node["id"] for node in first.body["nodes"]] == ["start"]
    assert [node["id"] for node in latest.body["nodes"]] == ["start", "more"]
    assert [(arc["from"], arc["to"]) for arc in latest.body["arcs"]] == [
        ("start", "more")
    ]
    assert first.headers["etag"] != latest.headers["etag"]


def test_a_client_that_has_the_drawing_gets_304(api: Api) -> None:
    path = f"/api/executions/{api.start(HELLO)}/graph"
    first = api.get(path)
    tag = first.headers["etag"]

    again = api.get(path, If_None_Match=tag)
    among = api.get(path, If_None_Match=f'"other", W/{tag}')
    other = api.get(path, If_None_Match='"other"')

    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == tag
    assert among.status == 304
    assert (other.status, other.body) == (200, first.body)
    assert first.headers["cache-control"] == "private, no-cache"


def test_there_is_no_graph_of_what_is_not_there(api: Api) -> None:
    missing = api.get("/api/catalog/tests/never/-/graph")
    refused = api.post("/api/executions", {"path": "tests/never"}).body["execution_id"]
    gone = api.get(f"/api/executions/{refused}/graph")

    assert (missing.status, missing.body["kind"]) == (404, "playbook.not_found")
    assert (gone.status, gone.body["kind"]) == (503, "ref.gone")


@pytest.mark.parametrize("text", ["nothing: here\n", HELLO.replace("start", "{")])
def test_an_invalid_playbook_has_no_graph(api: Api, text: str) -> None:
    refused = api.post("/api/executions", {"playbook": text}).body["execution_id"]

    answer = api.get(f"/api/executions/{refused}/graph")

    assert (answer.status, answer.body["kind"]) == (422, "playbook.invalid")


def test_a_graph_of_other_paths_is_not_shown(running: Running, api: Api) -> None:
    guest = running.person("graph-guest", "viewer:tests/hello")
    assert api.post("/api/catalog", {"playbook": ASKS}).status in (200, 201)
    assert api.post("/api/catalog", {"playbook": HELLO}).status in (200, 201)

    assert guest.get("/api/catalog/tests/hello/-/graph").status == 200
    assert guest.get("/api/catalog/tests/asks/-/graph").status == 403
