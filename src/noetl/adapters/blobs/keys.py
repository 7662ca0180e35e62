"""Keys of blobs: the SHA-256 of the bytes, in hexadecimal."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import BinaryIO

from noetl.errors import BlobCorrupt, BlobGone

_KEY = re.compile(r"[0-9a-f]{64}")
_PART = 1 << 20


def key_of(data: bytes) -> str:
    return sha256(data).hexdigest()


def key_of_file(file: BinaryIO) -> str:
    """Return the SHA-256 of the rest of the file, read in chunks."""
    digest = sha256()
    while part := file.read(_PART):
        digest.update(part)
    return digest.hexdigest()


def is_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def check_key(key: str) -> str:
    """Return the key. Raises ``BlobGone`` if ``key_of`` cannot have made it."""
    if not is_key(key):
        raise BlobGone(f"{key[:80]!r} is not the key of a blob")
    return key


def check_bytes(key: str, data: bytes) -> bytes:
    if key_of(data) != key:
        message = f"blob {key} is damaged: its {len(data)} bytes have another SHA-256"
        raise BlobCorrupt(message)
    return data


def gone(key: str, place: str) -> BlobGone:
    return BlobGone(f"blob {key} is not in {place} any more")
