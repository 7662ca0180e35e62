"""Large values by reference: spilling is arithmetic, reading is a second try (S-48)."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import msgspec

from noetl.errors import TemplateError, Unloaded
from noetl.types import JSON

STORE = "noetl"
PAYLOAD_LIMIT = 64 * 1024
SERVER_LIMIT = 16 * 1024 * 1024
WORKER_LIMIT = 256 * 1024 * 1024

# Members of payloads that have a meaning to the engine: their values may be stored
# elsewhere, they themselves may not. Of a mapping with many small values the whole
# is stored where only templates read it.
_FRAMES = frozenset(
    {
        "args",
        "child",
        "ctx",
        "details",
        "error",
        "fired",
        "outcome",
        "set_ctx",
        "set_iter",
        "token",
        "workload",
    }
)
_HINTS: dict[type, str] = {dict: "mapping", list: "list", str: "text"}
_SMALLEST = 1024
_MARK = b'"store":"noetl"'
_encode = msgspec.json.Encoder().encode


def is_reference(value: JSON) -> bool:
    return value.__class__ is dict and value.get("store") == STORE


def claims_reference(value: JSON) -> bool:
    """Whether a tool's result holds what only we may write.

    Raises ``TypeError`` or ``ValueError`` for what is not JSON.
    """
    if _MARK not in _encode(value):
        return False
    return any(map(is_reference, _parts(value)))


def _parts(value: JSON) -> Iterator[JSON]:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def fit(
    payload: dict[str, JSON], limit: int
) -> tuple[dict[str, JSON], dict[str, bytes]]:
    """The payload with its largest values replaced by references until it fits.

    The blobs are by their keys. Which values they were is said in ``spilled``.
    """
    blobs: dict[str, bytes] = {}
    spilled: list[str] = []
    while len(_encode(payload)) > limit:
        path = _largest(payload)
        if path is None:
            break
        value: JSON = payload
        for key in path:
            value = value[key]
        body = _encode(value)
        key = sha256(body).hexdigest()
        blobs[key] = body
        payload = _replaced(payload, path, _reference(key, value, len(body)))
        spilled.append(".".join(map(str, path)))
        payload["spilled"] = spilled
    return payload, blobs


def _reference(key: str, value: JSON, size: int) -> dict[str, JSON]:
    return {
        "store": STORE,
        "key": key,
        "size": size,
        "checksum": f"sha256:{key}",
        "schema_hint": _HINTS[type(value)],
    }


def _largest(payload: dict[str, JSON]) -> list[str | int] | None:
    """The way to the largest value that may be stored elsewhere."""
    best: tuple[int, list[str | int]] | None = None
    for path, value in _candidates(payload, []):
        size = len(_encode(value))
        if size >= _SMALLEST and (best is None or size > best[0]):
            best = (size, path)
    return best[1] if best else None


def _candidates(
    frame: JSON, path: list[str | int]
) -> Iterator[tuple[list[str | int], JSON]]:
    members = frame.items() if isinstance(frame, dict) else enumerate(frame)
    for key, value in members:
        here = [*path, key]
        if key == "spilled" or is_reference(value):
            continue
        in_list = isinstance(frame, list)
        if (key in _FRAMES or in_list) and isinstance(value, dict | list):
            yield from _candidates(value, here)
        elif isinstance(value, dict | list | str):
            yield here, value


def _replaced(frame: JSON, path: list[str | int], value: JSON) -> JSON:
    """A copy of the frame with one value changed; the rest is shared."""
    if not path:
        return value
    copy: JSON = dict(frame) if isinstance(frame, dict) else list(frame)
    copy[path[0]] = _replaced(frame[path[0]], path[1:], value)
    return copy


class Values:
    """What the host has loaded. ``load`` gives the value for a reference.

    ``limit`` bounds a single value: a template is no place to read a database.
    """

    def __init__(self, limit: int = SERVER_LIMIT) -> None:
        self._loaded: dict[str, JSON] = {}
        self._sizes: dict[str, int] = {}
        self._missed: dict[str, TemplateError] = {}
        self._limit = limit

    def put(self, key: str, value: JSON, size: int) -> None:
        """Keep it; the oldest go when there is more than one evaluation may need."""
        self._loaded[key] = value
        self._sizes[key] = size
        while len(self._sizes) > 1 and sum(self._sizes.values()) > 2 * self._limit:
            oldest = next(iter(self._sizes))
            del self._sizes[oldest], self._loaded[oldest]

    def miss(self, key: str, kind: str, message: str) -> None:
        """It cannot be loaded: whoever touches it is told so."""
        self._missed[key] = TemplateError(kind, message)

    def load(self, value: JSON) -> JSON:
        """A value as templates see it; raises ``Unloaded``, or ``TemplateError``."""
        if value.__class__ is dict:
            return self._find(value) if value.get("store") == STORE else value
        if value.__class__ is list and any(map(is_reference, value)):
            return self._find_all(value)
        return value

    def _find(self, reference: dict[str, JSON]) -> JSON:
        key = reference["key"]
        if key in self._loaded:
            return self._loaded[key]
        if key in self._missed:
            raise self._missed[key]
        self._check(reference["size"])
        raise Unloaded([reference])

    def _find_all(self, items: list[JSON]) -> JSON:
        missing = [
            item
            for item in items
            if is_reference(item)
            and item["key"] not in self._loaded
            and item["key"] not in self._missed
        ]
        self._check(sum(item["size"] for item in items if is_reference(item)))
        if missing:
            raise Unloaded(missing)
        return [self._find(item) if is_reference(item) else item for item in items]

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise TemplateError(
                "template.budget",
                f"the value has {size:,} bytes; a template here reads at most "
                f"{self._limit:,}; pass it on with the filter ref, or read a part of "
                "it in a task",
            )
