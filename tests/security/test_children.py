"""Row 89, I-37: a child runs with the rights of the account that began its parent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from servers import Api, Running

CANARY = "canary-4711-of-hr"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
_numbers = count()


def book(path: str, workflow: str, root: str = "") -> str:
    metadata = f"metadata: {{name: {path.rpartition('/')[2]}, path: {path}}}\n"
    return f"{HEAD}{metadata}{root}workflow:\n{workflow}"


def calls(path: str, child: str, root: str = "") -> str:
    """A playbook whose only step calls another playbook."""
    step = f"- {{step: start, tool: {{kind: playbook, path: '{child}'}}}}\n"
    return book(path, step, root)


PAYROLL = book(
    "hr/payroll", f"- {{step: start, tool: {{kind: noop, result: {CANARY}}}}}\n"
)
SHARED = book("shared/rates", "- {step: start, tool: {kind: noop, result: rates}}\n")
MIDDLE = calls("shared/middle", "hr/payroll")


@pytest.fixture(scope="session")
def teams(running: Running) -> Running:
    prepare(running)
    return running


def prepare(running: Running) -> None:
    admin = Api(running.url, running.token)
    for text in (PAYROLL, SHARED, MIDDLE):
        assert admin.post("/api/catalog", {"playbook": text}).status in (200, 201)


@pytest.fixture
def author(teams: Running) -> Api:
    """Writes below ``finance``, runs what is below ``shared``, sees nothing of hr."""
    return teams.person(
        f"author-{next(_numbers)}", "author:finance/*", "operator:shared/*"
    )


def error_of(document: dict[str, Any]) -> tuple[str, str]:
    error = document["error"]
    return error["kind"], error["message"]


def test_a_child_that_its_initiator_may_not_run_is_forbidden(author: Api) -> None:
    document = author.run(calls("finance/x", "hr/payroll"))

    kind, message = error_of(document)
    assert kind == "playbook.forbidden"
    assert "hr/payroll" in message
    assert CANARY not in str(document)


def test_a_child_that_its_initiator_may_run_is_run(author: Api) -> None:
    assert author.run(calls("finance/x", "shared/rates"))["result"] == "rates"


@pytest.mark.parametrize(
    "path",
    [
        *("hr/payroll2", "hr/none/at/all", "financex/y", "finance-x/y", "Finance/x"),
        *("finance/../hr/payroll", "finance/./x", "finance//x", "/hr/payroll"),
        *("hr/payroll@1", "hr", "*", "finance/*", "hr\u2215payroll", "ﬁnance/x"),
    ],
)
def test_what_is_missing_and_what_is_foreign_answer_alike(
    author: Api, path: str
) -> None:
    """No text says whether a playbook of another team exists."""
    there = error_of(author.run(calls("finance/x", "hr/payroll")))
    kind, message = error_of(author.run(calls("finance/x", path)))

    assert (kind, message.replace(path, "PATH")) == (
        there[0],
        there[1].replace("hr/payroll", "PATH"),
    )


def test_a_missing_child_is_missing_to_an_initiator_who_may_run_it(
    author: Api, admin: Api
) -> None:
    for api in (author, admin):
        document = api.run(calls("finance/x", "shared/none"))
        assert error_of(document)[0] == "playbook.not_found"
    assert error_of(admin.run(calls("finance/x", "no such!")))[0] == (
        "playbook.not_found"
    )


def test_the_child_of_a_child_has_the_same_initiator(author: Api, admin: Api) -> None:
    """The child in between is of a path that they may run."""
    text = calls("finance/x", "shared/middle")

    document = author.run(text)
    allowed = admin.run(text)

    assert "playbook.forbidden" in str(document["error"])
    assert CANARY not in str(document)
    assert allowed["result"] == CANARY


SHAPES = {
    "a template": (
        "- {step: start, tool: {kind: playbook, path: '{{ workload.p }}'}}\n",
        "workload: {p: hr/payroll}\n",
    ),
    "a loop": (
        "- step: start\n"
        "  loop: {in: [1, 2], iterator: i}\n"
        "  tool: {kind: playbook, path: hr/payroll}\n",
        "",
    ),
    "a workbook": (
        "- {step: start, tool: {kind: workbook, name: pay}}\n",
        "workbook: {pay: {kind: playbook, path: hr/payroll}}\n",
    ),
    "a task list": (
        "- step: start\n"
        "  tool:\n"
        "  - one: {kind: noop}\n"
        "  - two: {kind: playbook, path: hr/payroll}\n",
        "",
    ),
    "retries": (
        "- step: start\n"
        "  tool:\n"
        "    kind: playbook\n"
        "    path: hr/payroll\n"
        "    spec: {policy: {rules: [{when: '{{ outcome.status == \"error\" }}',"
        " then: {do: retry, attempts: 3, delay: 0}}]}}\n",
        "",
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_form_of_a_call_is_a_way_around(author: Api, shape: str) -> None:
    workflow, root = SHAPES[shape]

    document = author.run(book("finance/x", workflow, root))

    assert "playbook.forbidden" in str(document), document
    assert CANARY not in str(document)


def test_a_registered_playbook_runs_with_the_rights_of_who_starts_it(
    author: Api, admin: Api
) -> None:
    text = calls("finance/registered", "hr/payroll")
    assert author.post("/api/catalog", {"playbook": text}).status in (200, 201)
    answers = [
        api.post("/api/executions?wait=30", {"path": "finance/registered"}).body
        for api in (author, admin)
    ]

    assert answers[0]["error"]["kind"] == "playbook.forbidden"
    assert answers[1]["result"] == CANARY


def test_a_fork_and_a_retry_have_the_rights_of_who_makes_them(
    author: Api, admin: Api
) -> None:
    text = calls("finance/forked", "hr/payroll")
    done = admin.run(text)["execution_id"]
    failed = author.run(text)["execution_id"]

    theirs = author.post(f"/api/executions/{done}/fork", {"at": 5})
    ours = admin.post(f"/api/executions/{failed}/retry", {})

    assert theirs.status == ours.status == 201, (theirs.body, ours.body)
    forked = author.finish(theirs.body["execution_id"])
    assert error_of(forked)[0] == "playbook.forbidden"
    assert admin.finish(ours.body["execution_id"])["result"] == CANARY


WAITS = book(
    "finance/waits",
    "- step: start\n"
    "  tool: {kind: wait, signal: go}\n"
    "  next: {arcs: [{step: pay}]}\n"
    "- {step: pay, tool: {kind: playbook, path: hr/payroll}}\n",
)


def no_roles(running: Running, admin: Api, name: str) -> None:
    body = {"roles": ["author:finance/*"]}
    assert admin.post(f"/api/users/{name}/roles", body).status == 200


def disabled(running: Running, admin: Api, name: str) -> None:
    async def disable() -> None:
        assert running.server is not None
        people = running.server._site.people
        await people.set_disabled((await people.find(name)).user_id, True)

    assert running._loop is not None
    asyncio.run_coroutine_threadsafe(disable(), running._loop).result(30)


def removed(running: Running, admin: Api, name: str) -> None:
    assert admin.call("DELETE", f"/api/users/{name}").status == 200


def replaced(running: Running, admin: Api, name: str) -> None:
    """Another person gets the same name."""
    removed(running, admin, name)
    body = {"name": name, "roles": ["admin"]}
    assert admin.post("/api/users", body).status == 201


@pytest.mark.parametrize("change", [no_roles, disabled, removed, replaced])
def test_rights_are_those_of_the_moment_when_the_child_begins(
    teams: Running, admin: Api, change: Callable[[Running, Api, str], None]
) -> None:
    """Signals and resumes of others leave the initiator the same."""
    name = f"leaves-{next(_numbers)}"
    both = teams.person(name, "author:finance/*", "operator:hr/*")
    execution_id = both.start(WAITS)
    both.await_event(execution_id, "task.suspended")
    assert admin.post(f"/api/executions/{execution_id}/pause").status == 200

    change(teams, admin, name)
    assert admin.post(f"/api/executions/{execution_id}/resume").status == 200
    sent = admin.post(f"/api/executions/{execution_id}/signal", {"name": "go"})

    assert sent.status == 200, sent.body
    document = admin.finish(execution_id)
    assert error_of(document)[0] == "playbook.forbidden"
    assert CANARY not in str(document)


def test_a_token_hands_its_limits_on(teams: Running, admin: Api) -> None:
    name = f"narrow-{next(_numbers)}"
    teams.person(name, "admin")
    body = {"user": name, "label": "narrow", "scopes": ["author:finance/*"]}
    narrow = Api(teams.url, admin.post("/api/tokens", body).body["token"])

    document = narrow.run(calls("finance/x", "hr/payroll"))

    assert error_of(document)[0] == "playbook.forbidden"


def test_the_log_says_whose_rights_an_execution_has(author: Api, admin: Api) -> None:
    """I-44: of a child, too."""
    document = author.run(calls("finance/x", "shared/rates"))
    execution_id = document["execution_id"]
    lines = author.get("/api/executions?path=shared/rates").body["executions"]
    [child] = [
        each["execution_id"]
        for each in lines
        if first_event(author, each["execution_id"])["payload"]
        .get("parent", {})
        .get("execution_id")
        == execution_id
    ]

    initiators = [
        first_event(author, each)["payload"]["initiator"]
        for each in (execution_id, child)
    ]

    assert initiators[0] == initiators[1]
    assert initiators[0]["principal"].startswith("author-")


def first_event(api: Api, execution_id: str) -> dict[str, Any]:
    path = f"/api/executions/{execution_id}/events?limit=1"
    event: dict[str, Any] = api.get(path).body["events"][0]
    return event


# -- triggers ---------------------------------------------------------------------


def hook(api: Api, name: str, playbook: str, **more: Any) -> Any:
    trigger = {"name": name, "playbook": playbook, "webhook": {}, **more}
    return api.post("/api/triggers", {"trigger": trigger})


def deliver(running: Running, name: str, token: str) -> Any:
    return Api(running.url, token).post(f"/hooks/{name}", {})


@pytest.fixture
def relay(teams: Running, admin: Api) -> str:
    """A playbook of finance that calls one of hr."""
    text = calls("finance/relay", "hr/payroll")
    assert admin.post("/api/catalog", {"playbook": text}).status in (200, 201)
    return "finance/relay"


def test_what_a_trigger_starts_has_the_rights_of_its_owner(
    teams: Running, admin: Api, author: Api, relay: str
) -> None:
    results = []
    for number, api in enumerate((author, admin)):
        made = hook(api, f"owned-{number}", relay)
        assert made.status == 201, made.body
        sent = deliver(teams, f"owned-{number}", made.body["token"])
        assert sent.status == 201, sent.body
        results.append(admin.finish(sent.body["execution_id"]))

    assert error_of(results[0])[0] == "playbook.forbidden"
    assert results[1]["result"] == CANARY


def test_who_fires_a_trigger_by_hand_gets_no_rights_of_its_owner(
    admin: Api, author: Api, relay: str
) -> None:
    assert hook(admin, "by-hand", relay).status == 201

    fired = author.post("/api/triggers/by-hand/fire", {"payload": {}})

    assert fired.status == 201, fired.body
    document = author.finish(fired.body["execution_id"])
    assert error_of(document)[0] == "playbook.forbidden"


def test_who_replaces_a_trigger_is_its_owner(
    teams: Running, admin: Api, author: Api, relay: str
) -> None:
    """Else its inputs were of one account, and its rights of another."""
    made = hook(admin, "replaced", relay)
    trigger = {"name": "replaced", "playbook": relay, "webhook": {}}
    trigger["workload"] = {"mine": 1}

    body = {"trigger": trigger, "replace": True}
    changed = author.post("/api/triggers", body)

    assert changed.status == 200, changed.body
    assert changed.body["owner"].startswith("author-")
    sent = deliver(teams, "replaced", made.body["token"])
    document = author.finish(sent.body["execution_id"])
    assert error_of(document)[0] == "playbook.forbidden"
    again = admin.post("/api/triggers", body).body
    assert again["owner"] == "local", "the same definition, taken over"


def test_a_trigger_of_an_account_that_is_gone_starts_nothing(
    teams: Running, admin: Api
) -> None:
    name = f"leaves-{next(_numbers)}"
    person = teams.person(name, "operator:shared/*")
    made = hook(person, "orphan", "shared/rates")
    assert deliver(teams, "orphan", made.body["token"]).status == 201

    removed(teams, admin, name)
    refused = deliver(teams, "orphan", made.body["token"])

    assert (refused.status, refused.body["kind"]) == (403, "playbook.forbidden")
    execution = admin.get(f"/api/executions/{refused.body['execution_id']}").body
    assert execution["status"] == "failed"


# -- two servers on one database ------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path, postgres: str) -> Iterator[tuple[Running, Running]]:
    first = Running(tmp_path / "one", database=postgres, slots=0)
    second = Running(
        tmp_path / "two", database=postgres, extensions=frozenset({"classic"})
    )
    yield first, second
    second.stop()
    first.stop()


def test_any_server_of_a_cluster_decides_alike(pair: tuple[Running, Running]) -> None:
    """The one that begins the child has not seen the request."""
    first, second = pair
    prepare(first)
    author = first.person("ann", "author:finance/*", "operator:shared/*")

    documents = [
        author.run(calls("finance/x", child))
        for child in ("hr/payroll", "shared/middle", "shared/rates")
    ]

    assert error_of(documents[0])[0] == "playbook.forbidden"
    assert "playbook.forbidden" in str(documents[1]["error"])
    assert documents[2]["result"] == "rates"
    elsewhere = Api(second.url, author.token)
    document = elsewhere.run(calls("finance/x", "hr/payroll"))
    assert error_of(document)[0] == "playbook.forbidden"
    classic = "- {step: start, tool: {kind: playbook, path: hr/payroll, payload: {}}}\n"
    document = elsewhere.run(book("finance/classic", classic))
    assert error_of(document)[0] == "playbook.forbidden"
