"""Whether the initiator of an execution may do something now."""

from __future__ import annotations

from typing import Protocol

from noetl.access.initiators import INITIATOR, Initiator, may, read_initiator
from noetl.access.ports import Accounts
from noetl.engine.suspensions import MAX_DEPTH
from noetl.ports import Store

RUN = "executions:run"
READ = "executions:read"
UNKNOWN = Initiator("an unknown account")
"""The initiator of an execution whose log does not lead to one: it may do nothing."""


class Rights(Protocol):
    async def allow(
        self, initiator: Initiator | None, permission: str, path: str
    ) -> bool:
        """Whether the initiator has this permission at this path now."""
        ...


class AllRights:
    """The rights of an embedded run: there are no accounts."""

    async def allow(
        self, initiator: Initiator | None, permission: str, path: str
    ) -> bool:
        return True


class AccountRights:
    """The rights of a server: by the accounts as they are now.

    An execution without an initiator was begun by the owner of the home.
    """

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    async def allow(
        self, initiator: Initiator | None, permission: str, path: str
    ) -> bool:
        if initiator is None:
            return True
        if initiator.user_id is not None:
            account = await self._accounts.get(initiator.user_id)
        else:
            account = await self._accounts.find(initiator.principal)
        return may(initiator, account, permission, path)


async def find_initiator(store: Store, execution_id: str) -> Initiator | None:
    """The initiator of an execution, by the first event of its log.

    A child of an older version does not name one: it is that of the execution which
    called it.
    """
    for _ in range(MAX_DEPTH + 1):
        events = await store.read(execution_id, limit=1)
        if not events:
            break
        payload = events[0].payload
        if INITIATOR in payload or payload.get("parent") is None:
            return read_initiator(payload)
        execution_id = payload["parent"]["execution_id"]
    return UNKNOWN
