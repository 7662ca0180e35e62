"""Codes that open a session once: for the address that a command opens in a browser."""

from __future__ import annotations

from hashlib import sha256

from noetl.access.tokens import BITS

SECONDS = 60.0
_MOST = 1000


class Invitations:
    """Kept in memory, by their digests, for a minute."""

    def __init__(self) -> None:
        self._open: dict[bytes, tuple[float, str]] = {}

    def issue(self, user_id: str, entropy: bytes, now: float) -> str:
        """A code of 32 random bytes; the oldest goes if there are too many."""
        if len(entropy) * 8 != BITS:
            raise ValueError(f"a code needs {BITS} random bits")
        code = entropy.hex()
        self._open[_digest(code)] = (now + SECONDS, user_id)
        while len(self._open) > _MOST:
            del self._open[next(iter(self._open))]
        return code

    def redeem(self, code: str, now: float) -> str | None:
        """Whose it is; it is of no use after this, nor after its time."""
        ends, user_id = self._open.pop(_digest(code), (now, ""))
        return user_id if now < ends else None


def _digest(code: str) -> bytes:
    return sha256(code.encode(errors="replace")).digest()
