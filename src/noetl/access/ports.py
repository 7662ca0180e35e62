"""The seams: where accounts and sessions are kept, each a protocol with promises."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from noetl.access.accounts import Account
from noetl.access.grants import Grant
from noetl.access.sessions import Session
from noetl.access.tokens import ApiToken


class Kept(msgspec.Struct, frozen=True):
    """A stored session; ``revision`` rises with each version of it.

    ``key`` is the SHA-256 of the session's token (C-42).
    """

    key: str
    revision: int
    session: Session


class Version(msgspec.Struct, frozen=True):
    """A session as it once was; None says that it was ended."""

    revision: int
    session: Session | None


class Sessions(Protocol):
    """Sessions with TTL, revisions and history.

    Each method raises ``AccessError`` of the kind ``session.store_down`` if the store
    cannot answer: then nobody is signed in.
    """

    async def create(self, key: str, session: Session, *, now: float) -> Kept:
        """Store it until it expires; findable by its user before by its key."""
        ...

    async def get(self, key: str, *, now: float) -> Kept | None:
        """The current version; None if it is absent, ended or expired."""
        ...

    async def touch(self, kept: Kept, session: Session, *, now: float) -> Kept | None:
        """Store the next version, and its TTL anew; of two on one revision one wins.

        None says that somebody else changed or ended it: read it again.
        """
        ...

    async def invalidate(self, key: str) -> None:
        """End it; nothing happens if it is not there."""
        ...

    async def invalidate_user(self, user_id: str) -> int:
        """End all sessions of a user, and say how many there were."""
        ...

    async def list_by_user(self, user_id: str, *, now: float) -> Sequence[Kept]:
        """The valid ones, the oldest first."""
        ...

    async def history(self, key: str) -> Sequence[Version]:
        """The last versions, oldest first, as long as the store keeps them."""
        ...


class Accounts(Protocol):
    """Accounts and their API tokens. Names are unique, and so is who OIDC says it is.

    A change of what is not there raises ``AccessError`` (``account.unknown``).
    """

    def watch(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Have it called after each change of an account that is made here."""
        ...

    async def add(self, account: Account) -> None:
        """Raises ``AccessError`` (``account.exists``)."""
        ...

    async def get(self, user_id: str) -> Account | None: ...

    async def find(self, name: str) -> Account | None: ...

    async def find_subject(self, issuer: str, subject: str) -> Account | None: ...

    async def list_all(self) -> Sequence[Account]:
        """By name."""
        ...

    async def set_grants(self, user_id: str, grants: Sequence[Grant]) -> Account: ...

    async def set_password(
        self, user_id: str, password_hash: str | None
    ) -> Account: ...

    async def set_disabled(self, user_id: str, disabled: bool) -> Account: ...

    async def remove(self, user_id: str) -> None:
        """The account and all of its tokens."""
        ...

    async def add_token(self, token: ApiToken) -> None: ...

    async def find_token(self, digest: str) -> tuple[ApiToken, Account] | None:
        """A token and whose it is, both as they are at this moment."""
        ...

    async def list_tokens(self, user_id: str) -> Sequence[ApiToken]:
        """The oldest first."""
        ...

    async def note_use(self, token_id: str, now: float) -> None:
        """The last use only moves on; nothing happens if the token is gone."""
        ...

    async def revoke_token(self, token_id: str) -> None: ...


class Passwords(Protocol):
    """Hashes that are slow to guess from."""

    async def hash(self, password: str) -> str: ...

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Whether it is the one; without a hash no, after the same time."""
        ...

    def is_outdated(self, password_hash: str) -> bool:
        """Whether it should be hashed anew."""
        ...
