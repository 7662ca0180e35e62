"""One call to a provider: bounded in time and size, and without redirects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

import aiohttp
import msgspec

from noetl.adapters.network import BlockedAddress, Network
from noetl.adapters.network.web import check_literal, open_session
from noetl.errors import AccessError
from noetl.types import JSON

Ask: TypeAlias = Callable[
    [str, Mapping[str, str] | None, Mapping[str, str]], Awaitable[tuple[int, JSON]]
]
"""Takes an address, a form or None, and headers; gives status and JSON (or None)."""

SECONDS = 10.0
_LARGEST = 1024 * 1024


class Web:
    """One session for all calls, opened at the first.

    An operator chose the provider, so local addresses are allowed.
    """

    def __init__(self) -> None:
        self._network = Network("allow")
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self, url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> tuple[int, JSON]:
        if self._session is None:
            self._session = open_session(self._network)
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            await check_literal(self._network, parts.hostname or "", port)
        except BlockedAddress as error:
            raise unreachable(url, f"is denied: {error}") from None
        return await asking(self._session)(url, form, headers)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def asking(session: aiohttp.ClientSession) -> Ask:
    """Forms are posted, anything else is fetched."""

    async def ask(
        url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> tuple[int, JSON]:
        try:
            async with session.request(
                "GET" if form is None else "POST",
                url,
                data=form,
                headers={"Accept": "application/json", **headers},
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=SECONDS),
            ) as response:
                body = bytearray()
                async for chunk in response.content.iter_any():
                    body += chunk
                    if len(body) > _LARGEST:
                        raise unreachable(url, "answered with too much")
                return response.status, _decode(body)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            why = type(error).__name__
            raise unreachable(url, f"does not answer ({why})") from None

    return ask


def unreachable(url: str, why: str) -> AccessError:
    message = f"the OIDC provider {url.partition('?')[0]:.200} {why}"
    return AccessError("oidc.unreachable", message, 503)


def _decode(body: bytes | bytearray) -> JSON:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
