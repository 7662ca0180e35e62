"""Sign-in of commands through the provider: it ends in a token of the user."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Protocol

import msgspec

from noetl.access.accounts import Account
from noetl.access.credentials import ApiToken
from noetl.access.device_flow import DeviceCode, Waiting
from noetl.access.oidc import Identity, Provider
from noetl.errors import AccessError, SecretError
from noetl.ports import Clock
from noetl.service.access.accounts import AccountService
from noetl.service.access.sign_in import SignInService

PURPOSE = "noetl: the sign-in of a command"


class Seal(Protocol):
    """Seals data for a purpose."""

    def seal(self, text: bytes, purpose: str) -> bytes: ...

    def open(self, sealed: bytes, purpose: str) -> bytes: ...


class _Begun(msgspec.Struct, frozen=True):
    device_code: str
    issuer: str
    ends: float


class CommandSignIns:
    """Begins and finishes sign-ins of commands.

    What the server has to know in between is sealed in a handle that the command
    keeps: any server of a cluster can go on.
    """

    def __init__(
        self, logins: SignInService, people: AccountService, seal: Seal, clock: Clock
    ) -> None:
        self._logins = logins
        self._people = people
        self._seal = seal
        self._clock = clock

    async def begin(self, provider: Provider) -> tuple[str, DeviceCode]:
        """Return the handle, and what the user has to do. Raises ``AccessError``."""
        code = await provider.begin_device()
        ends = self._clock.now() + code.expires_in
        begun = _Begun(code.device_code, provider.issuer, ends)
        sealed = self._seal.seal(msgspec.json.encode(begun), PURPOSE)
        return urlsafe_b64encode(sealed).decode().rstrip("="), code

    async def identify(self, provider: Provider, handle: str) -> Identity | Waiting:
        """Return the user, if it has signed in by now. Raises ``AccessError``."""
        begun = self._read(handle)
        if begun is None or begun.issuer != provider.issuer:
            message = "this sign-in was not begun at this server: begin it again"
            raise AccessError("oidc.refused", message, 401)
        if self._clock.now() >= begun.ends:
            message = "this sign-in took too long: begin it again"
            raise AccessError("oidc.refused", message, 401)
        return await provider.finish_device(begun.device_code)

    async def give_token(
        self, identity: Identity, label: str
    ) -> tuple[str, ApiToken, Account]:
        """Return a token of the user's account, which the first sign-in creates.

        It has the roles of the provider. Raises ``AccessError``.
        """
        account = await self._logins.recognize(identity)
        text, token = await self._people.give_login(account, label)
        return text, token, account

    def _read(self, handle: str) -> _Begun | None:
        try:
            sealed = urlsafe_b64decode(handle.encode() + b"=" * (-len(handle) % 4))
            opened = self._seal.open(sealed, PURPOSE)
            return msgspec.json.decode(opened, type=_Begun)
        except (ValueError, SecretError, msgspec.MsgspecError):
            return None
