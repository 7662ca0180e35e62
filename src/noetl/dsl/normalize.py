"""Normalization of every accepted shape of ``tool`` into the labelled list."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.earlier_forms import SCOPE_OWNED
from noetl.dsl.node import Location, Node, describe
from noetl.types import JSON

# In these kinds `name` is an input of the tool, not the task's label (S-69).
NAME_IS_INPUT = ("workbook", "secrets")


class Entry(msgspec.Struct, frozen=True):
    """One task: its label, the label's location, and the task's own mapping."""

    label: str
    label_at: Location
    body: Location
    named_inside: bool = False  # the label came from a `name` key of the body


def pipeline_entries(tool: Location, report: Report) -> Iterator[Entry]:
    """Yield the tasks of a pipeline in YAML order; report anything else."""
    if tool.node.is_sequence:
        if not tool.node.items:
            message = "the pipeline is empty"
            hint = "add a task, or remove 'tool'"
            report.warn("PIPE-01", "empty-pipeline", tool, message, hint)
        for position, at in enumerate(tool.children(), start=1):
            if at.node.is_mapping:
                yield from _entries(at, position, report)
            else:
                message = f"a task must be a mapping, found {describe(at.node)}"
                hint = "write - label: {kind: …}"
                report.error("PIPE-01", "type", at, message, hint)
    else:
        yield from _entries(tool, 1, report)


def _entries(at: Location, position: int, report: Report) -> Iterator[Entry]:
    if "kind" in at or not _all_mappings(at.node):
        yield _unlabelled(at, position)
        return
    labels = list(at.child_keys())
    if len(labels) > 1:
        message = f"{len(labels)} tasks in one mapping: their order would be unclear"
        hint = "start each task with '- '"
        report.error("PIPE-02", "pipeline-shape", at, message, hint)
    for label in labels:
        yield Entry(label, at.key(label), at[label])


def _all_mappings(node: Node) -> bool:
    """Return whether all values are mappings: ``{fetch: {…}}`` is a named task."""
    return bool(node.entries) and all(n.is_mapping for n in node.entries.values())


def _unlabelled(at: Location, position: int) -> Entry:
    name, kind = at.node.entries.get("name"), at.node.entries.get("kind")
    labelled = name is not None and isinstance(name.value, str)
    if labelled and not (kind is not None and kind.value in NAME_IS_INPUT):
        return Entry(at["name"].node.value, at["name"], at, named_inside=True)
    return Entry(f"task_{position}", at, at)


_OWN = frozenset({*SCOPE_OWNED, "policy"})


def deep_merge(outer: JSON, inner: JSON) -> JSON:
    """Merge mappings key by key; for any other value the inner one wins."""
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
    """Return the spec that a task runs with.

    ``outer`` holds the specs of executor, step and loops, outermost first. Only task
    knobs descend from them: keys that a scope owns stay with it, and so does its policy
    (SPEC-06). At each level ``spec.<kind>`` refines the level's own keys.
    """
    merged: dict[str, JSON] = dict(defaults)
    for layer in outer:
        knobs = {key: value for key, value in layer.items() if key not in _OWN}
        merged = deep_merge(merged, _flatten(kind, knobs, kinds))
    return dict(deep_merge(merged, _flatten(kind, task, kinds)))


def _flatten(
    kind: str, layer: Mapping[str, JSON], kinds: Collection[str]
) -> dict[str, JSON]:
    """Merge ``spec.<kind>`` over its level; drop subtrees of other kinds."""
    flat = {key: value for key, value in layer.items() if key not in kinds}
    own = layer.get(kind)
    if isinstance(own, Mapping):
        flat = deep_merge(flat, {k: v for k, v in own.items() if k not in _OWN})
    if isinstance(flat.get("rate"), str):  # so that a key of an outer level stays
        flat = {**flat, "rate": {"limit": flat["rate"]}}
    return flat
