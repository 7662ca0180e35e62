"""Patches of ``ctx`` and ``iter``: applied together, never in place."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.types import JSON


def apply_patch(base: Mapping[str, JSON], patch: Mapping[str, JSON]) -> dict[str, JSON]:
    """``base`` with the patch in it; what the patch does not touch is shared.

    A plain key replaces, a dotted one sets a nested path and makes the mappings on
    its way; null is a value like any other (S-19).
    """
    patched = dict(base)
    for key, value in patch.items():
        if "." in key and key not in base:
            _set_path(patched, key.split("."), value)
        else:
            patched[key] = value
    return patched


def _set_path(target: dict[str, JSON], path: list[str], value: JSON) -> None:
    for part in path[:-1]:
        inner = target.get(part)
        target[part] = dict(inner) if isinstance(inner, Mapping) else {}
        target = target[part]
    target[path[-1]] = value


def read_path(base: Mapping[str, JSON], key: str) -> JSON:
    """What a key of a patch stands for now; null where there is nothing."""
    if key in base:
        return base[key]
    value: JSON = base
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def is_equal(one: JSON, other: JSON) -> bool:
    """Equal as the log writes them: 1, 1.0 and true are three values."""
    return msgspec.json.encode(one, order="sorted") == msgspec.json.encode(
        other, order="sorted"
    )
