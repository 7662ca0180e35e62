"""Administration of accounts and tokens, with the effects on their sessions."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress

from noetl.access.accounts import Account, check, read_name
from noetl.access.credentials import API, ApiToken, digest, mint
from noetl.access.permissions import Grant, read_grants
from noetl.access.sessions import Session
from noetl.errors import AccessError
from noetl.ports import Clock
from noetl.ports.access import Accounts, Passwords, Sessions

LOCAL = "local"
"""The account of the token in a home: it belongs to the user who runs the server."""
HOME_LABEL = "home "
"""Prefix of the labels of such tokens."""
LOGIN_LABEL = "login "
"""Prefix of the labels of tokens that ``noetl login`` has got."""
LOGIN_S = 7 * 86400.0
"""Seconds for which such a token is valid, as long as a session may last."""
MAX_LOGINS = 20
"""Tokens of logins that an account may have; another one replaces the oldest."""


class AccountService:
    """Changes accounts and tokens; a change that removes a right ends the sessions."""

    def __init__(
        self,
        accounts: Accounts,
        sessions: Sessions,
        passwords: Passwords,
        clock: Clock,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._accounts = accounts
        self._sessions = sessions
        self._passwords = passwords
        self._clock = clock
        self._entropy = entropy

    async def add(
        self,
        name: str,
        roles: Sequence[str],
        *,
        password: str | None = None,
        email: str | None = None,
        display_name: str | None = None,
    ) -> Account:
        """Create an account; a service has no password and uses tokens."""
        name = read_name(name)
        grants = read_grants(roles)
        hashed = None
        if password is not None:
            check(password, [name, email, display_name])
            hashed = await self._passwords.hash(password)
        account = Account(
            user_id=self._entropy(16).hex(),
            name=name,
            grants=grants,
            created_at=self._clock.now(),
            email=email,
            display_name=display_name,
            password_hash=hashed,
        )
        await self._accounts.add(account)
        return account

    async def find(self, name: str) -> Account:
        """Return the account. Raises ``AccessError`` (``account.unknown``)."""
        account = await self._accounts.find(read_name(name))
        if account is None:
            message = f"unknown account '{read_name(name)}'"
            raise AccessError("account.unknown", message, 404)
        return account

    async def get(self, user_id: str) -> Account:
        """Return the account. Raises ``AccessError`` (``account.unknown``)."""
        account = await self._accounts.get(user_id)
        if account is None:
            raise AccessError("account.unknown", "the account was deleted", 404)
        return account

    async def set_roles(self, user_id: str, roles: Sequence[str]) -> Account:
        account = await self._accounts.set_grants(user_id, read_grants(roles))
        await self._end_sessions(account)
        return account

    async def set_password(self, account: Account, password: str | None) -> Account:
        hashed = None
        if password is not None:
            check(password, [account.name, account.email, account.display_name])
            hashed = await self._passwords.hash(password)
        account = await self._accounts.set_password(account.user_id, hashed)
        await self._end_sessions(account)
        return account

    async def set_disabled(self, user_id: str, disabled: bool) -> Account:
        account = await self._accounts.set_disabled(user_id, disabled)
        await self._end_sessions(account)
        return account

    async def remove(self, account: Account) -> None:
        await self._accounts.remove(account.user_id)
        await self._end_sessions(account)

    async def give_token(
        self,
        user_id: str,
        label: str,
        *,
        scopes: Sequence[str] | None = None,
        seconds: float | None = None,
    ) -> tuple[str, ApiToken]:
        """Return a new token, shown once, and its stored record."""
        limits = None if scopes is None else read_grants(scopes)
        text = mint(API, self._entropy(32))
        known = digest(text, API)
        assert known is not None
        return text, await self._keep(user_id, known, label, limits, seconds)

    async def give_login(self, account: Account, label: str) -> tuple[str, ApiToken]:
        """Return a new token for commands of the user; remove those that have
        expired."""
        now = self._clock.now()
        logins = [
            each
            for each in await self._accounts.list_tokens(account.user_id)
            if each.label.startswith(LOGIN_LABEL)
        ]
        over = [e for e in logins if e.expires_at is not None and e.expires_at <= now]
        valid = sorted(
            (each for each in logins if each not in over), key=lambda e: e.created_at
        )
        for each in [*over, *valid[: max(0, len(valid) - MAX_LOGINS + 1)]]:
            with suppress(AccessError):  # another login has removed it
                await self._accounts.revoke_token(each.token_id)
        return await self.give_token(
            account.user_id, f"{LOGIN_LABEL}{label}", seconds=LOGIN_S
        )

    async def end_login(self, known: str) -> Account | None:
        """Revoke the token with this digest if a login has made it; return its
        account."""
        found = await self._accounts.find_token(known)
        if found is None or not found[0].label.startswith(LOGIN_LABEL):
            return None
        await self._accounts.revoke_token(found[0].token_id)
        return found[1]

    async def ensure_home_account(self, home: str, text: str) -> None:
        """Store the token of a home as a token of the local admin account.

        ``home`` identifies the home among all that share these accounts. The home's
        previous token is revoked.
        """
        account = await self._local()
        known = digest(text, API)
        if known is None:
            raise ValueError("the text is not a valid API token")
        label = f"{HOME_LABEL}{home}"
        for token in await self._accounts.list_tokens(account.user_id):
            if token.digest == known:
                return
            if token.label == label:
                await self._accounts.revoke_token(token.token_id)
        await self._keep(account.user_id, known, label)

    async def has_others(self) -> bool:
        """Return True if an enabled account other than the local one exists."""
        accounts = await self._accounts.list_all()
        return any(each.name != LOCAL and not each.disabled for each in accounts)

    async def list_accounts(self) -> Sequence[Account]:
        return await self._accounts.list_all()

    async def tokens_of(self, account: Account) -> Sequence[ApiToken]:
        return await self._accounts.list_tokens(account.user_id)

    async def revoke(self, token_id: str) -> None:
        """Revoke the token. Raises ``AccessError`` (``account.unknown``)."""
        await self._accounts.revoke_token(token_id)

    async def sessions_of(self, user_id: str) -> Sequence[Session]:
        now = self._clock.now()
        kept = await self._sessions.list_by_user(user_id, now=now)
        return [each.session for each in kept]

    async def end_session(self, user_id: str, session_id: str) -> bool:
        """End the session; return False if it is not a session of this user."""
        now = self._clock.now()
        for kept in await self._sessions.list_by_user(user_id, now=now):
            if kept.session.session_id == session_id:
                await self._sessions.invalidate(kept.key)
                return True
        return False

    async def end_sessions(self, account: Account) -> int:
        return await self._sessions.invalidate_user(account.user_id)

    async def _local(self) -> Account:
        account = await self._accounts.find(LOCAL)
        if account is None:
            with suppress(AccessError):  # another server of the cluster was first
                return await self.add(LOCAL, ["admin", "worker:*"])
            account = await self.find(LOCAL)
        return account

    async def _keep(
        self,
        user_id: str,
        known: str,
        label: str,
        limits: tuple[Grant, ...] | None = None,
        seconds: float | None = None,
    ) -> ApiToken:
        now = self._clock.now()
        token = ApiToken(
            token_id=self._entropy(8).hex(),
            user_id=user_id,
            digest=known,
            label=label,
            scopes=limits,
            created_at=now,
            expires_at=None if seconds is None else now + seconds,
        )
        await self._accounts.add_token(token)
        return token

    async def _end_sessions(self, account: Account) -> None:
        try:
            await self._sessions.invalidate_user(account.user_id)
        except AccessError as error:
            message = f"'{account.name}' was changed, but its sessions remain"
            message += f": {error.message}; repeat the change when the store answers"
            raise AccessError("session.store_down", message, 503) from error
