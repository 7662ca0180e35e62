"""Spec layering: kind < executor < step < loop < task."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from noetl.dsl.grammar.retired import SCOPE_OWNED
from noetl.types import JSON

_OWN = frozenset({*SCOPE_OWNED, "policy"})


def deep_merge(outer: JSON, inner: JSON) -> JSON:
    """Mappings merge key by key; of anything else the inner one wins whole."""
    if isinstance(outer, Mapping) and isinstance(inner, Mapping):
        if not outer:
            return dict(inner)
        merged = dict(outer)
        for key, value in inner.items():
            merged[key] = deep_merge(merged[key], value) if key in merged else value
        return merged
    return inner


def effective_spec(
    kind: str,
    defaults: Mapping[str, JSON],
    outer: Iterable[Mapping[str, JSON]],
    task: Mapping[str, JSON],
    kinds: Collection[str],
) -> dict[str, JSON]:
    """What a task runs with.

    ``outer`` holds the specs of executor, step and loops, outermost first. Of these
    only task knobs descend: keys that a scope owns stay with it, and so does its
    policy (SPEC-06). At each level ``spec.<kind>`` refines the level's own keys.
    """
    merged: dict[str, JSON] = dict(defaults)
    for layer in outer:
        knobs = {key: value for key, value in layer.items() if key not in _OWN}
        merged = deep_merge(merged, _flatten(kind, knobs, kinds))
    return dict(deep_merge(merged, _flatten(kind, task, kinds)))


def _flatten(
    kind: str, layer: Mapping[str, JSON], kinds: Collection[str]
) -> dict[str, JSON]:
    """Lay ``spec.<kind>`` over the rest of its level; drop other kinds' subtrees."""
    flat = {key: value for key, value in layer.items() if key not in kinds}
    own = layer.get(kind)
    if isinstance(own, Mapping):
        flat = deep_merge(flat, {k: v for k, v in own.items() if k not in _OWN})
    return flat
