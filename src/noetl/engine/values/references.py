"""References to large values: an evaluation that lacks one is repeated (S-48)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec

from noetl.errors import (
    BlobFormat,
    ForgedHandle,
    ForgedReference,
    TemplateError,
    Unloaded,
)
from noetl.types import JSON

STORE = "noetl"
PAYLOAD_LIMIT = 64 * 1024
SERVER_LIMIT = 16 * 1024 * 1024
FILES = frozenset({"csv", "ndjson", "parquet"})
"""Hints of values that are stored as files, not as JSON."""

WORKER_LIMIT = 256 * 1024 * 1024

_MARK = b'"store":"noetl"'
_SECRET = b'"secret":"'
_HANDLE = re.compile("[0-9a-f]{32}")
_BLOB = re.compile(r"[0-9a-f]{64}")
_LOOP = re.compile(r"log:[0-9A-Za-z-]{1,80}(?:/[0-9]{1,9}){0,16}")
_SPAN = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,79}")
_DEEP = (dict, list)
_encode = msgspec.json.Encoder().encode


def claims(value: JSON) -> bool:
    """Return whether a value claims to be a reference, valid or forged."""
    return value.__class__ is dict and value.get("store") == STORE


def is_reference(value: JSON) -> bool:
    """Return whether a value has the shape of a reference that the server makes.

    A claim with another shape was not made by the server. It is plain data, and is
    never looked up.
    """
    return value.__class__ is dict and value.get("store") == STORE and _is_whole(value)


def _is_whole(claim: dict[str, JSON]) -> bool:
    key, size = claim.get("key"), claim.get("size")
    if not isinstance(key, str) or size.__class__ is not int or size < 0:
        return False
    if not _are_keys(claim.get("refs", [])) or not _are_keys(claim.get("made", [])):
        return False
    if _BLOB.fullmatch(key):
        return True
    span = claim.get("range")
    found = _SPAN.fullmatch(span) if isinstance(span, str) else None
    if found is None or int(found[1]) > int(found[2]):
        return False
    return _LOOP.fullmatch(key) is not None


def _are_keys(value: JSON) -> bool:
    return value.__class__ is list and all(isinstance(each, str) for each in value)


def claims_reference(value: JSON) -> bool:
    """Return whether a value from outside holds a reference, which only the server
    makes.

    Raises ``TypeError`` or ``ValueError`` if the value is not JSON.
    """
    return claims_encoded(_encode(value))


def claims_encoded(body: bytes) -> bool:
    """Return whether an encoded value holds a reference."""
    if _MARK not in body:
        return False
    return any(map(claims, mappings_in(msgspec.json.decode(body))))


def find_claim(value: JSON, is_claim: Callable[[JSON], bool] = claims) -> str | None:
    """Return the JSON path of the first claim in a value from outside, or None
    (S-82)."""
    waiting = [(value, "$")]
    while waiting:
        part, path = waiting.pop()
        if is_claim(part):
            return path
        if isinstance(part, dict):
            waiting += [(part[name], _member(path, name)) for name in reversed(part)]
        elif isinstance(part, list):
            places = range(len(part) - 1, -1, -1)
            waiting += [(part[place], f"{path}[{place}]") for place in places]
    return None


def _member(path: str, name: str) -> str:
    if _PLAIN.fullmatch(name):
        return f"{path}.{name}"
    return f"{path}[{msgspec.json.encode(name[:80]).decode()}]"


def admit(value: JSON, name: str = "$") -> None:
    """Refuse values from outside that claim to be a reference (S-82).

    Requests, signals, deliveries, edits of forks and inputs of the command line are
    checked here before anything is recorded. ``name`` is the name of the value in the
    message. Raises ``ForgedReference``.
    """
    if claims_reference(value):
        path = find_claim(value) or "$"
        raise ForgedReference(name + path.removeprefix("$"))


def admit_later(value: JSON, name: str = "$") -> None:
    """Refuse values that claim to be a reference or a handle: signals and edits of
    forks.

    A running execution may hold secrets, and its log shows their handles. A caller who
    could write a handle would make a playbook send the secret wherever it sends the
    caller's own data. Raises ``ForgedReference``, also as ``ForgedHandle``.
    """
    admit(value, name)
    if may_hold_handle(_encode(value)):
        path = find_claim(value, is_handle)
        if path is not None:
            raise ForgedHandle(name + path.removeprefix("$"))


def may_hold_handle(body: bytes) -> bool:
    """Return whether encoded bytes may hold a handle; fast, with false positives."""
    return _SECRET in body


def is_handle(value: JSON) -> bool:
    """Return whether a value has the shape of a handle of a secret."""
    if value.__class__ is not dict or len(value) != 1:
        return False
    name = value.get("secret")
    return isinstance(name, str) and _HANDLE.fullmatch(name) is not None


def mappings_in(value: JSON) -> Iterator[dict[str, JSON]]:
    """Yield every mapping in the value, however deep. Lists of numbers are skipped
    quickly: servers check the values of callers before they serve the next request."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += [each for each in part.values() if isinstance(each, _DEEP)]
        elif isinstance(part, list):
            waiting += [each for each in part if isinstance(each, _DEEP)]


def make_reference(
    key: str, size: int, hint: str, body: bytes = b"", made: Sequence[str] = ()
) -> dict[str, JSON]:
    """Return a reference. ``refs`` are the keys that the value itself refers to;
    ``made`` are those of them that were stored for the same event and are named nowhere
    else in it."""
    reference: dict[str, JSON] = {
        "store": STORE,
        "key": key,
        "size": size,
        "checksum": f"sha256:{key}",
        "schema_hint": hint,
    }
    if _MARK in body:
        parts = mappings_in(msgspec.json.decode(body))
        reference["refs"] = sorted({p["key"] for p in parts if is_reference(p)})
    if made:
        reference["made"] = sorted(made)
    return reference


def check_format(reference: dict[str, JSON]) -> None:
    """Raise ``BlobFormat`` if the reference stands for a file and not for a value."""
    hint = reference.get("schema_hint")
    if hint in FILES:
        raise BlobFormat(
            f"the result {reference['key']} is a {hint} file, not a value: pass it on "
            "with the filter ref, and read it as a table of a duckdb task"
        )


def references_in(value: JSON) -> Iterator[dict[str, JSON]]:
    """Yield all references, however deep, but not those inside stored values."""
    return filter(is_reference, mappings_in(value))


def places_in(value: JSON, path: str = "") -> Iterator[tuple[str, dict[str, JSON]]]:
    """Yield all references with their dotted paths."""
    if is_reference(value):
        yield path, value
    elif isinstance(value, dict | list):
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for key, member in members:
            yield from places_in(member, f"{path}.{key}" if path else str(key))


def made_by(payload: Mapping[str, JSON]) -> Iterator[str]:
    """Yield the keys of the values that were stored for an event.

    Some may be inside of others by now. Earlier versions recorded all keys inside of a
    value, and by their paths those that had been stored.
    """
    made = set(payload.get("spilled") or ())
    for path, reference in places_in(payload) if made else ():
        if path not in made:
            continue
        yield reference["key"]
        if "made" in reference:
            yield from reference["made"]
        elif any(each.startswith(f"{path}.") for each in made):
            yield from reference.get("refs", ())


def holds_reference(value: JSON) -> bool:
    """Return whether the value holds a reference, however deep."""
    return any(map(is_reference, mappings_in(value)))


def is_same(stored: JSON, value: JSON) -> bool:
    """Return whether a stored value equals this one."""
    return is_reference(stored) and stored["key"] == sha256(_encode(value)).hexdigest()


class Values:
    """Values that the host has loaded.

    ``limit`` is the maximum number of bytes that one evaluation may read. Nothing is
    dropped during a decision, because it may be repeated; ``trim`` drops values between
    two decisions.
    """

    def __init__(self, limit: int = SERVER_LIMIT) -> None:
        self._loaded: dict[str, JSON] = {}
        self._encoded: dict[str, bytes] = {}
        self._sizes: dict[str, int] = {}
        self._missed: dict[str, TemplateError] = {}
        self._touched: set[str] = set()
        self._nested: set[str] = set()
        self._limit = limit

    def begin(self) -> Values:
        """Return a view for a new evaluation, which has read nothing yet."""
        self._touched.clear()
        return self

    def put(self, key: str, value: JSON, size: int) -> None:
        self._loaded[key] = value
        self._sizes[key] = size
        if holds_reference(value):
            self._nested.add(key)

    def put_encoded(self, key: str, body: bytes) -> None:
        """Add a value as it is stored; it is decoded when it is first read.

        Without the mark it holds no reference.
        """
        self._encoded[key] = body
        self._sizes[key] = len(body)
        if _MARK in body and holds_reference(self._value(key)):
            self._nested.add(key)

    def miss(self, key: str, kind: str, message: str) -> None:
        """Record that a value cannot be loaded: reading it raises an error."""
        self._missed[key] = TemplateError(kind, message)

    def trim(self) -> None:
        """Drop the oldest values beyond what the next evaluation may need."""
        left = sum(self._sizes.values())
        for key in list(self._sizes):
            if left <= 2 * self._limit:
                return
            left -= self._sizes.pop(key)
            self._loaded.pop(key, None)
            self._encoded.pop(key, None)
            self._nested.discard(key)

    def load(self, value: JSON) -> JSON:
        """Return the value of a reference. Raises ``Unloaded`` or ``TemplateError``."""
        return self._find(value) if is_reference(value) else value

    def whole(self, value: JSON) -> JSON:
        """Return the value without any reference in it; the same object if it has none.

        A value that is referred to several times counts several times, because it may
        refer to further values itself.
        """
        size = 0
        while isinstance(value, dict | list):
            found = list(references_in(value))
            if not found:
                break
            self._check(found)
            size += sum(reference["size"] for reference in found)
            if size > self._limit:
                raise self._too_large(size)
            missing = [part for part in found if not self._is_known(part)]
            if missing:
                raise Unloaded(missing)
            value = self._filled(value)
            if self._nested.isdisjoint(part["key"] for part in found):
                break
        return value

    def fetch(self, value: JSON) -> JSON:
        """Return the value without the limit, for the engine itself."""
        if is_reference(value) and not self._is_known(value):
            raise Unloaded([value])
        return self._filled(value) if is_reference(value) else value

    def _is_known(self, reference: dict[str, JSON]) -> bool:
        key = reference["key"]
        return key in self._sizes or key in self._missed

    def _value(self, key: str) -> JSON:
        if key in self._encoded:
            self._loaded[key] = msgspec.json.decode(self._encoded.pop(key))
        return self._loaded[key]

    def _find(self, reference: dict[str, JSON]) -> JSON:
        self._check([reference])
        if not self._is_known(reference):
            raise Unloaded([reference])
        key = reference["key"]
        if key in self._missed:
            raise self._missed[key]
        return self._value(key)

    def _filled(self, value: JSON) -> JSON:
        if is_reference(value):
            key = value["key"]
            if key in self._missed:
                raise self._missed[key]
            return self._value(key)
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
            raise self._too_large(size)

    def _too_large(self, size: int) -> TemplateError:
        return TemplateError(
            "template.budget",
            f"the values have {size:,} bytes; a template here reads at most "
            f"{self._limit:,}; pass them on with the filter ref, or read a part "
            "of them in a task",
        )
