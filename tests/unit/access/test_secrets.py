"""Rules for kept secrets: who may use and change them, and what a playbook may say."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.access.permissions import Principal, read_grants
from noetl.access.secrets import (
    check_declaration,
    default_bindings,
    disagreements,
    find_declared,
    host_kinds,
    is_for,
    may_manage,
    read_bindings,
    redirections,
)
from noetl.dsl.grammar.keychain import KEYCHAIN, KeychainKind
from noetl.errors import AccessError

pytestmark = pytest.mark.spec("S-81")

WRITE = "secrets:write"


def keeper(*grants: str, limits: list[str] | None = None) -> Principal:
    return Principal(
        user_id="u1",
        name="ann",
        grants=read_grants(grants),
        means="token",
        limits=None if limits is None else read_grants(limits),
    )


@pytest.mark.parametrize(
    ("bound", "path", "expected"),
    [
        (["*"], "finance/x", True),
        (["*"], None, True),
        (["finance/*"], "finance/x", True),
        (["finance/*"], "finance/q1/x", True),
        (["finance/*"], "finance", False),
        (["finance/*"], "finance2/x", False),
        (["finance/*"], "hr/finance/x", False),
        (["finance/*"], None, False),
        (["finance/x"], "finance/x", True),
        (["finance/x"], "finance/x/y", False),
        (["hr/*", "finance/*"], "finance/x", True),
        ([], "finance/x", False),
    ],
)
def test_a_secret_is_for_the_playbooks_below_its_paths(
    bound: list[str], path: str | None, expected: bool
) -> None:
    assert is_for(bound, path) is expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["finance/*"], ("finance/*",)),
        (["finance/*", "hr/x", "finance/*"], ("finance/*", "hr/x")),
        (["finance/*", "*"], ("*",)),
    ],
)
def test_bindings_are_read_once_each(
    texts: list[str], expected: tuple[str, ...]
) -> None:
    assert read_bindings(texts) == expected


@pytest.mark.parametrize(
    "text",
    ["", "/", "/finance", "finance/", "fin*", "*/x", "a//b", "../x", "a/*/b", "a b"],
)
def test_an_invalid_path_is_refused_as_a_binding(text: str) -> None:
    with pytest.raises(AccessError, match="'finance/\\*' or '\\*'") as e:
        read_bindings([text])
    assert (e.value.kind, e.value.status) == ("request.invalid", 422)


@pytest.mark.parametrize("count", [0, 65])
def test_a_secret_has_at_least_one_binding_and_not_too_many(count: int) -> None:
    with pytest.raises(AccessError, match="1 to 64 paths"):
        read_bindings([f"team/{number}" for number in range(count)])


@pytest.mark.parametrize(
    ("grants", "limits", "bound", "may"),
    [
        (["admin"], None, ["*"], True),
        (["secrets"], None, ["*"], True),
        (["secrets:finance/*"], None, ["*"], False),
        (["secrets:finance/*"], None, ["finance/*"], True),
        (["secrets:finance/*"], None, ["finance/q1/*"], True),
        (["secrets:finance/*"], None, ["finance/x"], True),
        (["secrets:finance/*"], None, ["finance/*", "hr/*"], False),
        (["secrets:finance/*"], None, ["finance2/*"], False),
        (["secrets:finance/q1/*"], None, ["finance/*"], False),
        (["secrets:finance/x"], None, ["finance/x"], True),
        (["secrets:finance/x"], None, ["finance/x/*"], False),
        (["secrets:finance/*", "secrets:hr/*"], None, ["finance/*", "hr/*"], True),
        (["admin"], ["secrets:finance/*"], ["finance/*"], True),
        (["admin"], ["secrets:finance/*"], ["*"], False),
        (["secrets:finance/*"], ["secrets:hr/*"], ["finance/*"], False),
        (["developer", "auditor", "worker:*"], None, ["finance/*"], False),
    ],
)
def test_a_keeper_changes_only_what_is_bound_within_their_paths(
    grants: list[str], limits: list[str] | None, bound: list[str], may: bool
) -> None:
    assert may_manage(keeper(*grants, limits=limits), WRITE, bound) is may


@pytest.mark.parametrize(
    ("grants", "limits", "expected"),
    [
        (["admin"], None, ("*",)),
        (["secrets"], None, ("*",)),
        (["secrets:finance/*"], None, ("finance/*",)),
        (["secrets:finance/*", "secrets:hr/x"], None, ("finance/*", "hr/x")),
        (["secrets:finance/*", "secrets:finance/q1/*"], None, ("finance/*",)),
        (["secrets:finance/*", "operator:hr/*"], None, ("finance/*",)),
        (["admin"], ["secrets:finance/*"], ("finance/*",)),
        (["secrets:finance/*"], ["secrets:hr/*"], ()),
    ],
)
def test_a_new_secret_is_for_the_paths_of_its_keeper(
    grants: list[str], limits: list[str] | None, expected: tuple[str, ...]
) -> None:
    assert default_bindings(keeper(*grants, limits=limits), WRITE) == expected


DECLARED = {"api": "env", "db": "vault", "key": "file"}


@pytest.mark.parametrize(
    ("kind", "name", "fields", "expected"),
    [
        ("env", "api", {}, ("api", frozenset())),
        ("env", "t", {"variable": "api"}, ("api", frozenset({"variable"}))),
        ("env", "t", {"path": "api"}, ("api", frozenset({"path"}))),
        ("env", "api", {"variable": "HOME"}, ("api", frozenset())),
        ("vault", "t", {"path": "db"}, ("db", frozenset({"path"}))),
        ("vault", "db", {"path": "secret/data/x"}, ("db", frozenset())),
        ("vault", "api", {}, None),
        ("env", "t", {"variable": "HOME"}, None),
        ("env", "t", {"variable": "db"}, None),
        ("file", "t", {"path": "/etc/passwd"}, None),
        ("file", "t", {"path": 7}, None),
    ],
)
def test_an_entry_of_a_host_kind_names_a_declared_one(
    kind: str, name: str, fields: dict[str, Any], expected: object
) -> None:
    assert find_declared(kind, name, fields, DECLARED) == expected


STATED = {"path": "secret/data/x", "address": "https://v"}


@pytest.mark.parametrize(
    ("given", "declared", "expected"),
    [
        ({}, STATED, []),
        ({"name": "t", "kind": "vault", "provider": "vault"}, STATED, []),
        (STATED, STATED, []),
        ({"address": "https://mine"}, STATED, ["address"]),
        ({"path": "secret/data/y"}, STATED, ["path"]),
        ({"namespace": "mine"}, STATED, ["namespace"]),
        ({"address": ["https://v"]}, STATED, ["address"]),
        ({"address": None}, STATED, []),
        ({"field": "user"}, STATED, []),
        ({"field": "user"}, {**STATED, "field": "user"}, []),
        ({"field": "other"}, {**STATED, "field": "user"}, ["field"]),
        ({"database": "x"}, STATED, []),
    ],
)
def test_a_playbook_does_not_contradict_a_declaration(
    given: dict[str, Any], declared: dict[str, str], expected: list[str]
) -> None:
    known = KEYCHAIN["vault"].fields

    assert disagreements(given, declared, known) == expected


def test_a_kind_that_reads_any_field_takes_none_but_those_declared() -> None:
    assert disagreements({"server": "mine"}, {}, None) == ["server"]


@pytest.mark.parametrize(
    ("given", "kept", "expected"),
    [
        ({"scope": "read", "client_id": "me"}, {}, []),
        ({"token_url": "https://a"}, {"token_url": "https://a"}, []),
        ({"token_url": "https://b"}, {"token_url": "https://a"}, ["token_url"]),
        ({"token_url": "https://b"}, {}, ["token_url"]),
        ({"audience": "b"}, {}, ["audience"]),
        ({"host": "", "port": 1}, {"host": "db"}, ["host", "port"]),
        ({"dsn": "postgresql://x"}, {"password": "p"}, ["dsn"]),
        ({"user": "me", "database": "x"}, {"host": "db"}, []),
    ],
)
def test_a_stored_credential_goes_only_to_its_own_address(
    given: dict[str, Any], kept: dict[str, Any], expected: list[str]
) -> None:
    assert redirections(given, kept) == expected


def test_kinds_of_plug_ins_read_the_host() -> None:
    kinds = {**KEYCHAIN, "acme": KeychainKind("Of Acme.", {"path": "Where."})}

    assert sorted(host_kinds(kinds)) == [
        *("acme", "aws", "azure", "env", "file", "gcp", "vault")
    ]
    check_declaration("acme", {"path": "x"}, kinds)
    with pytest.raises(AccessError, match="acme has no field 'server'"):
        check_declaration("acme", {"server": "x"}, kinds)
