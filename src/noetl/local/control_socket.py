"""Control of a running ``noetl run`` from another process: a socket beside its log."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from noetl.errors import ConfigError, NoetlError
from noetl.types import JSON

MAX_PATH_BYTES = 100
"""Maximum bytes of a socket path that every system accepts."""

MAX_LINE_BYTES = 1 << 20
ANSWER_TIMEOUT_S = 10.0

Handler = Callable[[Mapping[str, JSON]], Awaitable[JSON]]


class ControlServer:
    """Answers one request per connection; request and answer are lines of JSON.

    The permissions of the folder are the only access check.
    """

    def __init__(self, log: Path, handle: Handler) -> None:
        self.path = log.with_name(log.name + ".sock")
        self._handle = handle
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self.path.unlink(missing_ok=True)  # left by a process that was killed
        with _address(self.path) as address:
            self._server = await asyncio.start_unix_server(
                self._answer, address, limit=MAX_LINE_BYTES
            )
        self.path.chmod(0o600)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        with contextlib.suppress(OSError):  # the next server replaces it
            self.path.unlink(missing_ok=True)

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            request = msgspec.json.decode(await reader.readline(), type=dict)
            answer: JSON = {"ok": await self._handle(request)}
        except NoetlError as error:
            answer = {"error": str(error)}
        except (msgspec.DecodeError, ValueError, KeyError, OSError):
            answer = {"error": "the request cannot be read"}
        with contextlib.suppress(OSError):
            writer.write(msgspec.json.encode(answer) + b"\n")
            await writer.drain()
            writer.close()


async def ask(path: Path, request: dict[str, JSON]) -> JSON:
    """Send a request to the process that listens on the socket.

    Raises ``ConfigError`` if it is refused, ``OSError`` if no process listens.
    """
    with _address(path) as address:
        reader, writer = await asyncio.open_unix_connection(
            address, limit=MAX_LINE_BYTES
        )
    try:
        writer.write(msgspec.json.encode(request) + b"\n")
        await writer.drain()
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            line = await reader.readline()
    except TimeoutError:
        raise ConfigError("the process of the execution does not answer") from None
    finally:
        writer.close()
    answer = msgspec.json.decode(line or b"{}", type=dict)
    if "ok" not in answer:
        raise ConfigError(answer.get("error", "the process of the execution has ended"))
    return answer["ok"]


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    """Yield an address of the socket that is short enough, for deep folders too."""
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
