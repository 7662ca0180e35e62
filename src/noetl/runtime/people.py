"""Making and changing accounts and tokens, with what follows for their sessions."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from noetl.access.accounts import Account, read_name
from noetl.access.grants import read_grants
from noetl.access.passwords import check
from noetl.access.ports import Accounts, Passwords, Sessions
from noetl.access.tokens import API, ApiToken, digest, mint
from noetl.errors import AccessError
from noetl.ports import Clock

LOCAL = "local"
"""The account behind the token in the home of whoever runs the server."""


class People:
    """For admins. Whatever takes a right away ends the sessions that have it."""

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
        """A service has no password: it comes with tokens."""
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
        """Raises ``AccessError`` (``account.unknown``)."""
        account = await self._accounts.find(read_name(name))
        if account is None:
            message = f"there is no account '{read_name(name)}'"
            raise AccessError("account.unknown", message, 404)
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
        """A new token, which is shown this once, and what is kept of it."""
        limits = None if scopes is None else read_grants(scopes)
        now = self._clock.now()
        text = mint(API, self._entropy(32))
        known = digest(text, API)
        assert known is not None
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
        return text, token

    async def give_local_token(self) -> str:
        """A new token of the account of whoever started this server: an admin.

        Earlier ones end: the file that holds the token is the only place of it.
        """
        account = await self._accounts.find(LOCAL)
        if account is None:
            account = await self.add(LOCAL, ["admin"])
        for token in await self._accounts.list_tokens(account.user_id):
            if token.label == LOCAL:
                await self._accounts.revoke_token(token.token_id)
        text, _ = await self.give_token(account.user_id, LOCAL)
        return text

    async def _end_sessions(self, account: Account) -> None:
        try:
            await self._sessions.invalidate_user(account.user_id)
        except AccessError as error:
            message = f"'{account.name}' was changed, but has its sessions still"
            message += f": {error.message}; do it again when they can be reached"
            raise AccessError("session.store_down", message, 503) from error
