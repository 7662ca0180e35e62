"""Patches of ``ctx`` and ``iter``: applied together, never in place."""

from __future__ import annotations

from collections.abc import Mapping

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
