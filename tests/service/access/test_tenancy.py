"""When a server has accounts: from then on code is isolated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from noetl.access.accounts import Account
from noetl.access.permissions import read_grants
from noetl.adapters.accounts.tables import SqlAccounts
from noetl.adapters.sql_database import SqliteFile
from noetl.service.access.authenticate import CHECK_INTERVAL_S, Tenancy, has_people


def account(name: str, *roles: str, disabled: bool = False) -> Account:
    return Account(
        user_id=name,
        name=name,
        grants=read_grants(roles),
        created_at=0.0,
        disabled=disabled,
    )


@pytest.mark.parametrize(
    ("accounts", "answer"),
    [
        pytest.param([account("local", "admin", "worker:*")], False, id="the owner"),
        pytest.param([account("crew", "worker:gpu")], False, id="a worker"),
        pytest.param([account("ann", "viewer")], True, id="a person"),
        pytest.param([account("ann", "viewer", disabled=True)], True, id="kept out"),
        pytest.param([account("ann")], True, id="without a role"),
        pytest.param([account("ann", "worker:*", "viewer")], True, id="both"),
    ],
)
def test_accounts_that_are_not_workers_count(
    accounts: list[Account], answer: bool
) -> None:
    assert has_people(accounts) is answer


def run(
    path: Path, work: Callable[[SqlAccounts, SqlAccounts], Awaitable[None]]
) -> None:
    async def main() -> None:
        files = [SqliteFile.open(path / "accounts.db") for _ in range(2)]
        try:
            await work(*(SqlAccounts(file) for file in files))
        finally:
            for file in files:
                await file.close()

    asyncio.run(main())


def test_a_change_of_its_own_counts_at_once(tmp_path: Path) -> None:
    async def work(own: SqlAccounts, _: SqlAccounts) -> None:
        tenancy = Tenancy(own)
        assert tenancy.has_accounts  # before the first look
        await tenancy.refresh()
        assert not tenancy.has_accounts
        await own.add(account("crew", "worker:gpu"))
        assert not tenancy.has_accounts
        await own.set_grants("crew", read_grants(["developer"]))
        assert tenancy.has_accounts
        await own.remove("crew")
        assert not tenancy.has_accounts

    run(tmp_path, work)


def test_a_change_of_another_server_is_found_at_the_next_look(tmp_path: Path) -> None:
    async def work(own: SqlAccounts, other: SqlAccounts) -> None:
        tenancy = Tenancy(own)
        await tenancy.refresh()
        await other.add(account("ann", "viewer"))
        assert not tenancy.has_accounts
        await tenancy.refresh()
        assert tenancy.has_accounts

    assert CHECK_INTERVAL_S <= 1.0
    run(tmp_path, work)
