"""Rights of the initiator of an execution, as they are now."""

from __future__ import annotations

from typing import Protocol

from noetl.access.initiator import INITIATOR, Initiator, may, read_initiator
from noetl.engine.waits.suspend import MAX_DEPTH
from noetl.ports import LogReader
from noetl.ports.access import Accounts

RUN = "executions:run"
READ = "executions:read"
UNKNOWN = Initiator("an unknown account")
"""The initiator of an execution whose log names none: it has no rights."""


class Rights(Protocol):
    async def allow(
        self, initiator: Initiator | None, permission: str, path: str
    ) -> bool:
        """Return whether the initiator has this permission at this path now."""
        ...


class AllRights:
    """The rights of an embedded run, which has no accounts."""

    async def allow(
        self, initiator: Initiator | None, permission: str, path: str
    ) -> bool:
        return True


class AccountRights:
    """The rights on a server: by the accounts as they are now.

    The owner of the home started an execution without an initiator.
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


async def find_initiator(store: LogReader, execution_id: str) -> Initiator | None:
    """Return the initiator of an execution, from the first event of its log.

    A child of an older version does not name one: it has that of its caller.
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
