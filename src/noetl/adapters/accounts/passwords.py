"""Password hashes by argon2id, computed on threads, few at a time.

Argon2id takes much time and memory on purpose.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from noetl.access.accounts import normalize
from noetl.errors import AccessError

_ITERATIONS = 2
_MEMORY = 19 * 1024  # KiB
_LANES = 1
_TODAY = f"$argon2id$v=19$m={_MEMORY},t={_ITERATIONS},p={_LANES}$"
_MAX_CHARS = 4096  # longer than any password that an account can have
_UNKNOWN_HASH = (
    "$argon2id$v=19$m=19456,t=2,p=1$3exPfZtRUaJu1g9Jgl3pJA$"
    "sr4/FRIdxCAKBJdMIN576VVDS2vM1Ygf9/5gXqBttWA"
)
"""Hash of a discarded password, verified if the account does not exist."""
_AT_ONCE = 2
"""Each hash takes 19 MiB and a core: more would starve the rest of the server."""
_MAX_WAITING = 256
"""Maximum number of queued passwords; the last one waits for some seconds."""


class Argon2Passwords:
    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def hash(self, password: str) -> str:
        async with self._in_turn():
            return await asyncio.to_thread(_hash, normalize(password))

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Return whether the password matches; takes as long without a hash (row 68).

        Raises ``AccessError`` (``auth.too_many``) if too many passwords are queued.
        """
        text = normalize(password[:_MAX_CHARS])
        async with self._in_turn():
            same = await asyncio.to_thread(_same, password_hash or _UNKNOWN_HASH, text)
        return same and password_hash is not None

    def is_outdated(self, password_hash: str) -> bool:
        """Return whether the hash was made with other cost parameters than today's."""
        return not password_hash.startswith(_TODAY)

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        if self._waiting >= _MAX_WAITING:
            message = "too many sign-ins at this moment: try again in a second"
            raise AccessError("auth.too_many", message, 429, retry_after=1.0)
        self._waiting += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting -= 1


def _hash(text: str) -> str:
    hasher = Argon2id(
        salt=os.urandom(16),
        length=32,
        iterations=_ITERATIONS,
        lanes=_LANES,
        memory_cost=_MEMORY,
    )
    return hasher.derive_phc_encoded(text.encode())


def _same(known: str, text: str) -> bool:
    try:
        Argon2id.verify_phc_encoded(text.encode(), known)
    except (InvalidKey, UnicodeEncodeError):
        return False
    return True
