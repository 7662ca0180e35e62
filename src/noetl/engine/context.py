"""Patches of ``ctx`` and ``iter``: applied together, never in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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


def unfold(
    base: Mapping[str, JSON], patch: Mapping[str, JSON], load: Callable[[JSON], JSON]
) -> dict[str, JSON]:
    """The patch with whole values for those keys that lead into loaded ones.

    Where the way of a dotted key passes what ``load`` changes, the patch must hold
    the changed value itself.
    """
    unfolded: dict[str, JSON] = {}
    for key, value in patch.items():
        path = key.split(".")
        place = None if "." not in key or key in base else len(path) - 1
        while place and not _is_stored(base, path[:place], load):
            place -= 1
        if not place:
            unfolded[key] = value
            continue
        owner = ".".join(path[:place])  # other keys may lead into it as well
        inside = {"": unfolded.get(owner, load(read_path(base, owner)))}
        _set_path(inside, ["", *path[place:]], value)
        unfolded[owner] = inside[""]
    return unfolded


def _is_stored(
    base: Mapping[str, JSON], path: list[str], load: Callable[[JSON], JSON]
) -> bool:
    value = read_path(base, ".".join(path))
    return load(value) is not value


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
