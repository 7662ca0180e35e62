"""Who asks, and what they may: what routes know of accounts, tokens and sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from noetl.access.credentials import Credential, set_cookie
from noetl.access.principal import Principal, allows, may_somewhere
from noetl.access.proxies import Proxies
from noetl.access.requests import Door
from noetl.errors import AccessError
from noetl.runtime.gate import Gate

Headers = Mapping[str, Sequence[str]]
"""All values of each header, by their lower-case names."""


class Access:
    """Asked before anything else is read of a request."""

    def __init__(self, door: Door, gate: Gate, proxies: Proxies | None = None) -> None:
        self._door = door
        self._gate = gate
        self._proxies = proxies

    def look(
        self, method: str, headers: Headers, *, stream: bool = False, local: str = ""
    ) -> Credential | None:
        """What they present, if it is for us to see. Raises ``AccessError``."""
        return self._door.look(method, headers, stream=stream, local=local)

    def visit(self, method: str, headers: Headers, *, local: str = "") -> None:
        """Of a sender that is no account: only whether it is for us to answer."""
        bare = {**headers, "authorization": (), "cookie": ()}
        self._door.look(method, bare, local=local)

    async def authenticate(
        self, method: str, headers: Headers, *, stream: bool = False, local: str = ""
    ) -> Principal:
        """Raises ``AccessError``: 401, or what else is wrong with the caller."""
        shown = self.look(method, headers, stream=stream, local=local)
        return await self._gate.admit(shown)

    def may(self, principal: Principal, permission: str) -> None:
        """Raises ``AccessError`` if there is no place at which they may do it."""
        if not may_somewhere(principal, permission):
            message = f"{principal.name} has no right to {permission}"
            raise AccessError("auth.role", message)

    def allows(self, principal: Principal, permission: str, path: str | None) -> bool:
        """Whether they may do it to this path or pool; without one, to all of them."""
        return allows(principal, permission, path)

    @property
    def secure(self) -> bool:
        """Whether browsers come by TLS."""
        return self._door.secure

    def cookie(self, token: str, seconds: float) -> str:
        """The value of a Set-Cookie header; zero seconds take the session away."""
        return set_cookie(token, seconds, secure=self._door.secure)

    def address(self, peer: str, headers: Headers) -> str:
        """Where a request comes from, as far as we can know it."""
        if self._proxies is None:
            return peer
        return self._proxies.origin(peer, headers.get("x-forwarded-for", ()))
