"""Large payloads: choose the values to store elsewhere (S-48)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec

from noetl.engine.values.references import (
    PAYLOAD_LIMIT,
    is_reference,
    make_reference,
    places_in,
)
from noetl.types import JSON

Path = list[str | int]

# Members of a payload that the engine reads: it needs their structure, so their own
# members are stored elsewhere one by one. Those of EACH are stored as a whole if they
# are many and small. In NAMES the engine needs every name, because it patches them.
EACH, NAMES = "each", "names"
_ERROR = {"details": EACH}
_FRAMES: Mapping[str, JSON] = {
    "again": [{"args": EACH}],
    "answer": {"error": _ERROR},
    "args": EACH,
    "child": {"args": EACH},
    "ctx": NAMES,
    "error": _ERROR,
    "fired": [{"args": EACH}],
    "fork": {"undone": {"runs": {}, "events": {}, "keep": {}}},
    "kept": EACH,
    "outcome": {"error": _ERROR},
    "set_ctx": NAMES,
    "set_iter": NAMES,
    "token": {"args": EACH},
    "workload": EACH,
}
_HINTS: dict[type, str] = {dict: "mapping", list: "list", str: "text"}
_SMALLEST = 1024
_SHORTEST = (_SMALLEST - 2) // 6  # JSON takes at most six bytes per character
_LARGE = (dict, list, str)
_REFERENCE = 300  # bytes of a reference and its path
_NAMES_LIMIT = PAYLOAD_LIMIT * 3 // 4  # the rest is for the outcome
_encode = msgspec.json.Encoder().encode


def fit(
    payload: dict[str, JSON], limit: int, size: int | None = None
) -> tuple[dict[str, JSON], dict[str, bytes]]:
    """Replace the largest values of the payload by references until it fits.

    ``size`` is the number of bytes that must fit, if it is more than the payload.
    Return the payload and the blobs by their keys. ``spilled`` lists the paths of the
    replaced values. Where single values do not suffice, whole mappings are replaced.
    """
    before = len(_encode(payload)) if size is None else size
    fitted, blobs, after = _spill(payload, before, limit, EACH)
    if after > limit:
        fitted, blobs, _ = _spill(payload, before, limit, NAMES)
    return fitted, blobs


def names_too_large(patch: Mapping[str, JSON]) -> int | None:
    """Return the minimum size of a patch in bytes, if one event cannot hold it."""
    if len(patch) * (_REFERENCE + 64) <= _NAMES_LIMIT:
        return None
    size = 0
    for name, value in patch.items():
        size += len(name) + 4 + min(len(_encode(value)), _REFERENCE)
    return size if size > _NAMES_LIMIT else None


def placed(value: JSON, references: Mapping[str, dict[str, JSON]]) -> JSON:
    """Return the value with each reference at its dotted path."""
    for path, reference in references.items():
        steps: Path = [int(s) if s.isdecimal() else s for s in path.split(".")]
        value = _replaced(value, steps, reference)
    return value


def _spill(
    payload: dict[str, JSON], size: int, limit: int, split: str
) -> tuple[dict[str, JSON], dict[str, bytes], int]:
    blobs: dict[str, bytes] = {}
    spilled: list[str] = list(payload.get("spilled", ()))
    candidates = _candidates(payload, _FRAMES, split)
    found = [(path, value, _encode(value)) for path, value in candidates]
    found.sort(key=lambda each: len(each[2]), reverse=True)
    for path, value, body in found:
        if size <= limit or len(body) < _SMALLEST:
            break
        key = sha256(body).hexdigest()
        blobs[key] = body
        name = ".".join(map(str, path))
        made = _made_inside(value, name, spilled)
        reference = make_reference(key, len(body), _HINTS[type(value)], body, made)
        payload = _replaced(payload, path, reference)
        spilled.append(name)
        size -= len(body) - len(_encode(reference)) - len(spilled[-1]) - 3
    if blobs:
        payload = {**payload, "spilled": spilled}
    return payload, blobs, size


def _made_inside(value: JSON, name: str, spilled: Sequence[str]) -> list[str]:
    """Return the keys of values stored for this event that are now inside of this
    value.

    Other references in it prove nothing: templates and tools may have written them.
    """
    before = {path for path in spilled if path.startswith(f"{name}.")}
    if not before:
        return []
    keys: list[str] = []
    for path, reference in places_in(value, name):
        if path in before:
            keys += [reference["key"], *reference.get("made", ())]
    return keys


def _candidates(value: JSON, frame: JSON, split: str) -> Iterator[tuple[Path, JSON]]:
    """Yield values that may be stored elsewhere; ``split`` is not taken whole."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in members:
        if not isinstance(member, _LARGE) or (
            isinstance(member, str) and len(member) < _SHORTEST
        ):
            continue
        inner = _inner(frame, key)
        is_split = isinstance(inner, dict | list) or (
            inner is not None and (inner == NAMES or split == EACH)
        )
        if key == "spilled" or is_reference(member):
            continue
        if is_split and isinstance(member, dict | list):
            for path, found in _candidates(member, inner, split):
                yield [key, *path], found
        else:
            yield [key], member


def _inner(frame: JSON, key: str | int) -> JSON:
    if isinstance(frame, list):
        return frame[0]
    return frame.get(key) if isinstance(frame, Mapping) else None


def _replaced(frame: JSON, path: Sequence[str | int], value: JSON) -> JSON:
    """Return a copy of the frame with one value changed; the rest is shared."""
    if not path:
        return value
    copy: JSON = dict(frame) if isinstance(frame, dict) else list(frame)
    copy[path[0]] = _replaced(frame[path[0]], path[1:], value)
    return copy
