"""Sign-in and sign-out, by password or OIDC."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import sha256

import msgspec

from noetl.access.accounts import Account, read_name
from noetl.access.credentials import SESSION, digest_session, mint
from noetl.access.oidc import Identity
from noetl.access.permissions import Principal
from noetl.access.rate_limit import SlidingWindow
from noetl.access.sessions import Lifetime, LoginCodes, Session
from noetl.errors import AccessError
from noetl.ports import Clock
from noetl.ports.access import Accounts, Passwords, Sessions
from noetl.service.access.authenticate import signed_in

MAX_TRIES = 10
MAX_TRIES_BY_ADDRESS = 100
"""Attempts per minute from one address: for one name, and for all (row 68)."""


class SignedIn(msgspec.Struct, frozen=True):
    """A new session. The token is for the cookie, and is not stored."""

    token: str
    session: Session

    def __repr__(self) -> str:
        return f"SignedIn({self.session.session_id!r})"


class SignInService:
    """Opens and ends sessions; counts sign-in attempts in this process.

    ``entropy`` returns random bytes.
    """

    def __init__(
        self,
        accounts: Accounts,
        sessions: Sessions,
        passwords: Passwords,
        clock: Clock,
        *,
        lifetime: Lifetime | None = None,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._accounts = accounts
        self._sessions = sessions
        self._passwords = passwords
        self._clock = clock
        self._lifetime = lifetime or Lifetime()
        self._entropy = entropy
        self._by_name = SlidingWindow(MAX_TRIES)
        self._by_address = SlidingWindow(MAX_TRIES_BY_ADDRESS)
        self._invitations = LoginCodes()

    async def by_password(self, name: str, password: str, client_ip: str) -> SignedIn:
        """Sign in; raises the same ``AccessError`` for a wrong name and a wrong
        password.

        The attempt of the address was counted when the request arrived.
        """
        try:
            name = read_name(name)
        except AccessError:
            name = ""  # the account does not exist
        _refuse_after(self._by_name.take((client_ip, name), self._clock.now()))
        account = await self._accounts.find(name)
        known = None
        if account is not None and not account.disabled:
            known = account.password_hash
        if not await self._passwords.verify(known, password) or account is None:
            raise AccessError("auth.failed", "the name or the password is wrong", 401)
        self._by_name.forget((client_ip, name))
        if known is not None and self._passwords.is_outdated(known):
            renewed = await self._passwords.hash(password)
            account = await self._accounts.set_password(account.user_id, renewed)
        return await self._start(account, client_ip)

    async def by_identity(self, identity: Identity, client_ip: str) -> SignedIn:
        """Open a session of the user that the provider has authenticated."""
        return await self._start(await self.recognize(identity), client_ip)

    async def recognize(self, identity: Identity) -> Account:
        """Return the account of a user, with the provider's roles; the first sign-in
        creates it.

        Accounts are matched by issuer and subject only, never by name or email address.
        """
        if not identity.grants:
            message = f"{identity.shown()} has no role here"
            raise AccessError("auth.role", f"{message}; ask an admin to grant one")
        account = await self._accounts.find_subject(identity.issuer, identity.subject)
        if account is None:
            account = await self._welcome(identity)
        if account.disabled:
            raise AccessError("auth.failed", "the account is disabled", 401)
        if account.grants != identity.grants:
            account = await self._accounts.set_grants(account.user_id, identity.grants)
            await self._sessions.invalidate_user(account.user_id)
        return account

    def invite(self, user_id: str) -> str:
        """Return a one-time code for a URL that opens a session of the user."""
        return self._invitations.issue(user_id, self._entropy(32), self._clock.now())

    async def by_invitation(self, code: str, client_ip: str) -> SignedIn:
        user_id = self._invitations.redeem(code, self._clock.now())
        account = None if user_id is None else await self._accounts.get(user_id)
        if account is None or account.disabled:
            message = "this link was used or has expired: request a new one"
            raise AccessError("auth.failed", message, 401)
        return await self._start(account, client_ip)

    async def known_name(self, text: str) -> str | None:
        """Return the name of an existing account, or None.

        An unknown name may be a password in the wrong field, and must not be recorded.
        """
        try:
            account = await self._accounts.find(read_name(text))
        except AccessError:
            return None
        return None if account is None else account.name

    async def sign_out(self, key: str) -> Principal | None:
        """End the session and return its principal; ``key`` is the digest of its
        token."""
        kept = await self._sessions.get(key, now=self._clock.now())
        await self._sessions.invalidate(key)
        if kept is None:
            return None
        account = await self._accounts.get(kept.session.user_id)
        return None if account is None else signed_in(kept.session, account)

    def count(self, client_ip: str) -> None:
        """Count an attempt before its body is read. Raises ``AccessError``
        (``auth.too_many``).
        """
        _refuse_after(self._by_address.take(client_ip, self._clock.now()))

    async def _welcome(self, identity: Identity) -> Account:
        mark = sha256(f"{identity.issuer} {identity.subject}".encode()).hexdigest()
        account = Account(
            user_id=self._entropy(16).hex(),
            name=f"oidc-{mark[:16]}",
            grants=identity.grants,
            created_at=self._clock.now(),
            email=identity.email,
            display_name=identity.display_name,
            issuer=identity.issuer,
            subject=identity.subject,
        )
        try:
            await self._accounts.add(account)
        except AccessError:  # a concurrent sign-in created the account first
            found = await self._accounts.find_subject(identity.issuer, identity.subject)
            if found is None:
                raise
            return found
        return account

    async def _start(self, account: Account, client_ip: str) -> SignedIn:
        now = self._clock.now()
        token = mint(SESSION, self._entropy(32))
        key = digest_session(token)
        assert key is not None
        session = Session(
            session_id=self._entropy(16).hex(),
            user_id=account.user_id,
            email=account.email,
            display_name=account.display_name or account.name,
            roles=tuple(str(grant) for grant in account.grants),
            created_at=now,
            expires_at=self._lifetime.end(now, now),
            last_activity_at=now,
            client_ip=client_ip,
            auth0_id=account.subject,
        )
        await self._sessions.create(key, session, now=now)
        # A change of the account ends the sessions that exist by then. A change after
        # the read above is detected here, so that every session is ended.
        current = await self._accounts.get(account.user_id)
        if current is None or current.version != account.version:
            await self._sessions.invalidate(key)
            message = "the account was changed just now: sign in again"
            raise AccessError("auth.failed", message, 401)
        return SignedIn(token, session)


def _refuse_after(seconds: float | None) -> None:
    if seconds is not None:
        message = f"too many attempts: try again in {seconds:.0f} seconds"
        raise AccessError("auth.too_many", message, 429, retry_after=seconds)
