"""Rewriting of ``workflow``: the steps, with their tools, results and templates."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.dialects.classic.results import (
    COUNTS,
    Known,
    Read,
    find_reads,
    give_result,
    hand_on,
    is_bare,
    known_steps,
    passed_by,
    written_names,
)
from noetl.dialects.classic.task import Uses, changed, listed, mapping, text_of
from noetl.dialects.classic.tasks import rewrite_entry, rewrite_tool
from noetl.dialects.classic.texts import (
    EVENTS,
    Labelled,
    Vocabulary,
    labelled,
    names_of_tasks,
    output_of,
    output_of_step,
    translate,
    visible,
)
from noetl.dialects.template_rewrite import Names
from noetl.dsl.node import Location, Node

_INSIDE = ("spec", "loop", "arcs")


def without_rules(at: Location, uses: Uses) -> Node:
    """Return a scope, or its ``spec``, without directives in any ``policy``."""
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


_HAND_ON = "args: {NAME: '{{ event.payload.result }}'} on the arcs of that step"
_EVERYWHERE: Names = {
    ("job", "uuid"): "execution_id",
    ("job", "execution_id"): "execution_id",
    ("job", "id"): "execution_id",
}
_WITHOUT_LOOP: Names = {("iter",): "ctx"}


class Meanings(msgspec.Struct, frozen=True):
    """Steps of a playbook, what is read of them by name, and the names that the author
    assigns; ``unsure`` are the steps that a token may reach without them."""

    known: Mapping[str, Known]
    read: Read
    written: set[str]
    unsure: Mapping[str, set[str]]

    @property
    def said(self) -> dict[str, str]:
        return {name: _HAND_ON.replace("NAME", name) for name in self.read.results}

    @property
    def words(self) -> Vocabulary:
        """Names that are valid everywhere, inside or outside a step."""
        names: dict[tuple[str, ...], str] = dict(_EVERYWHERE)
        wholes: dict[str, str] = {}
        for name in self.read.results:
            names |= _aliases(self.known[name], name)
        for name in self.read.stats:
            names[name, "stats"] = f"{name}_stats"
            if name in self.read.results:
                wholes[name] = f"{{'results': {name}, 'stats': {name}_stats}}"
        for name, labels in self.read.tasks.items():
            for label in labels:
                names[name, "results", label] = f"{name}_results.{label}"
        return Vocabulary(names, self.said, EVENTS, wholes)


def find_meanings(
    workflow: Location, workbook: Location | None, relays: list[Node]
) -> Meanings:
    known = known_steps(workflow.node.items)
    steps = [each for each in workflow.children() if each.node.is_mapping]
    read = find_reads(steps, workbook, known)
    nodes = [*(each.node for each in steps), *relays]
    unsure = {name: passed_by(name, nodes) for name in read.results | {*read.tasks}}
    return Meanings(known, read, written_names(steps), unsure)


def rewrite_workflow(workflow: Location, meanings: Meanings, uses: Uses) -> Node:
    returns = any(is_bare(step) for step in workflow.node.items)
    steps = []
    for at in workflow.children():
        if not at.node.is_mapping:
            steps.append(at.node)
            continue
        step = _names(at, meanings, uses)
        step = _step(Location(step, at.parent, at.part), uses)
        step = hand_on(step, meanings.known, meanings.read, returns)
        steps.append(step)
    return listed(steps, workflow.node)


def _names(at: Location, meanings: Meanings, uses: Uses) -> Node:
    """Return the step with canonical names in its templates."""
    before = inside = meanings.words
    loop = at.node.entries.get("loop")
    iterator = text_of(loop.entries.get("iterator")) if loop is not None else None
    if loop is not None:
        inside = _in_loop(before, iterator or "", meanings.known)
    else:
        names = {**_WITHOUT_LOOP, **before.names}
        before = inside = msgspec.structs.replace(before, names=names)
    own = text_of(at.node.entries.get("step")) or ""
    unsure = frozenset(name for name, each in meanings.unsure.items() if own in each)
    inside = msgspec.structs.replace(inside, unsure=unsure - {iterator or ""})
    tasks = labelled(at.get("tool"))
    taken = written_names([at]) | {iterator or ""}
    arcs = _in_arcs(at, before, tasks, taken, meanings)
    spoken = {"next": arcs, "loop": before.without(own)}
    changes = {
        key: translate(at[key], spoken.get(key, inside), uses)
        for key in at.child_keys()
        if key not in ("step", "desc", "tool")
    }
    if "tool" in at:
        changes["tool"] = _in_tasks(at["tool"], tasks, inside, taken, uses)
    return changed(at.node, changes)


def _in_arcs(
    at: Location,
    before: Vocabulary,
    tasks: list[Labelled],
    taken: set[str],
    meanings: Meanings,
) -> Vocabulary:
    """Return the names of the step's arcs: its own result, and those of its tasks."""
    own = meanings.known.get(text_of(at.node.entries.get("step")) or "")
    if own is None:
        return before
    mine: dict[tuple[str, ...], str] = {}
    kind = tasks[-1].kind if tasks and "loop" not in at else ""
    mine |= output_of_step(own.own, kind)
    if "loop" not in at:
        mine |= names_of_tasks(tasks, taken | set(meanings.known))
    if own.name not in meanings.written | taken:
        mine |= {(own.name,): own.own, **_aliases(own, own.own)}
        for task in tasks if "loop" not in at else ():
            mine[own.name, "results", task.label] = task.result
        if own.is_loop:
            mine[own.name, "stats"] = own.stats
            for name, key in COUNTS.items():
                mine[own.name, "stats", name] = f"event.payload.{key}"
    told = before.over(mine)
    said = {**told.said, own.name: "event.payload.result"}
    return msgspec.structs.replace(told, said=said)


def _in_tasks(
    tool: Location,
    tasks: list[Labelled],
    inside: Vocabulary,
    taken: set[str],
    uses: Uses,
) -> Node:
    """Return the pipeline; a task reads ``output`` of the one before it, and its rules
    read its own."""
    found: dict[int, Node] = {}
    for place, task in enumerate(tasks):
        names = names_of_tasks(visible(tasks, place), taken)
        if place:
            last = tasks[place - 1]
            names = {**names, **output_of(f"_outcomes.{last.label}", last.kind)}
        words = inside.over(names)
        after = inside.over({**names, **output_of("outcome", task.kind)}, task.kind)
        found[id(task.body.node)] = _in_task(task.body, words, after, uses)
    return _with_bodies(tool.node, found)


def _in_task(at: Location, words: Vocabulary, after: Vocabulary, uses: Uses) -> Node:
    node = translate(
        Location(changed(at.node, {"spec": None}), at.parent, at.part), words, uses
    )
    spec = at.get("spec")
    if spec is None:
        return node
    changes: dict[str, Node | None] = {
        key: translate(spec[key], after if key == "policy" else words, uses)
        for key in spec.child_keys()
    }
    entries = {
        key: changed(spec.node, changes) if key == "spec" else node.entries[key]
        for key in at.child_keys()
    }
    return mapping(entries, at.node)


def _with_bodies(node: Node, bodies: Mapping[int, Node]) -> Node:
    if id(node) in bodies:
        return bodies[id(node)]
    if node.is_sequence:
        return listed([_with_bodies(each, bodies) for each in node.items], node)
    if node.is_mapping:
        entries = {
            key: bodies.get(id(each), each) for key, each in node.entries.items()
        }
        return mapping(entries, node)
    return node


def _in_loop(
    words: Vocabulary, iterator: str, known: Mapping[str, Known]
) -> Vocabulary:
    """Add the iteration's names; its element wins over a step of the same name."""
    names = {**words.names, ("loop_index",): "iter.index"}
    said, wholes = dict(words.said), dict(words.wholes)
    if iterator in known:
        names = {path: each for path, each in names.items() if path[0] != iterator}
        names[iterator,] = f"iter.{iterator}"
        said.pop(iterator, None)
        wholes.pop(iterator, None)
    return Vocabulary(names, said, words.texts, wholes)


def _aliases(about: Known, result: str) -> dict[tuple[str, ...], str]:
    """Map ``data`` to the result itself, unless the result has that member."""
    found: dict[tuple[str, ...], str] = {}
    if not about.is_http:
        found[about.name, "data"] = f"({result}.data | default({result}))"
    if about.is_loop:
        found[about.name, "results"] = f"({result}.results | default({result}))"
    return found


def _step(at: Location, uses: Uses) -> Node:
    changes: dict[str, Node | None] = {}
    if "tool" in at:
        changes["tool"] = rewrite_tool(at["tool"], uses)
    elif is_bare(at.node):
        return give_result(at, uses)
    for key in ("spec", "loop", "next"):
        if key in at:
            changes[key] = without_rules(at[key], uses)
    return changed(at.node, changes)


def rewrite_workbook_root(workbook: Location, uses: Uses) -> Node:
    """Return a mapping of templates by name; the grammar reports the rest."""
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
        found[name] = _template(Location(body, workbook, at.part), uses)
        marks[name] = at["name"].mark
    node = mapping(found, workbook.node)
    node.key_marks |= marks
    return node


def _template(at: Location, uses: Uses) -> Node:
    return (
        rewrite_entry(at, uses)
        if {"kind", "tool"} & at.node.entries.keys()
        else at.node
    )
