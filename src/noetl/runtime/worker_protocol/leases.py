"""Lookup of a worker's lease: its execution, step and pool, from the store."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from noetl.errors import AccessError, LeaseLost, LeaseNotOwned, StoreError
from noetl.ports import CommandQueue, CommandRow, Lease
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.sealing import Seal

MAX_CACHED = 65_536
"""Maximum leases in the cache; others are looked up in the store."""

MAX_ENDED = 8_192
"""Maximum leases of ended commands, which the store forgets: a report that is sent
again comes within seconds."""


class KnownLeases:
    """Leases that this process granted, or found in the store, with their pools.

    An entry is the last owner of a command that this process knows. The commit of a
    report checks whether the lease is still held. Leases of commands that have ended
    are kept apart.
    """

    def __init__(self, most: int = MAX_CACHED) -> None:
        self._most = most
        self._by_command: OrderedDict[str, tuple[Lease, str]] = OrderedDict()
        self._ended: OrderedDict[str, tuple[Lease, str]] = OrderedDict()

    def note(self, lease: Lease, pool: str) -> None:
        self._by_command[lease.command_id] = lease, pool
        if len(self._by_command) > self._most:
            self._by_command.popitem(last=False)

    def find(self, command_id: str, epoch: int, owner: str) -> tuple[Lease, str] | None:
        """Return the lease and its pool if this owner got it at this epoch."""
        known = self._by_command.get(command_id)
        if known is None or (known[0].epoch, known[0].owner) != (epoch, owner):
            return None
        return known

    def end(self, command_ids: Iterable[str]) -> None:
        """Note commands that have ended: the store has no row of them any more."""
        for command_id in command_ids:
            known = self._by_command.pop(command_id, None)
            if known is not None:
                self._ended[command_id] = known
                if len(self._ended) > MAX_ENDED:
                    self._ended.popitem(last=False)

    def ended(self, command_id: str) -> CommandRow | None:
        """Return the last row of a command that has ended, if this process knows it."""
        if command_id not in self._ended:
            return None
        lease, pool = self._ended[command_id]
        execution_id, epoch, owner = lease.execution_id, lease.epoch, lease.owner
        return CommandRow(execution_id, pool, epoch, owner, held=False, reported=0)


class Caller(msgspec.Struct, frozen=True):
    """The authenticated worker that sent a request.

    ``owner`` is the name under which it holds leases. ``allows`` returns whether its
    account may work for a pool. ``seal`` is the cipher that it shares with the server.
    """

    owner: str
    allows: Callable[[str], bool]
    seal: Seal

    def require(self, pool: str) -> None:
        """Raise ``AccessError`` (``auth.role``) unless the account may use the pool."""
        if not self.allows(pool):
            message = f"this account may not work for the pool '{pool}'"
            raise AccessError("auth.role", message)


class Finding(msgspec.Struct, frozen=True):
    """The result of a lookup.

    Without a ``refusal`` the caller holds ``lease``. With both, the caller held it
    until its command ended. ``reported`` is the number of its last report, if the store
    was asked. ``is_unknown``: neither the store nor this process has the command; it
    may have ended at another server.
    """

    lease: Lease | None
    refusal: StoreError | None = None
    reported: int = 0
    is_unknown: bool = False


def judge(row: CommandRow | None, key: messages.LeaseKey, caller: Caller) -> Finding:
    """Check by the stored command whether the caller holds this lease."""
    name = key.command_id
    if row is None or not 0 < key.epoch <= row.epoch:
        message = f"{name} was never leased at epoch {key.epoch}"
        return Finding(None, LeaseNotOwned(message), is_unknown=row is None)
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
    """The only lookup of the execution, step and pool of a request's lease."""

    def __init__(self, store: CommandQueue, known: KnownLeases) -> None:
        self._store = store
        self._known = known

    async def find(
        self, caller: Caller, keys: Sequence[messages.LeaseKey]
    ) -> list[Finding]:
        """Look up all of these leases with one query."""
        if not keys:
            return []
        rows = await self._store.commands([key.command_id for key in keys])
        found = []
        for key in keys:
            row = rows.get(key.command_id) or self._known.ended(key.command_id)
            finding = judge(row, key, caller)
            found.append(finding)
            if row and finding.lease and finding.refusal is None:
                self._known.note(finding.lease, row.pool)
        return found

    async def hold(self, caller: Caller, key: messages.LeaseKey) -> Lease:
        """Return a held lease. Raises ``LeaseLost`` or ``LeaseNotOwned``."""
        [found] = await self.find(caller, [key])
        if found.refusal is not None or found.lease is None:
            raise found.refusal or LeaseLost(f"{key.command_id} is not held")
        return found.lease

    def recall(self, caller: Caller, key: messages.LeaseKey) -> Finding | None:
        """Look up a lease that this server knows, without a query.

        The lease may have been lost since: the commit of a report checks it.
        """
        known = self._known.find(key.command_id, key.epoch, caller.owner)
        if known is None or not caller.allows(known[1]):
            return None
        return Finding(known[0])
