"""Who may do what: roles, places, and the scopes of a token."""

from __future__ import annotations

import pytest

from noetl.access.permissions import (
    ANYBODY,
    PERMISSIONS,
    ROLES,
    Grant,
    Means,
    Principal,
    allows,
    may_somewhere,
    read_grant,
    read_grants,
    require,
)
from noetl.errors import AccessError

PATH = "finance/q1/report"


def somebody(
    *grants: str, limits: list[str] | None = None, means: Means = "token"
) -> Principal:
    return Principal(
        user_id="u1",
        name="ann",
        grants=read_grants(grants),
        means=means,
        limits=None if limits is None else read_grants(limits),
    )


def test_every_role_is_made_of_declared_permissions() -> None:
    for name, role in ROLES.items():
        assert role.permissions <= PERMISSIONS.keys(), name


def test_every_permission_is_given_by_some_role() -> None:
    given = frozenset().union(*(role.permissions for role in ROLES.values()))

    assert given == PERMISSIONS.keys()


@pytest.mark.parametrize(
    ("role", "may"),
    [
        (
            "viewer",
            {"executions:read", "playbooks:read", "triggers:read", "workers:read"},
        ),
        (
            "operator",
            {
                *("executions:run", "executions:control"),
                *("payloads:read", "triggers:write"),
            },
        ),
        ("author", {"playbooks:write"}),
        ("developer", {"tools:code"}),
    ],
)
def test_each_step_of_the_ladder_adds_only_this(role: str, may: set[str]) -> None:
    ladder = ["viewer", "operator", "author", "developer"]
    below = ladder[: ladder.index(role)]
    before = {p for name in below for p in ROLES[name].permissions}

    added = {p for p in PERMISSIONS if allows(somebody(role), p, PATH)} - before

    assert added == may


def test_an_admin_may_everything_but_a_workers_work() -> None:
    may = {p for p in PERMISSIONS if allows(somebody("admin"), p, "default")}

    assert may == PERMISSIONS.keys() - {"work:claim"}


def test_who_keeps_secrets_reads_no_executions_and_an_auditor_changes_nothing() -> None:
    assert not allows(somebody("secrets"), "executions:read", PATH)
    assert allows(somebody("auditor"), "log:export", PATH)
    for permission in ("executions:run", "playbooks:write", "secrets:write"):
        assert not allows(somebody("auditor"), permission, PATH)


@pytest.mark.parametrize(
    ("grant", "path", "expected"),
    [
        ("viewer", "hr/x", True),
        ("viewer", None, True),
        ("viewer:*", None, True),
        ("viewer:finance/*", "finance/report", True),
        ("viewer:finance/*", "finance/q1/report", True),
        ("viewer:finance/*", "finance", False),
        ("viewer:finance/*", "finance2/report", False),
        ("viewer:finance/*", "Finance/report", False),
        ("viewer:finance/*", "hr/finance/report", False),
        ("viewer:finance/*", None, False),
        ("viewer:finance/*", "finance/../hr/x", False),
        ("viewer:finance/*", "finance//x", False),
        ("viewer:finance/*", "/finance/x", False),
        ("viewer:finance/*", "finance/x\n", False),
        ("viewer:finance/report", "finance/report", True),
        ("viewer:finance/report", "finance/report/more", False),
        ("viewer", "../../etc/passwd", False),
        ("viewer", "x" * 256, False),
        ("viewer", "", False),
    ],
)
def test_a_grant_reaches_whole_names_below_its_prefix(
    grant: str, path: str | None, expected: bool
) -> None:
    assert allows(somebody(grant), "executions:read", path) is expected


def test_what_is_of_the_whole_server_needs_no_place() -> None:
    assert allows(somebody("viewer:finance/*"), "workers:read")
    assert not allows(somebody("developer:finance/*"), "accounts:manage")


def test_a_worker_claims_from_its_own_pool_alone() -> None:
    worker = somebody("worker:gpu")

    assert allows(worker, "work:claim", "gpu")
    assert not allows(worker, "work:claim", "default")
    assert not allows(worker, "work:claim")
    assert not allows(worker, "executions:read", PATH)


def test_a_cookie_is_never_enough_for_a_workers_calls() -> None:
    worker = somebody("worker:gpu", means="session")

    assert not allows(worker, "work:claim", "gpu")
    assert not may_somewhere(worker, "work:claim")


@pytest.mark.spec("S-63")
def test_without_authentication_every_request_is_allowed() -> None:
    for permission in PERMISSIONS:
        assert allows(ANYBODY, permission, "default")


def test_a_token_can_do_what_both_its_account_and_its_scopes_allow() -> None:
    token = somebody("operator:finance/*", "viewer", limits=["operator:finance/q1/*"])

    assert allows(token, "executions:run", "finance/q1/report")
    assert not allows(token, "executions:run", "finance/q2/report")
    assert not allows(token, "executions:read", "hr/x")
    assert not allows(somebody("viewer", limits=["admin"]), "executions:run", PATH)
    assert not allows(somebody("admin", limits=[]), "executions:read", PATH)


def test_a_listing_needs_a_role_on_some_path() -> None:
    assert may_somewhere(somebody("viewer:finance/*"), "executions:read")
    assert may_somewhere(somebody("viewer:finance/report"), "executions:read")
    assert not may_somewhere(somebody("secrets"), "executions:read")
    assert not may_somewhere(somebody("admin", limits=["secrets"]), "executions:read")


def test_an_account_without_a_role_may_do_nothing() -> None:
    assert not any(allows(somebody(), p, PATH) for p in PERMISSIONS)


def test_a_refusal_names_who_what_and_where() -> None:
    with pytest.raises(AccessError) as e:
        require(somebody("viewer"), "executions:run", PATH)

    assert e.value.kind == "auth.role"
    assert e.value.status == 403
    assert e.value.message == f"ann lacks the permission executions:run for '{PATH}'"


def test_an_undeclared_permission_is_a_defect() -> None:
    with pytest.raises(KeyError):
        allows(somebody("admin"), "executions:raed", PATH)


@pytest.mark.parametrize(
    "text", ["viewer", "operator:finance/*", "worker:gpu-2", "worker:*"]
)
def test_a_grant_reads_as_it_is_written(text: str) -> None:
    assert str(read_grant(text)) == text


def test_a_star_alone_is_everywhere_and_doubles_go() -> None:
    assert read_grants(["viewer:*", "viewer"]) == (Grant("viewer"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("admn", "unknown role 'admn'; did you mean 'admin'?"),
        ("", "unknown role ''; known: admin, auditor, author,"),
        ("worker", "'worker' needs a pool, for example worker:default"),
        (
            "worker:a/b",
            "'worker:' must be followed by the name of a pool or *, found 'a/b'",
        ),
        ("admin:finance/*", "'admin' takes no path or pool: remove 'finance/*'"),
        (
            "viewer:fin*",
            "'viewer:' must be followed by a path or finance/*, found 'fin*'",
        ),
        ("viewer:", "'viewer:' must be followed by a path or finance/*, found ''"),
        (
            "viewer:../x",
            "'viewer:' must be followed by a path or finance/*, found '../x'",
        ),
        (
            "viewer:/x/*",
            "'viewer:' must be followed by a path or finance/*, found '/x/*'",
        ),
    ],
)
def test_a_wrong_grant_is_explained(text: str, message: str) -> None:
    with pytest.raises(AccessError) as e:
        read_grant(text)

    assert e.value.kind == "account.role"
    assert e.value.message.startswith(message)
