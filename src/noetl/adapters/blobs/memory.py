"""Blobs in memory: for simulation and tests."""

from __future__ import annotations

from noetl.adapters.blobs.keys import check_bytes, check_key, key_of
from noetl.errors import BlobGone


class MemoryBlobs:
    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        key = key_of(data)
        self._blobs[key] = bytes(data)
        return key

    async def get(self, key: str) -> bytes:
        data = self._blobs.get(check_key(key))
        if data is None:
            raise BlobGone(f"blob {key} is not there")
        return check_bytes(key, data)
