"""RELIABILITY 4.3: viewers see no data of playbooks that are marked as sensitive."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from servers import Api, Running
from teams import ABOUT, LISTS, Team, make_team, shown

from noetl.access.permissions import PERMISSIONS
from noetl.api.app import endpoints
from noetl.api.http.routes import PUBLIC, SIGNED_IN, WEBHOOK

ASKED_INSIDE = {"payloads:read", "tools:code"}
"""Permissions that routes ask for beside the one that they declare."""
DEFINED = {"show_trigger", "list_triggers"}
"""Triggers show the inputs that they are defined with: these are no execution's."""
TEXTS = {"show_execution_playbook", "show_playbook", "show_form"}


class Marked(NamedTuple):
    admin: Api
    team: Team
    viewer: Api
    operator: Api


@pytest.fixture(scope="module")
def marked(running: Running) -> Marked:
    admin = Api(running.url, running.token)
    return Marked(
        admin,
        make_team(admin, "medical", sensitive=True),
        running.person("nurse", "viewer:medical/*"),
        running.person("doctor", "operator:medical/*"),
    )


def test_no_route_shows_a_viewer_data_that_are_marked(marked: Marked) -> None:
    """Every call of the matrix; a new route is one of them."""
    calls = [
        (name, *asking(marked.team))
        for name in ABOUT
        if name not in DEFINED | TEXTS
        for asking in ABOUT[name]
    ]
    calls += [
        (name, *each) for name in LISTS if name not in DEFINED for each in LISTS[name]
    ]
    for name, method, path, body in calls:
        answer = marked.viewer.call(method, path, body)
        assert marked.team.canary not in shown(answer), (name, path)
    stream = f"/api/executions/{marked.team.done}/events"
    answer = marked.viewer.get(stream, Accept="text/event-stream")
    assert (answer.status, answer.body["kind"]) == (403, "auth.role")


def test_a_viewer_sees_status_times_and_kinds_of_errors(marked: Marked) -> None:
    path = f"/api/executions/{marked.team.done}"
    whole, hidden = (api.get(path).body for api in (marked.operator, marked.viewer))

    assert marked.team.canary in str(whole)
    for name in ("execution_id", "status", "started_at", "duration_ms", "events"):
        assert hidden[name] == whole[name]
    assert hidden["playbook"]["sensitive"] is True
    steps = [(each["step"], each["status"]) for each in hidden["steps"]]
    assert steps == [(each["step"], each["status"]) for each in whole["steps"]]
    assert [hidden[name] for name in ("workload", "ctx", "result")] == [{}, {}, None]
    lines = marked.viewer.get("/api/executions").body["executions"]
    assert marked.team.done in {each["execution_id"] for each in lines}


FAILS = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: fails, path: medical/fails, sensitive: true}
executor: {spec: {concurrency: {key: "{{ workload.data }}", limit: 9}}}
workload: {data: canary-7291-medical}
workflow:
- {step: start, tool: {kind: playbook, path: "{{ workload.data }}"}}
"""


def test_the_message_of_an_error_is_data(marked: Marked) -> None:
    """So is a concurrency key."""
    document = marked.admin.run(FAILS)
    path = f"/api/executions/{document['execution_id']}"

    for answer in (
        marked.viewer.get(path),
        marked.viewer.get("/api/executions?path=medical/fails"),
    ):
        assert answer.status == 200
        assert marked.team.canary not in shown(answer)
    error = marked.viewer.get(path).body["error"]
    assert marked.team.canary in document["error"]["message"]
    assert (error["kind"], error["step"]) == (
        document["error"]["kind"],
        document["error"]["step"],
    )


def test_a_search_does_not_tell_hidden_data(marked: Marked) -> None:
    marked.admin.run(FAILS)
    query = f"path=medical/fails&text={marked.team.canary}"

    found, hidden = (
        api.get(f"/api/executions?{query}").body["executions"]
        for api in (marked.operator, marked.viewer)
    )
    counts = marked.viewer.get(f"/api/executions/counts?{query}").body

    assert (len(found) > 0, hidden, counts["by_status"]) == (True, [], {})


PASSES_OVER = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: passes, path: medical/passes, sensitive: true}
workload: {data: canary-7291-medical}
workflow:
- step: start
  tool:
    - ignored:
        kind: playbook
        path: "{{ workload.data }}"
        spec: {policy: {rules: [{when: "{{ outcome.result == 7 }}", then: {do: fail}}]}}
  next: {arcs: [
    {step: each, when: "{{ event.name == 'step.done' }}"}]}
- step: each
  spec: {policy: {failure: best_effort}}
  loop: {in: [1], iterator: n}
  tool: {kind: playbook, path: "{{ workload.data }}"}
  next: {arcs: [{step: key, when: "{{ event.name == 'loop.done' }}"}]}
- step: key
  tool: {kind: noop, result: {canary-7291-medical: 1}}
  next: {arcs: [{step: end, when: "{{ event.payload.result['canary-7291-m'] }}"}]}
- {step: end, tool: {kind: noop}}
"""


@pytest.mark.spec("S-73")
def test_what_was_passed_over_is_data(marked: Marked) -> None:
    """Messages of ignored errors and of failed iterations, and names inside results."""
    document = marked.admin.run(PASSES_OVER)
    hidden = marked.viewer.get(f"/api/executions/{document['execution_id']}")

    assert document["counts"]["ignored_errors"] == 1
    assert marked.team.canary in str(document["ignored_errors"])
    assert marked.team.canary in str(document["steps"][1]["errors"])
    assert marked.team.canary in str(document["no_arc_fired"])
    assert marked.team.canary in str(document["undefined_names"])
    assert hidden.status == 200
    assert marked.team.canary not in shown(hidden)
    assert hidden.body["counts"] == document["counts"]


CALLS = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: calls, path: medical/calls, sensitive: true}
workload: {data: canary-7291-medical}
workflow:
- step: start
  tool: {kind: playbook, path: open/echo, args: {given: "{{ workload.data }}"}}
"""
ECHO = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: echo, path: open/echo}
workload: {given: nothing}
workflow:
- {step: start, tool: {kind: noop, result: "{{ workload.given }}"}}
"""


def register(marked: Marked, text: str) -> None:
    """Register a playbook, unless another test has done so."""
    answer = marked.admin.post("/api/catalog", {"playbook": text})
    assert answer.status in (200, 201), answer.body


def test_a_child_and_a_fork_are_as_sensitive_as_where_their_data_are_from(
    marked: Marked, running: Running
) -> None:
    register(marked, ECHO)
    assert marked.admin.run(CALLS)["result"] == marked.team.canary
    open_viewer = running.person("visitor", "viewer:open/*")
    [child] = open_viewer.get("/api/executions?path=open/echo").body["executions"]
    document = open_viewer.get(f"/api/executions/{child['execution_id']}")
    assert document.status == 200
    assert marked.team.canary not in shown(document)
    failed = marked.admin.run(FAILS)["execution_id"]
    body = {"at": 3, "playbook": FAILS.replace(", sensitive: true", "")}
    forked = marked.admin.post(f"/api/executions/{failed}/fork", body)
    assert forked.status == 201, forked.body
    path = f"/api/executions/{forked.body['execution_id']}"
    marked.admin.finish(forked.body["execution_id"])
    assert marked.team.canary not in shown(marked.viewer.get(path))
    assert marked.viewer.get(f"{path}/events").status == 403


def test_a_trigger_hands_on_only_what_its_owner_may_see(
    marked: Marked, running: Running
) -> None:
    """The owner may run ``open/*`` and sees of ``medical/*`` no data."""
    register(marked, ECHO)
    owner = running.person("relay", "viewer:medical/*", "operator:open/*")
    trigger = {
        "name": "relays",
        "playbook": "open/echo",
        "finished": {"path": "medical/fails", "status": ["failed"]},
        "workload": {"given": "{{ execution.error.message }}"},
    }
    assert owner.post("/api/triggers", {"trigger": trigger}).status == 201
    failed = marked.admin.run(FAILS)["execution_id"]

    fired = owner.post("/api/triggers/relays/fire", {"execution_id": failed})

    assert (fired.status, fired.body["kind"]) == (403, "auth.role")
    lines = owner.get("/api/executions?path=open/echo").body["executions"]
    assert [each for each in lines if each["parent_id"] is None] == []


def test_every_permission_is_asked_for() -> None:
    """One that no route asks for promises something that is not there."""
    declared = {each.permission for each in endpoints()}

    assert declared - {PUBLIC, SIGNED_IN, WEBHOOK} <= PERMISSIONS.keys()
    assert PERMISSIONS.keys() - declared == ASKED_INSIDE


@pytest.mark.spec("ROOT-05")
@pytest.mark.parametrize("value", ["yes", "1", "'true'", "{}", "null"])
def test_a_mark_must_be_a_boolean(admin: Api, value: str) -> None:
    """A playbook that is marked in a wrong way is not run as if it were not."""
    text = FAILS.replace("sensitive: true", f"sensitive: {value}")

    answer = admin.post("/api/validate", {"playbook": text})

    assert answer.body["valid"] is False
    assert {each["code"] for each in answer.body["diagnostics"]} == {"ROOT-05"}
