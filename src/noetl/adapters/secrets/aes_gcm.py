"""AES-256-GCM, with the key of a home or with one derived from a worker's token."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from noetl.adapters.secrets.private_files import make_folder, write_private
from noetl.errors import SecretError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_SIZE = 32
_NONCE = 12
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


_OF_WORKERS = b"noetl: secrets of a worker\0"


class AesGcm:
    """Seals data for a purpose; it cannot be opened for another purpose.

    The key is made or read at the first use.
    """

    _mismatch = "it does not open with this key"

    def seal(self, text: bytes, purpose: str) -> bytes:
        nonce = secrets.token_bytes(_NONCE)
        return nonce + self._engine.encrypt(nonce, text, purpose.encode())

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """Open sealed data. Raises ``SecretError`` for another key or purpose."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._engine.decrypt(
                sealed[:_NONCE], sealed[_NONCE:], purpose.encode()
            )
        except (InvalidTag, ValueError):
            raise SecretError("secret.sealed", self._mismatch) from None

    @cached_property
    def _engine(self) -> AESGCM:
        # The import takes 15 ms, and only executions with secrets need it.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._read_key())

    def _read_key(self) -> bytes:
        raise NotImplementedError


@dataclass(eq=False)
class WorkerSeal(AesGcm):
    """Cipher of a worker and its server: secrets need the token to be read.

    The token has 256 random bits, so its key is a single hash.
    """

    _mismatch = "it does not open with the token of this worker"
    token: str = field(repr=False)

    def _read_key(self) -> bytes:
        return sha256(_OF_WORKERS + self.token.encode()).digest()


@dataclass(eq=False)
class GivenKey(AesGcm):
    """Cipher of a key in memory."""

    key: bytes = field(repr=False)

    def _read_key(self) -> bytes:
        return self.key


class Cipher(AesGcm):
    """Cipher of a home; its key is a file that only its user can read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mismatch = (
            f"it does not open with the key {path}: another key, or damaged"
        )

    def make(self) -> bytes:
        """Return the key, and make it at the first use. Raises ``SecretError``."""
        if not self._path.exists():
            make_folder(self._path.parent)
            with suppress(FileExistsError):  # another process was first: use its key
                key = secrets.token_bytes(_SIZE)
                write_private(self._path, key, replace=False)
        return self.read()

    def _read_key(self) -> bytes:
        return self.make()

    def read(self) -> bytes:
        """Return the key. Raises ``SecretError``."""
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
