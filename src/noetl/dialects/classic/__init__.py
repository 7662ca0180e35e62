"""The dialect of v2 playbooks in the wild: shapes and names of earlier releases."""

from __future__ import annotations

from noetl.dialects.classic.keychain import rewrite_keychain, undeclared
from noetl.dialects.classic.kinds import extend
from noetl.dialects.classic.nodes import changed, listed, made
from noetl.dialects.classic.policies import without_rules
from noetl.dialects.classic.texts import translate
from noetl.dialects.classic.uses import Uses
from noetl.dialects.classic.workbook import rewrite_workbook_root
from noetl.dialects.classic.workflow import find_meanings, rewrite_workflow
from noetl.dsl.diagnostics import Report
from noetl.dsl.node import Node
from noetl.dsl.place import Place

__all__ = ["extend", "rewrite"]


def rewrite(root: Node, report: Report) -> Node:
    """The document in canonical shapes; what has none stays, for the grammar to say."""
    at, uses = Place(root), Uses(report)
    changes: dict[str, Node | None] = {}
    if "keychain" in at and at["keychain"].node.is_sequence:
        changes["keychain"] = rewrite_keychain(at["keychain"], uses)
    if "executor" in at:
        changes["executor"] = without_rules(at["executor"], uses)
    workbook, workflow = at.get("workbook"), at.get("workflow")
    if workflow is not None and workflow.node.is_sequence:
        meanings = find_meanings(workflow, workbook)
        changes["workflow"] = rewrite_workflow(workflow, meanings, uses)
        if workbook is not None:
            spoken = translate(workbook, meanings.words, uses)
            workbook = Place(spoken, at, "workbook")
            changes["workbook"] = rewrite_workbook_root(workbook, uses)
    found = changed(root, changes)
    return _declared(found, root)


def _declared(found: Node, root: Node) -> Node:
    tasks = [
        found.entries[key] for key in ("workbook", "workflow") if key in found.entries
    ]
    missing = list(undeclared(Place(found), listed(tasks, root)))
    if not missing:
        return found
    keychain = found.entries.get("keychain") or made([], root)
    return changed(found, {"keychain": listed([*keychain.items, *missing], keychain)})
