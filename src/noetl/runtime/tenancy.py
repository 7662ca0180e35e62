"""Whether people besides its owner use a server: their code is then isolated."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from noetl.access.accounts import Account
from noetl.access.ports import Accounts
from noetl.runtime.people import LOCAL

LOOK = 1.0
"""Seconds after which an account that another server has made counts here, too."""
SELDOM = 30.0
"""Seconds between two looks whether the last account is gone."""


class Tenancy:
    """A server has accounts as soon as there is one besides ``local`` and those of
    workers. Changes made by this server count at once, others within a second.

    Until the first look it is taken to have some.
    """

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._has_accounts = True
        accounts.watch(self.refresh)

    def has_accounts(self) -> bool:
        return self._has_accounts

    async def refresh(self) -> None:
        self._has_accounts = has_people(await self._accounts.list_all())

    async def serve(self) -> None:
        """Look for what other servers have changed."""
        while True:
            await asyncio.sleep(SELDOM if self._has_accounts else LOOK)
            await self.refresh()


def has_people(accounts: Sequence[Account]) -> bool:
    """Whether one of them is neither the owner's nor a worker's alone."""
    return any(each.name != LOCAL and not _is_worker(each) for each in accounts)


def _is_worker(account: Account) -> bool:
    roles = {grant.role for grant in account.grants}
    return roles == {"worker"}
