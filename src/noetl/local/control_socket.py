"""Steering a running ``noetl run`` from another process: a socket beside its log."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from noetl.errors import ConfigError, NoetlError
from noetl.types import JSON

LONGEST_PATH = 100
"""Bytes that every system takes as the path of a socket."""

LONGEST_LINE = 1 << 20
ANSWER_WITHIN = 10.0

Handler = Callable[[Mapping[str, JSON]], Awaitable[JSON]]


class ControlServer:
    """One request and one answer per connection, each a line of JSON.

    Only the owner of the folder can connect: there is no other check.
    """

    def __init__(self, log: Path, handle: Handler) -> None:
        self.path = log.with_name(log.name + ".sock")
        self._handle = handle
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self.path.unlink(missing_ok=True)  # of a process that was killed
        with _address(self.path) as address:
            self._server = await asyncio.start_unix_server(
                self._answer, address, limit=LONGEST_LINE
            )
        self.path.chmod(0o600)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
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
    """Send a request to the process that listens there.

    Raises ``ConfigError`` with its refusal, ``OSError`` if nobody listens.
    """
    with _address(path) as address:
        reader, writer = await asyncio.open_unix_connection(address, limit=LONGEST_LINE)
    try:
        writer.write(msgspec.json.encode(request) + b"\n")
        await writer.drain()
        async with asyncio.timeout(ANSWER_WITHIN):
            line = await reader.readline()
    except TimeoutError:
        raise ConfigError("the process that runs it does not answer") from None
    finally:
        writer.close()
    answer = msgspec.json.decode(line or b"{}", type=dict)
    if "ok" not in answer:
        raise ConfigError(answer.get("error", "the process that runs it has ended"))
    return answer["ok"]


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    """A name of the socket that the system takes, however deep its folder is."""
    if len(os.fsencode(path)) <= LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
