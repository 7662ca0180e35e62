"""The wall between paths: roles, routes, and what is own, foreign or missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from servers import Answer, Api, Running
from teams import (
    ABOUT,
    LISTS,
    NAMED,
    OTHERS,
    WHOLE,
    WORKERS,
    Asking,
    Team,
    make_team,
    missing_like,
    shown,
    text_of,
)

from noetl.access.permissions import ROLES
from noetl.api.app import endpoints
from noetl.runtime.worker_protocol.messages import PROTOCOL

ENDPOINTS = {each.name: each for each in endpoints()}
CALLERS = {
    **{
        f"{role}:finance/*": (f"{role}:finance/*",)
        for role in ("viewer", "operator", "author", "developer", "auditor", "secrets")
    },
    "near prefixes": (
        *("developer:h/*", "developer:hr2/*", "developer:hr-x/*", "developer:hr/book"),
        *("developer:HR/*", "developer:hr/books/*", "developer:finance/*"),
    ),
    "a worker": ("worker:*",),
}
FOREIGN = [
    "viewer:finance/*",
    "operator:finance/*",
    "near prefixes",
    "secrets:finance/*",
]
OWN = [each for each in CALLERS if each.endswith(":finance/*")]
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


class World(NamedTuple):
    running: Running
    admin: Api
    own: Team
    foreign: Team
    callers: dict[str, Api]


def make_world(running: Running, names: list[str]) -> World:
    admin = Api(running.url, running.token)
    own, foreign = make_team(admin, "finance"), make_team(admin, "hr")
    callers = {
        name: running.person(f"matrix-{number}", *CALLERS[name])
        for number, name in enumerate(names)
    }
    return World(running, admin, own, foreign, callers)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    running = Running(tmp_path_factory.mktemp("teams") / "home", answer_links=True)
    yield make_world(running, [*CALLERS])
    running.stop()


def ask(api: Api, asking: Asking, team: Team) -> Answer:
    method, path, body = asking(team)
    return api.call(method, path, body)


def without_names(answer: Answer, team: Team) -> str:
    """What an answer says, without the ids that the caller has sent."""
    text = shown(answer._replace(headers={}))
    for name in sorted(team, key=len, reverse=True):
        text = text.replace(name, "NAME")
    return _ID.sub("ID", text)


def leaks(answer: Answer, asked: str, team: Team) -> list[str]:
    """What an answer holds of a team that was not in the question."""
    text = shown(answer)
    return [each for each in (team.canary, *team) if each in text and each not in asked]


def test_every_route_says_what_it_knows_of_a_path() -> None:
    """A new route needs a line in one of these tables."""
    tables = [set(each) for each in (ABOUT, LISTS, WHOLE, NAMED, WORKERS, OTHERS)]

    assert set.union(*tables) == ENDPOINTS.keys()
    assert sum(map(len, tables)) == len(ENDPOINTS), "one table has each of them"


@pytest.mark.parametrize("caller", FOREIGN)
def test_what_is_foreign_is_as_if_it_were_not_there(world: World, caller: str) -> None:
    """Row 64: byte for byte but for the id, and nothing of it is shown."""
    api, absent = world.callers[caller], missing_like(world.foreign)
    for name, asking in [(n, asking) for n in ABOUT for asking in ABOUT[n]]:
        foreign, missing = ask(api, asking, world.foreign), ask(api, asking, absent)

        assert foreign.status in (403, 404), (name, foreign)
        told = without_names(foreign, world.foreign)
        assert told == without_names(missing, absent), name
        assert leaks(foreign, str(asking(world.foreign)), world.foreign) == [], name


@pytest.mark.parametrize("caller", OWN)
def test_what_is_own_follows_the_role(world: World, caller: str) -> None:
    api, held = world.callers[caller], ROLES[caller.partition(":")[0]].permissions
    trigger = {"name": world.own.trigger, "playbook": world.own.path, "webhook": {}}
    world.admin.post("/api/triggers", {"trigger": trigger})  # if it was deleted
    kept = {"value": "again", "for": ["finance/*"]}
    world.admin.post(f"/api/keychain/{world.own.secret}", kept)
    for name, asking in [(n, asking) for n in ABOUT for asking in ABOUT[n]]:
        answer = ask(api, asking, world.own)
        needed = {ENDPOINTS[name].permission}
        if name == "start_execution" and "playbook" in asking(world.own)[2]:
            needed.add("playbooks:write")

        granted = answer.status not in (401, 403, 404)
        assert granted is (needed <= held), (name, answer)


@pytest.mark.parametrize("caller", CALLERS)
def test_a_list_has_nothing_of_others(world: World, caller: str) -> None:
    api = world.callers[caller]
    for method, path, body in [each for lists in LISTS.values() for each in lists]:
        answer = api.call(method, path, body)

        assert answer.status in (200, 403), (path, answer)
        assert leaks(answer, f"{path} {body}", world.foreign) == [], path


@pytest.mark.parametrize("caller", ["viewer:finance/*", "near prefixes"])
def test_a_list_that_is_read_page_by_page_is_complete(
    world: World, caller: str
) -> None:
    """Pages count what a caller sees: no empty page tells of others."""
    found, cursor = [], ""
    while cursor is not None:
        more = f"&cursor={cursor}" if cursor else ""
        page = world.callers[caller].get(f"/api/catalog?limit=1{more}").body
        assert len(page["playbooks"]) == 1
        found.append(page["playbooks"][0]["path"])
        cursor = page["cursor"]

    assert found == sorted(found)
    assert {each.partition("/")[0] for each in found} == {"finance"}


@pytest.mark.parametrize("caller", OWN)
def test_a_role_for_a_path_opens_nothing_of_the_server(
    world: World, caller: str
) -> None:
    for name in WHOLE | WORKERS:
        endpoint = ENDPOINTS[name]
        path = re.sub(r"\{\w+\}", "x", endpoint.plain_path)

        answer = world.callers[caller].call(endpoint.method, path)

        assert (answer.status, answer.body["kind"]) == (403, "auth.role"), name


def test_workers_are_shown_without_their_accounts(world: World) -> None:
    claim = {"worker": "w1", "pool": "default", "slots": 1, "protocol": PROTOCOL}
    claimed = world.callers["a worker"].post("/api/worker/claim", claim)
    assert claimed.status == 200, claimed.body

    [line] = world.callers["viewer:finance/*"].get("/api/workers").body["workers"]
    [whole] = world.admin.get("/api/workers").body["workers"]

    assert (line["worker"], line["account"], line["address"]) == ("w1", None, None)
    assert whole["account"].startswith("matrix-")


# -- names of others -------------------------------------------------------------------


def test_the_name_of_a_trigger_that_others_have_is_taken_and_nothing_else(
    world: World,
) -> None:
    """Names are of the whole server; the answer has no path, and changes nothing."""
    api = world.callers["operator:finance/*"]
    before = world.admin.get(f"/api/triggers/{world.foreign.trigger}").body
    trigger = {"name": world.foreign.trigger, "playbook": world.own.path, "webhook": {}}
    for replace in (False, True):
        answer = api.post("/api/triggers", {"trigger": trigger, "replace": replace})

        assert (answer.status, answer.body["kind"]) == (409, "trigger.exists")
        assert leaks(answer, str(trigger), world.foreign) == []
    assert world.admin.get(f"/api/triggers/{world.foreign.trigger}").body == before


def test_the_name_of_a_secret_that_others_have_is_taken_and_nothing_else(
    world: World,
) -> None:
    api = world.callers["secrets:finance/*"]
    for more in ({}, {"for": ["finance/*"]}):
        path = f"/api/keychain/{world.foreign.secret}"
        answer = api.post(path, {"value": "mine", **more})

        assert (answer.status, answer.body["kind"]) == (409, "keychain.taken")
        assert leaks(answer, path, world.foreign) == []
    for where in ("hr/*", "hr/books", "*", "h/*"):
        answer = api.post("/api/keychain/new", {"value": "mine", "for": [where]})
        assert (answer.status, answer.body["kind"]) == (403, "auth.role"), where


def test_a_trigger_is_not_fired_with_the_execution_of_others(world: World) -> None:
    api = world.callers["operator:finance/*"]
    path = f"/api/triggers/{world.own.listener}/fire"
    absent = missing_like(world.foreign)
    foreign = api.post(path, {"execution_id": world.foreign.done})
    missing = api.post(path, {"execution_id": absent.done})

    assert foreign.status == 404
    assert without_names(foreign, world.foreign) == without_names(missing, absent)


def test_a_trigger_does_not_listen_to_others(world: World) -> None:
    api = world.callers["operator:finance/*"]
    for path in ("hr/books", "hr/never", "hr/*", "finance-x/*", "fin/*"):
        trigger = {"name": "listens", "playbook": world.own.path}
        answer = api.post(
            "/api/triggers", {"trigger": {**trigger, "finished": {"path": path}}}
        )
        assert (answer.status, answer.body["kind"]) == (403, "auth.role"), path


def test_a_round_of_triggers_names_no_path_of_others(world: World) -> None:
    """hr listens to finance, finance would listen to hr's result by way of shared."""
    for path in ("hr/rounds", "shared/rounds"):
        text = text_of(path, world.foreign.canary)
        assert world.admin.post("/api/catalog", {"playbook": text}).status == 201
    for name, playbook, heard in (
        ("round-1", "hr/rounds", world.own.path),
        ("round-2", "shared/rounds", "hr/rounds"),
    ):
        trigger = {"name": name, "playbook": playbook, "finished": {"path": heard}}
        made = world.admin.post("/api/triggers", {"trigger": trigger})
        assert made.status == 201, made.body
    api = world.running.person("rounds", "operator:finance/*", "operator:shared/*")
    closing = {"name": "round-3", "playbook": world.own.path}
    closing |= {"finished": {"path": "shared/rounds"}}

    answer = api.post("/api/triggers", {"trigger": closing})

    for name in ("round-1", "round-2"):
        world.admin.call("DELETE", f"/api/triggers/{name}")
    assert (answer.status, answer.body["kind"]) == (409, "trigger.loop")
    assert "hr/rounds" not in str(answer.body)
    assert "shared/rounds" in str(answer.body)


def test_a_key_of_one_caller_is_unknown_to_another(world: World) -> None:
    """Idempotency keys belong to a principal: equal ones do not meet."""
    apis = [world.callers[each] for each in ("operator:finance/*", "author:finance/*")]
    body = {"path": world.own.path, "idempotency_key": "the-same"}
    first, second = (api.post("/api/executions", body) for api in apis)
    again = apis[0].post("/api/executions", body)

    assert first.status == second.status == 201
    assert first.body["execution_id"] != second.body["execution_id"]
    assert again.body["execution_id"] == first.body["execution_id"]


def test_a_key_does_not_outlive_the_right_to_its_playbook(world: World) -> None:
    name = "moves-on"
    api = world.running.person(name, "operator:hr/*")
    body = {"playbook_id": world.foreign.playbook_id, "idempotency_key": "mine"}
    began = api.post("/api/executions", body)
    assert began.status == 201
    world.admin.post(f"/api/users/{name}/roles", {"roles": ["operator:finance/*"]})

    answer = api.post("/api/executions?wait=1", body)

    assert (answer.status, answer.body["kind"]) == (409, "request.key_reused")
    assert leaks(answer, str(body), world.foreign) == []


@pytest.mark.parametrize(
    "path",
    [
        *("finance/../hr/books", "finance/./books", "finance//books", "/hr/books"),
        *("finance/%2e%2e/hr/books", "Finance/books", "FINANCE/books", "finance2/x"),
        *("finance-x/x", "financex", "finance", "ﬁnance/books", "finance\u2215books"),
        *("finance/books\u200b", "hr/books#finance/", "hr/books?finance/", "*"),
        *("finance/*", "finance/books/", "finance/books "),
    ],
)
def test_no_spelling_of_a_path_is_within_finance(world: World, path: str) -> None:
    """As the path of a playbook that is written, run or asked for."""
    api = world.callers["developer:finance/*"]
    text = text_of("PATH", "x").replace("path: PATH", f"path: {path!r}")
    text = text.replace("name: PATH", "name: x")
    for answer in (
        api.post("/api/catalog", {"playbook": text}),
        api.post("/api/executions", {"playbook": text}),
        api.post("/api/executions", {"path": path}),
        api.post(f"/api/executions/{world.own.done}/fork", {"at": 5, "playbook": text}),
    ):
        assert answer.status in (403, 422), (path, answer)
        assert leaks(answer, path, world.foreign) == []


def test_a_fork_takes_no_playbook_of_another_path(world: World) -> None:
    both = world.running.person("both", "developer:finance/*", "developer:hr/*")
    text = text_of(world.foreign.path, "x")

    answer = both.post(
        f"/api/executions/{world.own.done}/fork", {"at": 5, "playbook": text}
    )

    assert (answer.status, answer.body["kind"]) == (409, "fork.impossible")


# -- what commands show ---------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("sql", "select * from events"),
        ("list",),
    ],
    ids=" ".join,
)
def test_commands_show_what_the_token_may_see(
    world: World, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    token = world.callers["viewer:finance/*"].token
    environ = {**os.environ, "NOETL_HOME": str(tmp_path), "NOETL_TOKEN": token or ""}
    ran = subprocess.run(
        [sys.executable, "-m", "noetl", *arguments, "--server", world.running.url],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert "finance" in ran.stdout
    for name in (world.foreign.canary, *world.foreign):
        assert name not in ran.stdout + ran.stderr


# -- what is left ---------------------------------------------------------------


def check_untouched(world: World) -> None:
    foreign, admin = world.foreign, world.admin
    waiting = admin.get(f"/api/executions/{foreign.execution}").body
    assert waiting["status"] == "waiting"
    line = admin.get(f"/api/triggers/{foreign.trigger}").body
    assert (line["paused"], line["owner"]) == (False, "local")
    assert admin.get(f"/api/backfills/{foreign.backfill}").status == 200
    kept = admin.get("/api/keychain").body["keychain"]
    assert foreign.secret in {each["name"] for each in kept}
    versions = admin.get(f"/api/catalog/{foreign.path}/-/versions").body["versions"]
    assert len(versions) == 1


def test_nothing_of_the_other_team_was_changed(world: World) -> None:
    """After everything above."""
    check_untouched(world)


def test_the_wall_is_the_same_on_postgresql(tmp_path: Path, postgres: str) -> None:
    running = Running(tmp_path / "home", database=postgres)
    try:
        names = ["operator:finance/*", "near prefixes"]
        world = make_world(running, names)
        for caller in names:
            test_what_is_foreign_is_as_if_it_were_not_there(world, caller)
            test_a_list_has_nothing_of_others(world, caller)
        check_untouched(world)
    finally:
        running.stop()
