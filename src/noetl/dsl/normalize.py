"""Every accepted shape of ``tool`` becomes the labelled list."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.dsl.diagnostics import Report
from noetl.dsl.node import Node, describe
from noetl.dsl.place import Place

# In these kinds `name` is an input of the tool, not the task's label (S-69).
NAME_IS_INPUT = ("workbook", "secrets")


class Entry(msgspec.Struct, frozen=True):
    """One task: its label, where the label stands, and the task's own mapping."""

    label: str
    label_at: Place
    body: Place
    named_inside: bool = False  # the label came from a `name` key of the body


def pipeline_entries(tool: Place, report: Report) -> Iterator[Entry]:
    """The tasks of a pipeline in YAML order; what is no task is reported."""
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


def _entries(at: Place, position: int, report: Report) -> Iterator[Entry]:
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
    """``{fetch: {…}}`` is a named task, even if it forgot its kind."""
    return bool(node.entries) and all(n.is_mapping for n in node.entries.values())


def _unlabelled(at: Place, position: int) -> Entry:
    name, kind = at.node.entries.get("name"), at.node.entries.get("kind")
    labelled = name is not None and isinstance(name.value, str)
    if labelled and not (kind is not None and kind.value in NAME_IS_INPUT):
        return Entry(at["name"].node.value, at["name"], at, named_inside=True)
    return Entry(f"task_{position}", at, at)
