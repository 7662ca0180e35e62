"""Who a request is from: each credential is checked here, and nowhere else."""

from __future__ import annotations

from contextlib import suppress

from noetl.access.accounts import Account
from noetl.access.credentials import Credential, required
from noetl.access.grants import read_grants
from noetl.access.ports import Accounts, Kept, Sessions
from noetl.access.principal import Principal
from noetl.access.sessions import Lifetime, Session
from noetl.errors import AccessError, StoreError
from noetl.ports import Clock


class Gate:
    """Turns a credential into a principal, and notes that it was used.

    A session is good for as long as its account is what it was when it began: also if
    whoever changed the account could not end it, and if it is of another installation
    that keeps its sessions in the same place.
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
        """Raises ``AccessError``: 401, with one text for all that is not valid."""
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
            with suppress(StoreError):  # a note: nobody is kept out for want of it
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
        except AccessError:  # roles of another version of NoETL
            raise required() from None
        account = await self._accounts.get(session.user_id)
        if account is None or account.disabled or account.grants != grants:
            raise required()
        return signed_in(session, account)

    async def _renew(self, kept: Kept) -> Kept | None:
        """The next version: ours, or that of whoever was faster (S-63)."""
        now = self._clock.now()
        renewed = kept.session.renewed(now, self._lifetime)
        touched = await self._sessions.touch(kept, renewed, now=now)
        return touched or await self._sessions.get(kept.key, now=now)


def signed_in(session: Session, account: Account) -> Principal:
    """By the name of the account, which is one person's alone: what others call them,
    they may have chosen."""
    return Principal(
        user_id=session.user_id,
        name=account.name,
        grants=account.grants,
        means="session",
        credential=session.session_id,
    )
