"""Policies of scopes that direct nothing: they are hints, and have no effect."""

from __future__ import annotations

from noetl.dialects.classic.nodes import changed, listed
from noetl.dialects.classic.uses import Uses
from noetl.dsl.node import Node
from noetl.dsl.place import Place

_INSIDE = ("spec", "loop", "arcs")


def without_rules(at: Place, uses: Uses) -> Node:
    """A scope, or its ``spec``, without directives in any ``policy`` of it."""
    if at.node.is_sequence:
        return listed([without_rules(each, uses) for each in at.children()], at.node)
    changes: dict[str, Node | None] = {
        key: without_rules(at[key], uses) for key in _INSIDE if key in at
    }
    policy = at.get("policy")
    if policy is not None:
        kept: dict[str, Node | None] = {}
        for key in policy.child_keys():
            if key != "admit" and _directs(policy[key].node):
                what = f"'{key}' in the policy of another scope, a mere hint,"
                canonical = "spec.policy.rules of a task"
                uses.accept(policy.key(key), what, canonical)
                kept[key] = None
        changes["policy"] = changed(policy.node, kept)
    return changed(at.node, changes)


def _directs(node: Node) -> bool:
    stack = [node]
    while stack:
        here = stack.pop()
        if "do" in here.entries:
            return True
        stack.extend(here.entries.values())
        stack.extend(here.items)
    return False
