"""AES-256-GCM with the key of a home: a file that nobody else can read."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from noetl.adapters.secrets.private import write_private
from noetl.errors import SecretError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_SIZE = 32
_NONCE = 12
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Cipher:
    """The key is made when something is sealed for the first time.

    What is sealed for one purpose cannot be opened for another.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

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
            message = f"it does not open with the key {self._path}: another key, or "
            raise SecretError("secret.sealed", message + "damaged") from None

    @cached_property
    def _engine(self) -> AESGCM:
        # 15 ms to import, which only those pay who have secrets.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._read_key())

    def _read_key(self) -> bytes:
        if not self._path.exists():
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):  # somebody else was first: take that one
                key = secrets.token_bytes(_SIZE)
                write_private(self._path, key, replace=False)
        try:
            file = os.open(self._path, _READ)
            try:
                mode, key = os.fstat(file).st_mode, os.read(file, _SIZE + 1)
            finally:
                os.close(file)
        except OSError as error:
            message = f"the key {self._path} cannot be read: {error.strerror}"
            raise SecretError("secret.sealed", message) from None
        if stat.S_IMODE(mode) & 0o077:
            message = f"others can read the key {self._path}; "
            raise SecretError("secret.sealed", message + f"chmod 600 {self._path}")
        if len(key) != _SIZE:
            message = f"{self._path} is not a key of {_SIZE} bytes"
            raise SecretError("secret.sealed", message)
        return key
