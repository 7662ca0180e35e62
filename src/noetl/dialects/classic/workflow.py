"""``workflow``: the steps, with their tools, results and templates."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.dialects.classic.nodes import changed, listed, text_of
from noetl.dialects.classic.policies import without_rules
from noetl.dialects.classic.results import (
    Known,
    give_result,
    hand_on,
    is_bare,
    known_steps,
    named_results,
)
from noetl.dialects.classic.tasks import rewrite_tool
from noetl.dialects.classic.texts import EVENTS, Vocabulary, translate
from noetl.dialects.classic.uses import Uses
from noetl.dsl.node import Node
from noetl.dsl.place import Place
from noetl.templates.substitution import Names

_HAND_ON = "args: {NAME: '{{ event.payload.result }}'} on the arcs of that step"
_EVERYWHERE: Names = {("job", "uuid"): "execution_id"}


class Meanings(msgspec.Struct, frozen=True):
    """The steps of a playbook, and those whose results are read by name."""

    known: Mapping[str, Known]
    named: set[str]

    @property
    def said(self) -> dict[str, str]:
        return {name: _HAND_ON.replace("NAME", name) for name in self.named}

    @property
    def words(self) -> Vocabulary:
        """What is spoken everywhere, inside of a step or not."""
        names: dict[tuple[str, ...], str] = dict(_EVERYWHERE)
        for name in self.named:
            names |= _aliases(self.known[name], name)
        return Vocabulary(names, self.said, EVENTS)


def find_meanings(workflow: Place, workbook: Place | None) -> Meanings:
    known = known_steps(workflow.node.items)
    return Meanings(known, named_results(workflow.children(), workbook, known))


def rewrite_workflow(workflow: Place, meanings: Meanings, uses: Uses) -> Node:
    returns = any(is_bare(step) for step in workflow.node.items)
    steps = []
    for at in workflow.children():
        if not at.node.is_mapping:
            steps.append(at.node)
            continue
        step = _names(at, meanings, uses)
        step = _step(Place(step, at.parent, at.part), uses)
        step = hand_on(step, meanings.known, meanings.named, returns)
        steps.append(step)
    return listed(steps, workflow.node)


def _names(at: Place, meanings: Meanings, uses: Uses) -> Node:
    """The step with canonical names in its templates."""
    own = meanings.known.get(text_of(at.node.entries.get("step")) or "")
    before = inside = arcs = meanings.words
    loop = at.node.entries.get("loop")
    iterator = text_of(loop.entries.get("iterator")) if loop is not None else None
    if loop is not None:
        inside = _in_loop(before, iterator or "", meanings.known)
    if own is not None and own.name != iterator:
        mine = {**before.names, (own.name,): own.own, **_aliases(own, own.own)}
        told = {**before.said, own.name: "event.payload.result"}
        arcs = Vocabulary(mine, told, EVENTS)
    spoken = {"next": arcs, "loop": before}
    changes = {
        key: translate(at[key], spoken.get(key, inside), uses)
        for key in at.child_keys()
        if key not in ("step", "desc")
    }
    return changed(at.node, changes)


def _in_loop(
    words: Vocabulary, iterator: str, known: Mapping[str, Known]
) -> Vocabulary:
    """The iteration's own names; its element wins over a step of the same name."""
    names = {**words.names, ("loop_index",): "iter.index"}
    said = dict(words.said)
    if iterator in known:
        names = {path: each for path, each in names.items() if path[0] != iterator}
        names[iterator,] = f"iter.{iterator}"
        said.pop(iterator, None)
    return Vocabulary(names, said, words.texts)


def _aliases(about: Known, result: str) -> dict[tuple[str, ...], str]:
    """``data`` is the result itself, unless the result has a member of that name."""
    found: dict[tuple[str, ...], str] = {}
    if not about.is_http:
        found[about.name, "data"] = f"({result}.data | default({result}))"
    if about.is_loop:
        found[about.name, "results"] = f"({result}.results | default({result}))"
    return found


def _step(at: Place, uses: Uses) -> Node:
    changes: dict[str, Node | None] = {}
    if "tool" in at:
        changes["tool"] = rewrite_tool(at["tool"], uses)
    elif is_bare(at.node):
        return give_result(at, uses)
    for key in ("spec", "loop", "next"):
        if key in at:
            changes[key] = without_rules(at[key], uses)
    return changed(at.node, changes)
