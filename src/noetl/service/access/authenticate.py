"""Authentication of requests: every request and credential is checked here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from noetl.access.accounts import Account
from noetl.access.credentials import Credential, required, set_cookie
from noetl.access.permissions import Principal, read_grants
from noetl.access.request_guard import Proxies, RequestGuard
from noetl.access.sessions import Lifetime, Session
from noetl.errors import AccessError, StoreError
from noetl.ports import Clock
from noetl.ports.access import Accounts, Sessions, StoredSession
from noetl.service.access.accounts import LOCAL


class Authenticator:
    """Turns a credential into a principal, and records its use.

    A session is valid only while its account is unchanged since the sign-in. This holds
    even if the sessions could not be ended after a change, and for sessions of another
    installation in the same store.
    """

    def __init__(
        self,
        accounts: Accounts,
        sessions: Sessions,
        clock: Clock,
        lifetime: Lifetime | None = None,
    ) -> None:
        self._accounts = accounts
        self._sessions = sessions
        self._clock = clock
        self._lifetime = lifetime or Lifetime()

    async def admit(self, credential: Credential | None) -> Principal:
        """Return the principal. Raises ``AccessError`` (401) with one text for all
        failures.
        """
        if credential is None:
            raise required()
        if credential.means == "token":
            return await self._by_token(credential.digest)
        return await self._by_session(credential.digest)

    async def _by_token(self, digest: str) -> Principal:
        found = await self._accounts.find_token(digest)
        now = self._clock.now()
        if found is None or found[1].disabled or not found[0].is_valid(digest, now):
            raise required()
        token, account = found
        if token.use_is_due(now):
            # the record is optional: a failed write does not refuse the request
            with suppress(StoreError):
                await self._accounts.note_use(token.token_id, now)
        return Principal(
            user_id=account.user_id,
            name=account.name,
            grants=account.grants,
            means="token",
            limits=token.scopes,
            credential=token.token_id,
        )

    async def _by_session(self, key: str) -> Principal:
        kept = await self._sessions.get(key, now=self._clock.now())
        while kept is not None and kept.session.is_due(
            self._clock.now(), self._lifetime
        ):
            kept = await self._renew(kept)
        if kept is None:
            raise required()
        session = kept.session
        try:
            grants = read_grants(session.roles)
        except AccessError:  # the roles are of another version of NoETL
            raise required() from None
        account = await self._accounts.get(session.user_id)
        if account is None or account.disabled or account.grants != grants:
            raise required()
        return signed_in(session, account)

    async def _renew(self, kept: StoredSession) -> StoredSession | None:
        """Store the next version; on a conflict, return the concurrent one (S-63)."""
        now = self._clock.now()
        renewed = kept.session.renewed(now, self._lifetime)
        touched = await self._sessions.touch(kept, renewed, now=now)
        return touched or await self._sessions.get(kept.key, now=now)


def signed_in(session: Session, account: Account) -> Principal:
    """Return the principal of a session, named by its unique account name; users may
    choose their display names."""
    return Principal(
        user_id=session.user_id,
        name=account.name,
        grants=account.grants,
        means="session",
        credential=session.session_id,
    )


CHECK_INTERVAL_S = 1.0
"""Seconds between two checks for accounts that other servers created."""
REMOVAL_CHECK_INTERVAL_S = 30.0
"""Seconds between two checks for the removal of the last account."""


class Tenancy:
    """Tracks whether a server has accounts besides ``local`` and those of workers.

    Changes by this server apply at once, those of others within a second. Until the
    first check the server is treated as shared.
    """

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self.has_accounts = True
        accounts.watch(self.refresh)

    async def refresh(self) -> None:
        self.has_accounts = has_people(await self._accounts.list_all())

    async def serve(self) -> None:
        """Check for changes by other servers, until cancelled."""
        while True:
            await asyncio.sleep(
                REMOVAL_CHECK_INTERVAL_S if self.has_accounts else CHECK_INTERVAL_S
            )
            await self.refresh()


def has_people(accounts: Sequence[Account]) -> bool:
    """Return True if an account belongs neither to the owner nor to a worker alone."""
    return any(each.name != LOCAL and not _is_worker(each) for each in accounts)


def _is_worker(account: Account) -> bool:
    roles = {grant.role for grant in account.grants}
    return roles == {"worker"}


Headers = Mapping[str, Sequence[str]]
"""All values of each header, by lower-case names."""


class Access:
    """Authenticates a request before any other part of it is read."""

    def __init__(
        self, door: RequestGuard, gate: Authenticator, proxies: Proxies | None = None
    ) -> None:
        self._door = door
        self._gate = gate
        self._proxies = proxies

    def look(
        self, method: str, headers: Headers, *, stream: bool = False, local: str = ""
    ) -> Credential | None:
        """Return the credential of a request that passes the guard. Raises
        ``AccessError``."""
        return self._door.look(method, headers, stream=stream, local=local)

    def visit(self, method: str, headers: Headers, *, local: str = "") -> None:
        """Check the Host and Origin of a sender without an account. Raises
        ``AccessError``."""
        bare = {**headers, "authorization": (), "cookie": ()}
        self._door.look(method, bare, local=local)

    async def authenticate(
        self, method: str, headers: Headers, *, stream: bool = False, local: str = ""
    ) -> Principal:
        """Return the principal. Raises ``AccessError`` (401 and others)."""
        shown = self.look(method, headers, stream=stream, local=local)
        return await self.admit(shown)

    async def admit(self, credential: Credential | None) -> Principal:
        """Return the principal of a request that has passed ``look``. Raises
        ``AccessError`` (401)."""
        return await self._gate.admit(credential)

    @property
    def secure(self) -> bool:
        """Return True if browsers connect by TLS."""
        return self._door.secure

    def cookie(self, token: str, seconds: float) -> str:
        """Return a Set-Cookie header; zero seconds delete the session's cookie."""
        return set_cookie(token, seconds, secure=self._door.secure)

    def address(self, peer: str, headers: Headers) -> str:
        """Return the client's address, considering trusted proxies."""
        if self._proxies is None:
            return peer
        return self._proxies.origin(peer, headers.get("x-forwarded-for", ()))
