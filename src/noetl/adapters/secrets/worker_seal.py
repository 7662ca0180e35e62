"""The cipher of a worker and its server: its key is made of the worker's token."""

from __future__ import annotations

import secrets
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from noetl.errors import SecretError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE = 12
_PURPOSE = b"noetl: secrets of a worker\0"


class WorkerSeal:
    """Whoever reads the wire without the token reads no secret.

    The token has 256 random bits, so one hash makes a key of it.
    """

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def seal(self, text: bytes, purpose: str) -> bytes:
        nonce = secrets.token_bytes(_NONCE)
        return nonce + self._engine.encrypt(nonce, text, purpose.encode())

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """Raises ``SecretError`` if it was sealed otherwise, or changed since."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._engine.decrypt(
                sealed[:_NONCE], sealed[_NONCE:], purpose.encode()
            )
        except (InvalidTag, ValueError):
            message = "it does not open with the token of this worker"
            raise SecretError("secret.sealed", message) from None

    @cached_property
    def _engine(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(sha256(_PURPOSE + self._token).digest())
