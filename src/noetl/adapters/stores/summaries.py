"""Summaries as stores have them: without the id, without defaults, and with a key for
what they say of the playbook, which many executions share."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

import msgspec

from noetl.errors import StoreError
from noetl.ports import Summary
from noetl.types import JSON

INLINE = 64
"""Bytes of a playbook's line up to which it is part of the summary."""
MAX_KEYS = 1_000
"""Cached keys; at this number the cache is emptied."""


class Stored(Summary, frozen=True, omit_defaults=True, kw_only=True):
    """A summary as it is stored; older versions stored a whole ``Summary``."""

    execution_id: str = ""
    playbook: dict[str, JSON] | str  # type: ignore[assignment]

    def restore(self, execution_id: str, lines: Mapping[str, str]) -> Summary:
        """Return the summary. Raises ``StoreError`` (``store.corrupt``)."""
        about = self.playbook
        if isinstance(about, str):
            try:
                about = _objects.decode(lines[about])
            except (KeyError, msgspec.DecodeError):
                message = f"the line of the playbook of {execution_id} is missing"
                raise StoreError(message, "store.corrupt") from None
        members = msgspec.structs.asdict(self)
        return Summary(**{**members, "execution_id": execution_id, "playbook": about})


class EncodedSummary(NamedTuple):
    """A summary as a text, and the line of its playbook, if the text has its key."""

    text: str
    key: str | None
    line: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Stored).decode
_objects = msgspec.json.Decoder(dict[str, JSON])
_keys: dict[bytes, str] = {}


def encode_summary(summary: Summary) -> EncodedSummary:
    line = _encode(summary.playbook)
    key = None if len(line) <= INLINE else _keys.get(line) or _key_of(line)
    stored = Stored(
        summary.status,
        summary.started_at,
        summary.finished_at,
        summary.error,
        summary.parent_id,
        summary.forked_from,
        summary.concurrency,
        summary.ignored_errors,
        summary.not_reached,
        summary.labels,
        summary.trigger,
        playbook=summary.playbook if key is None else key,
    )
    return EncodedSummary(_encode(stored).decode(), key, line.decode())


def _key_of(line: bytes) -> str:
    """Return 128 bits of a hash, so that no two lines with one key can be made."""
    if len(_keys) >= MAX_KEYS:
        _keys.clear()
    digest = sha256(line).digest()[:16]
    key = _keys[line] = urlsafe_b64encode(digest).decode().rstrip("=")
    return key


def decode_stored(text: str) -> Stored:
    """Raises ``StoreError`` (``store.corrupt``)."""
    try:
        return _decode(text)
    except msgspec.DecodeError as error:
        message = f"a summary cannot be decoded: {error}"
        raise StoreError(message, "store.corrupt") from error


def decode_summary(execution_id: str, text: str, lines: Mapping[str, str]) -> Summary:
    """Raises ``StoreError`` (``store.corrupt``)."""
    return decode_stored(text).restore(execution_id, lines)


def read_line(execution_id: str, text: str, lines: Mapping[str, str]) -> Summary:
    """Decode a line of a listing; a damaged line is shown as quarantined, so that it
    does not hide the others."""
    try:
        return decode_summary(execution_id, text, lines)
    except StoreError as error:
        why: dict[str, JSON] = {"kind": error.kind, "message": str(error)}
        return Summary(execution_id, "quarantined", {}, "", error=why)


def keys_in(texts: Iterable[str]) -> set[str]:
    """Return the keys of playbooks in summaries that can be decoded."""
    found = set()
    for text in texts:
        try:
            about = _decode(text).playbook
        except msgspec.DecodeError:
            continue
        if isinstance(about, str):
            found.add(about)
    return found


def durations_in(lines: Iterable[str]) -> list[str]:
    """Return how long playbooks keep their executions, of those that say so."""
    found = []
    for line in lines:
        own = _objects.decode(line).get("retention")
        if isinstance(own, str):
            found.append(own)
    return found
