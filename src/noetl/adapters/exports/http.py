"""HTTP of exports: one compressed body, and what its answer means."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import Mapping

import aiohttp

from noetl.ports import ExportFailed

TIMEOUT_S = 30.0
MAX_ANSWER = 64 * 1024
SHOWN = 300
"""Characters of an answer that a message repeats."""
_REFUSED = frozenset({400, 413, 414, 415, 422, 431})
"""Statuses that say that this body will never be taken. 401, 403 and 404 are mistakes
of settings, which an operator corrects while the executions wait."""


class Receiver:
    """Sends bodies to one address; the connection is opened by the first of them."""

    def __init__(
        self, url: str, headers: Mapping[str, str], tls: ssl.SSLContext | None = None
    ) -> None:
        self._url = url
        self._headers = headers
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, path: str, body: bytes, kind: str, params: Mapping[str, str] | None = None
    ) -> bytes:
        """Send a body and return the answer. Raises ``ExportFailed``."""
        url = self._url + path
        packed = await asyncio.to_thread(gzip.compress, body, 1)
        headers = {"Content-Type": kind, "Content-Encoding": "gzip"}
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
            self._session = aiohttp.ClientSession(timeout=timeout)
        try:
            async with self._session.post(
                url,
                data=packed,
                params=params,
                headers={**self._headers, **headers},
                ssl=self._tls or True,
                allow_redirects=False,
            ) as response:
                answer = await response.content.read(MAX_ANSWER)
                status = response.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise ExportFailed(f"{url} does not answer: {reason}") from None
        if 200 <= status < 300:
            return answer
        text = answer.decode("utf-8", "replace").strip()[:SHOWN]
        shown = "".join(each if each.isprintable() else " " for each in text)
        message = f"{url} answers {status}: {shown or 'nothing'}"
        raise ExportFailed(message, refused=status in _REFUSED)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
