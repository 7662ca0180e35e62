"""Signing in and out: by password, or by what an OIDC provider vouches for."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import sha256

import msgspec

from noetl.access.accounts import Account, read_name
from noetl.access.attempts import Attempts
from noetl.access.invitations import Invitations
from noetl.access.oidc import Identity
from noetl.access.ports import Accounts, Passwords, Sessions
from noetl.access.principal import Principal
from noetl.access.sessions import Lifetime, Session
from noetl.access.tokens import SESSION, digest_session, mint
from noetl.errors import AccessError
from noetl.ports import Clock
from noetl.runtime.gate import signed_in

TRIES = 10
TRIES_BY_ADDRESS = 100
"""Attempts a minute: of one address at one name, and at all names (row 68)."""


class SignedIn(msgspec.Struct, frozen=True):
    """A new session. The token is for the cookie, and is kept nowhere."""

    token: str
    session: Session

    def __repr__(self) -> str:
        return f"SignedIn({self.session.session_id!r})"


class Logins:
    """``entropy`` gives random bytes. Attempts are counted in this process."""

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
        self._by_name = Attempts(TRIES)
        self._by_address = Attempts(TRIES_BY_ADDRESS)
        self._invitations = Invitations()

    async def by_password(self, name: str, password: str, client_ip: str) -> SignedIn:
        """Raises ``AccessError``: the same one for each wrong name and password.

        The address was counted when the request came in.
        """
        try:
            name = read_name(name)
        except AccessError:
            name = ""  # nobody's
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
        """The provider decides on roles each time; a first sign-in makes the account.

        Nobody is taken for an account of the same name or address: only who the
        provider says it is counts.
        """
        if not identity.grants:
            message = f"{identity.shown()} has no role here"
            raise AccessError("auth.role", f"{message}; ask an admin for one")
        account = await self._accounts.find_subject(identity.issuer, identity.subject)
        if account is None:
            account = await self._welcome(identity)
        if account.disabled:
            raise AccessError("auth.failed", "the account is disabled", 401)
        if account.grants != identity.grants:
            account = await self._accounts.set_grants(account.user_id, identity.grants)
            await self._sessions.invalidate_user(account.user_id)
        return await self._start(account, client_ip)

    def invite(self, user_id: str) -> str:
        """A code for an address that opens a session of theirs, once and soon."""
        return self._invitations.issue(user_id, self._entropy(32), self._clock.now())

    async def by_invitation(self, code: str, client_ip: str) -> SignedIn:
        user_id = self._invitations.redeem(code, self._clock.now())
        account = None if user_id is None else await self._accounts.get(user_id)
        if account is None or account.disabled:
            message = "this address was used, or is too old: ask for a new one"
            raise AccessError("auth.failed", message, 401)
        return await self._start(account, client_ip)

    async def known_name(self, text: str) -> str | None:
        """The name of an account. What is none may be a password in the wrong place,
        and is told to nobody."""
        try:
            account = await self._accounts.find(read_name(text))
        except AccessError:
            return None
        return None if account is None else account.name

    async def sign_out(self, key: str) -> Principal | None:
        """Whose session it was; ``key`` is the digest of its token."""
        kept = await self._sessions.get(key, now=self._clock.now())
        await self._sessions.invalidate(key)
        if kept is None:
            return None
        account = await self._accounts.get(kept.session.user_id)
        return None if account is None else signed_in(kept.session, account)

    def count(self, client_ip: str) -> None:
        """An attempt, before anything of it is read. Raises ``AccessError``
        (``auth.too_many``)."""
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
        except AccessError:  # their other window was faster
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
        # Whoever changed the account ended the sessions that were there by then. A
        # change since we read it is seen here, and so no session escapes.
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
