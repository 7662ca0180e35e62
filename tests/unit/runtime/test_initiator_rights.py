"""Rights of the initiator: from the first event of a log, by the accounts of today."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from noetl.access.accounts import Account
from noetl.access.initiator import Initiator
from noetl.access.permissions import read_grants
from noetl.engine.waits.suspend import MAX_DEPTH
from noetl.runtime.executions.child_requests import ChildRequests
from noetl.runtime.executions.initiator_rights import (
    READ,
    RUN,
    UNKNOWN,
    AccountRights,
    AllRights,
    find_initiator,
)

ANN = Initiator("ann", "u-1")


class Accounts:
    """One account that tests change."""

    def __init__(self, *roles: str, disabled: bool = False) -> None:
        self.account = Account(
            user_id="u-1",
            name="ann",
            grants=read_grants(roles),
            created_at=0.0,
            disabled=disabled,
        )

    async def get(self, user_id: str) -> Account | None:
        return self.account if user_id == "u-1" else None

    async def find(self, name: str) -> Account | None:
        return self.account if name == "ann" else None


class Log:
    """The payload of the first event of each execution."""

    def __init__(self, **first: dict[str, Any]) -> None:
        self.first = first

    async def read(self, execution_id: str, *, limit: int) -> list[Any]:
        payload = self.first.get(execution_id)
        return [] if payload is None else [SimpleNamespace(payload=payload)]


def child_of(execution_id: str) -> dict[str, Any]:
    return {"parent": {"execution_id": execution_id}}


@pytest.mark.parametrize(
    ("initiator", "permission", "path", "allowed"),
    [
        pytest.param(ANN, RUN, "team/a", True, id="within the role"),
        pytest.param(ANN, RUN, "other/a", False, id="on another path"),
        pytest.param(Initiator("ann"), RUN, "team/a", True, id="found by its name"),
        pytest.param(
            Initiator("ann", "u-1", ("viewer:team/*",)),
            RUN,
            "team/a",
            False,
            id="beyond the scopes of its token",
        ),
        pytest.param(
            Initiator("ann", "u-1", ("viewer:team/*",)),
            READ,
            "team/a",
            True,
            id="within the scopes of its token",
        ),
        pytest.param(Initiator("ann", "u-2"), RUN, "team/a", False, id="deleted"),
        pytest.param(UNKNOWN, READ, "team/a", False, id="unknown"),
        pytest.param(None, RUN, "other/a", True, id="the owner of the home"),
    ],
)
async def test_rights_are_those_of_the_account(
    initiator: Initiator | None, permission: str, path: str, allowed: bool
) -> None:
    rights = AccountRights(Accounts("operator:team/*"))

    assert await rights.allow(initiator, permission, path) is allowed


async def test_a_disabled_account_has_no_rights() -> None:
    rights = AccountRights(Accounts("admin", disabled=True))

    assert not await rights.allow(ANN, READ, "team/a")


async def test_an_embedded_run_has_all_rights() -> None:
    assert await AllRights().allow(UNKNOWN, RUN, "team/a")


async def test_the_first_event_names_the_initiator() -> None:
    log = Log(e={"initiator": {"principal": "ann", "user_id": "u-1"}})

    assert await find_initiator(log, "e") == ANN


async def test_a_child_that_names_no_initiator_has_that_of_its_caller() -> None:
    log = Log(
        root={"caller": {"principal": "ann"}},
        child=child_of("root"),
        e=child_of("child"),
    )

    assert await find_initiator(log, "e") == Initiator("ann")


async def test_an_execution_of_the_command_line_has_no_initiator() -> None:
    assert await find_initiator(Log(e={}), "e") is None


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(Log(), id="an unknown execution"),
        pytest.param(Log(e=child_of("gone")), id="a lost caller"),
        pytest.param(Log(e=child_of("e")), id="a cycle"),
        pytest.param(
            Log(
                e=child_of("e0"),
                **{f"e{n}": child_of(f"e{n + 1}") for n in range(MAX_DEPTH + 1)},
            ),
            id="a chain that is too deep",
        ),
    ],
)
async def test_an_initiator_that_is_not_found_is_unknown(log: Log) -> None:
    assert await find_initiator(log, "e") is UNKNOWN


@pytest.mark.parametrize(
    ("role", "hint"),
    [("operator:team/*", ""), ("admin", "; did you mean 'other/daily'?")],
)
async def test_a_similar_path_is_named_only_to_those_who_may_run_it(
    role: str, hint: str
) -> None:
    class Paths:
        async def paths(self) -> list[str]:
            return ["other/daily"]

    nothing: Any = None
    requests = ChildRequests(
        nothing, Paths(), nothing, AccountRights(Accounts(role)), nothing
    )

    assert await requests._similar(ANN, "other/dayly") == hint
