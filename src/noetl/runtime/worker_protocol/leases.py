"""What a worker's lease names: its execution, step and pool, as the store has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from noetl.errors import AccessError, LeaseLost, LeaseNotOwned, StoreError
from noetl.ports import CommandRow, Lease, Store
from noetl.runtime import wire
from noetl.runtime.known_leases import KnownLeases
from noetl.runtime.seals import Seal


class Caller(msgspec.Struct, frozen=True):
    """The worker that sent a request, as it was authenticated.

    ``owner`` is the name under which it holds leases. ``allows`` says whether its
    account may work for a pool. ``seal`` is the cipher that it shares with the server.
    """

    owner: str
    allows: Callable[[str], bool]
    seal: Seal

    def require(self, pool: str) -> None:
        """Raises ``AccessError`` of the kind ``auth.role``."""
        if not self.allows(pool):
            message = f"this account may not work for the pool '{pool}'"
            raise AccessError("auth.role", message)


class Finding(msgspec.Struct, frozen=True):
    """What was found out about a lease.

    Without a ``refusal`` the caller holds ``lease``. With both, the caller held it
    until its command ended. ``reported`` is the number of its last report, if the
    store was asked.
    """

    lease: Lease | None
    refusal: StoreError | None = None
    reported: int = 0


def judge(row: CommandRow | None, key: wire.LeaseKey, caller: Caller) -> Finding:
    """Whether the caller holds this lease, by what the store has of its command."""
    name = key.command_id
    if row is None or not 0 < key.epoch <= row.epoch:
        message = f"{name} was never leased at epoch {key.epoch}"
        return Finding(None, LeaseNotOwned(message))
    is_last = row.epoch == key.epoch
    is_mine = is_last and row.owner == caller.owner
    if not caller.allows(row.pool) or (is_last and row.held and not is_mine):
        return Finding(None, LeaseNotOwned(f"{name} is not leased to this worker"))
    if is_mine:
        lease = Lease(name, row.execution_id, caller.owner, key.epoch)
        if row.held:
            return Finding(lease, reported=row.reported)
        return Finding(lease, LeaseLost(f"the command {name} has ended"))
    return Finding(None, LeaseLost(f"{caller.owner} does not hold {name} any more"))


class WorkerLeases:
    """The one place where a request's lease becomes an execution, step and pool."""

    def __init__(self, store: Store, known: KnownLeases) -> None:
        self._store = store
        self._known = known

    async def find(
        self, caller: Caller, keys: Sequence[wire.LeaseKey]
    ) -> list[Finding]:
        """What the store says of each of them, by one query."""
        if not keys:
            return []
        rows = await self._store.commands([key.command_id for key in keys])
        found = []
        for key in keys:
            row = rows.get(key.command_id)
            finding = judge(row, key, caller)
            found.append(finding)
            if row and finding.lease and finding.refusal is None:
                self._known.note(finding.lease, row.pool)
        return found

    async def hold(self, caller: Caller, key: wire.LeaseKey) -> Lease:
        """Raises ``LeaseLost`` or ``LeaseNotOwned``."""
        [found] = await self.find(caller, [key])
        if found.refusal is not None or found.lease is None:
            raise found.refusal or LeaseLost(f"{key.command_id} is not held")
        return found.lease

    def recall(self, caller: Caller, key: wire.LeaseKey) -> Finding | None:
        """The same without a query, for a lease that this server knows of.

        It may have been lost since: the commit of what is reported under it says so.
        """
        known = self._known.find(key.command_id, key.epoch, caller.owner)
        if known is None or not caller.allows(known[1]):
            return None
        return Finding(known[0])
