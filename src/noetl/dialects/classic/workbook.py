"""``workbook`` as a list of named tools."""

from __future__ import annotations

from noetl.dialects.classic.nodes import changed, mapping, text_of
from noetl.dialects.classic.tasks import rewrite_entry
from noetl.dialects.classic.uses import Uses
from noetl.dsl.node import Node
from noetl.dsl.place import Place


def rewrite_workbook_root(workbook: Place, uses: Uses) -> Node:
    """A mapping of templates by name; what is no template is left to the grammar."""
    if workbook.node.is_mapping:
        templates = {
            name: _template(workbook[name], uses) for name in workbook.child_keys()
        }
        return mapping(templates, workbook.node)
    if not workbook.node.items:
        return workbook.node
    uses.accept(workbook, "'workbook' as a list", "workbook: {name: {kind: …}}")
    found: dict[str, Node] = {}
    marks: dict[str, tuple[int, int]] = {}
    for at in workbook.children():
        name = text_of(at.node.entries.get("name"))
        if name is None:
            uses.refuse(at, "a template of the workbook has no name", "add name: …")
            continue
        body = changed(at.node, {"name": None, "desc": None})
        found[name] = _template(Place(body, workbook, at.part), uses)
        marks[name] = at["name"].mark
    node = mapping(found, workbook.node)
    node.key_marks |= marks
    return node


def _template(at: Place, uses: Uses) -> Node:
    return (
        rewrite_entry(at, uses)
        if {"kind", "tool"} & at.node.entries.keys()
        else at.node
    )
