"""The HTTP client by which a worker reaches servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Protocol


class WorkerHttpClient(Protocol):
    """Sends one request to one server. Raises ``Unreachable`` or ``Refused``.

    ``server_ids`` are what servers called themselves, as long as they answer.
    """

    @property
    def server_ids(self) -> Mapping[str, str]: ...

    async def request(
        self, server: str, path: str, body: bytes, *, seconds: float
    ) -> bytes:
        """The body of the answer, which is small enough for the memory."""
        ...

    async def upload(
        self,
        server: str,
        path: str,
        query: Mapping[str, str],
        source: IO[bytes],
        size: int,
    ) -> bytes:
        """The same with ``size`` bytes of a file as the body of the request."""
        ...

    async def download(
        self, server: str, path: str, body: bytes, target: IO[bytes]
    ) -> None:
        """The same with a file for the body of the answer."""
        ...
