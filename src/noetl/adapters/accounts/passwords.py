"""Passwords by argon2id: slow and large on purpose, so on threads, and few at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from noetl.access.passwords import normalize
from noetl.errors import AccessError

_CUT = 4096  # of what nobody can have as a password
_NOBODY = (
    "$argon2id$v=19$m=19456,t=2,p=1$3exPfZtRUaJu1g9Jgl3pJA$"
    "sr4/FRIdxCAKBJdMIN576VVDS2vM1Ygf9/5gXqBttWA"
)
"""The hash of a password that was thrown away."""
_AT_ONCE = 2
"""Each takes 19 MiB and a core: more at once would starve the rest of the server."""
_MOST_WAITING = 256
"""Passwords that wait for their turn, some seconds at most."""


class Argon2Passwords:
    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def hash(self, password: str) -> str:
        async with self._in_turn():
            return await asyncio.to_thread(self._hasher.hash, normalize(password))

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Without a hash the answer is no, and takes as long (row 68). Raises
        ``AccessError`` (``auth.too_many``) if too many others wait."""
        text = normalize(password[:_CUT])
        async with self._in_turn():
            same = await asyncio.to_thread(self._same, password_hash or _NOBODY, text)
        return same and password_hash is not None

    def is_outdated(self, password_hash: str) -> bool:
        """Whether it was made with other costs than today's."""
        return self._hasher.check_needs_rehash(password_hash)

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        if self._waiting >= _MOST_WAITING:
            message = "too many people sign in at this moment: try again in a second"
            raise AccessError("auth.too_many", message, 429, retry_after=1.0)
        self._waiting += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting -= 1

    def _same(self, known: str, text: str) -> bool:
        try:
            return self._hasher.verify(known, text)
        except (Argon2Error, InvalidHashError, UnicodeEncodeError):
            return False
