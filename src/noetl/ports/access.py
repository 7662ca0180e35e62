"""Ports of accounts and sessions: protocols with their contracts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from noetl.access.accounts import Account
from noetl.access.credentials import ApiToken
from noetl.access.permissions import Grant
from noetl.access.sessions import Session


class StoredSession(msgspec.Struct, frozen=True):
    """A stored session; ``revision`` rises with each version of it.

    ``key`` is the SHA-256 of the session's token (C-42).
    """

    key: str
    revision: int
    session: Session


class Version(msgspec.Struct, frozen=True):
    """A former version of a session; None marks its end."""

    revision: int
    session: Session | None


class Sessions(Protocol):
    """Sessions with TTL, revisions and history.

    Each method raises ``AccessError`` of the kind ``session.store_down`` if the store
    does not answer; no user is signed in then.
    """

    async def create(self, key: str, session: Session, *, now: float) -> StoredSession:
        """Store the session until it expires; index it by user first, then by key."""
        ...

    async def get(self, key: str, *, now: float) -> StoredSession | None:
        """Return the current version; None if it is absent, ended or expired."""
        ...

    async def touch(
        self, kept: StoredSession, session: Session, *, now: float
    ) -> StoredSession | None:
        """Store the next version with a new TTL; of two on one revision one wins.

        None means that the session was changed or ended concurrently: read it again.
        """
        ...

    async def invalidate(self, key: str) -> None:
        """End the session; an unknown key is ignored."""
        ...

    async def invalidate_user(self, user_id: str) -> int:
        """End all sessions of a user, and return their number."""
        ...

    async def list_by_user(
        self, user_id: str, *, now: float
    ) -> Sequence[StoredSession]:
        """Return the valid sessions, the oldest first."""
        ...

    async def history(self, key: str) -> Sequence[Version]:
        """Return the stored former versions, the oldest first."""
        ...


class Accounts(Protocol):
    """Accounts and their API tokens. Names and OIDC identities are unique.

    A change of an unknown account or token raises ``AccessError``
    (``account.unknown``).
    """

    def watch(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Call ``on_change`` after each change of an account by this process."""
        ...

    async def add(self, account: Account) -> None:
        """Add an account. Raises ``AccessError`` (``account.exists``)."""
        ...

    async def get(self, user_id: str) -> Account | None: ...

    async def find(self, name: str) -> Account | None: ...

    async def find_subject(self, issuer: str, subject: str) -> Account | None: ...

    async def list_all(self) -> Sequence[Account]:
        """Return all accounts in the order of their names."""
        ...

    async def set_grants(self, user_id: str, grants: Sequence[Grant]) -> Account: ...

    async def set_password(
        self, user_id: str, password_hash: str | None
    ) -> Account: ...

    async def set_disabled(self, user_id: str, disabled: bool) -> Account: ...

    async def remove(self, user_id: str) -> None:
        """Remove the account and all of its tokens."""
        ...

    async def add_token(self, token: ApiToken) -> None: ...

    async def find_token(self, digest: str) -> tuple[ApiToken, Account] | None:
        """Return a token and its account in their current versions, or None."""
        ...

    async def list_tokens(self, user_id: str) -> Sequence[ApiToken]:
        """Return the tokens, the oldest first."""
        ...

    async def note_use(self, token_id: str, now: float) -> None:
        """Record a later last use; an unknown token is ignored."""
        ...

    async def revoke_token(self, token_id: str) -> None: ...


class Passwords(Protocol):
    """Slow password hashes."""

    async def hash(self, password: str) -> str: ...

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Return True if the password matches; without a hash, False after the same
        time."""
        ...

    def is_outdated(self, password_hash: str) -> bool:
        """Return True if the password should be hashed again with current
        parameters."""
        ...


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A worker: ``slots`` is its capacity, ``running`` the pipelines that it runs.

    ``worker`` is its account and its own name: ``gpu-1/rack7-4711-9c2d``.
    """

    worker: str
    pool: str
    slots: int
    running: int
    seen_at: float
    address: str | None = None


class WorkerRecords(Protocol):
    """The store of worker records that all servers share. Raises ``StoreError``."""

    async def note(self, worker: WorkerRecord) -> None: ...

    async def seen(self, *, since: float) -> Sequence[WorkerRecord]:
        """Return the workers that contacted a server since then."""
        ...

    async def forget(self, *, before: float) -> None: ...
