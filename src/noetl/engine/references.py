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
        "again",
        "answer",
        "args",
        "child",
        "ctx",
        "details",
        "error",
        "fired",
        "fork",
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
    size = len(_encode(payload))
    found = [(path, _encode(value)) for path, value in _candidates(payload, [])]
    for path, body in sorted(found, key=lambda each: len(each[1]), reverse=True):
        if size <= limit or len(body) < _SMALLEST:
            break
        value: JSON = payload
        for step in path:
            value = value[step]
        key = sha256(body).hexdigest()
        blobs[key] = body
        reference = reference_to(key, _HINTS[type(value)], len(body))
        payload = _replaced(payload, path, reference)
        spilled.append(".".join(map(str, path)))
        size -= len(body) - len(_encode(reference)) - len(spilled[-1]) - 3
    if spilled:
        payload = {**payload, "spilled": spilled}
    return payload, blobs


def reference_to(key: str, hint: str, size: int) -> dict[str, JSON]:
    """What stands for a stored value; ``key`` is its SHA-256."""
    return {
        "store": STORE,
        "key": key,
        "size": size,
        "checksum": f"sha256:{key}",
        "schema_hint": hint,
    }


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


def holds_reference(value: JSON) -> bool:
    """Whether there is one in it, however deep."""
    return any(map(is_reference, _parts(value)))


def is_same(stored: JSON, value: JSON) -> bool:
    """Whether a value that is stored elsewhere is this one."""
    return is_reference(stored) and stored["key"] == sha256(_encode(value)).hexdigest()


class Values:
    """What the host has loaded.

    ``limit`` bounds what one evaluation may read: a template is no place to read a
    database. Nothing is dropped while a decision is made, because it may be tried
    again; ``trim`` does that between two of them.
    """

    def __init__(self, limit: int = SERVER_LIMIT) -> None:
        self._loaded: dict[str, JSON] = {}
        self._sizes: dict[str, int] = {}
        self._missed: dict[str, TemplateError] = {}
        self._touched: set[str] = set()
        self._limit = limit

    def begin(self) -> Values:
        """A new evaluation, which has read nothing yet."""
        self._touched.clear()
        return self

    def put(self, key: str, value: JSON, size: int) -> None:
        self._loaded[key] = value
        self._sizes[key] = size

    def miss(self, key: str, kind: str, message: str) -> None:
        """It cannot be loaded: whoever touches it is told so."""
        self._missed[key] = TemplateError(kind, message)

    def trim(self) -> None:
        """Forget the oldest, if there is more than the next evaluation may need."""
        left = sum(self._sizes.values())
        for key in list(self._sizes):
            if left <= 2 * self._limit:
                return
            left -= self._sizes.pop(key)
            del self._loaded[key]

    def load(self, value: JSON) -> JSON:
        """The value for a reference; raises ``Unloaded``, or ``TemplateError``."""
        return self._find(value) if is_reference(value) else value

    def whole(self, value: JSON) -> JSON:
        """The value without any reference in it; what has none is given as it is."""
        if not isinstance(value, dict | list) or not holds_reference(value):
            return value
        found = [part for part in _parts(value) if is_reference(part)]
        self._check(found)
        missing = [part for part in found if not self._is_known(part)]
        if missing:
            raise Unloaded(missing)
        return self._filled(value)

    def fetch(self, value: JSON) -> JSON:
        """As ``load``, for the engine itself: it may read what it has written."""
        if is_reference(value) and not self._is_known(value):
            raise Unloaded([value])
        return self._filled(value) if is_reference(value) else value

    def _is_known(self, reference: dict[str, JSON]) -> bool:
        key = reference["key"]
        return key in self._loaded or key in self._missed

    def _find(self, reference: dict[str, JSON]) -> JSON:
        self._check([reference])
        if not self._is_known(reference):
            raise Unloaded([reference])
        key = reference["key"]
        if key in self._missed:
            raise self._missed[key]
        return self._loaded[key]

    def _filled(self, value: JSON) -> JSON:
        if is_reference(value):
            key = value["key"]
            if key in self._missed:
                raise self._missed[key]
            return self._loaded[key]
        if isinstance(value, dict):
            return {key: self._filled(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self._filled(part) for part in value]
        return value

    def _check(self, references: list[JSON]) -> None:
        self._touched.update(reference["key"] for reference in references)
        sizes = {reference["key"]: reference["size"] for reference in references}
        size = sum(self._sizes.get(k, 0) for k in self._touched - sizes.keys())
        size += sum(sizes.values())
        if size > self._limit:
            raise TemplateError(
                "template.budget",
                f"the values have {size:,} bytes; a template here reads at most "
                f"{self._limit:,}; pass them on with the filter ref, or read a part "
                "of them in a task",
            )
