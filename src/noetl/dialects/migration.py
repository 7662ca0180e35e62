"""Migration of a playbook of a dialect to the canonical language.

The text is changed where a dialect is used. The new text is returned only if its
canonical form is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import yaml

from noetl.dialects import load, rewrite
from noetl.dialects.classic.results import is_bare
from noetl.dialects.classic.task import made
from noetl.dialects.edits import Editor, inline
from noetl.dsl.canonical import canonical
from noetl.dsl.diagnostics import Diagnostic, Report
from noetl.dsl.grammar.earlier_forms import DIALECTS
from noetl.dsl.load import Loaded
from noetl.dsl.node import Node, overlay
from noetl.dsl.parse import declared_extensions
from noetl.dsl.source import read_source
from noetl.dsl.tool_kinds import Kinds
from noetl.types import JSON

KNOBS = ("dialect", "statements")
"""Keys that a dialect adds to tasks on each read."""


def presentable(old: Node, new: Node) -> Node:
    """Return the document without the keys that the dialect adds on each read."""
    if "kind" in old.entries and [len(task.entries) for task in new.items] == [1]:
        new = _named(new.items[0])
    if new.is_sequence:
        pairs = _paired(old, new)
        return like(new, [presentable(before, after) for before, after in pairs])
    if not new.is_mapping:
        return new
    if "tool" in new.entries and is_bare(old):
        return old  # a bare last step: its result is the dialect's
    entries: dict[str, Node] = {}
    for key, value in new.entries.items():
        before = old.entries.get(key)
        if key == "_result":
            continue
        if key in KNOBS and before is None:
            continue
        if key == "data" and before is None and "form" in old.entries:
            key, value = "form", old.entries["form"]  # `data` would be read as JSON
        entries[key] = presentable(before or Node(None, 0, 0), value)
    shown = {
        key: each
        for key, each in entries.items()
        if not (
            key in ("spec", "args") and each.value == {} and not _is_empty(old, key)
        )
    }
    return like(new, shown)


def _named(entry: Node) -> Node:
    """Return the only task of a pipeline, labelled inside its mapping."""
    [(label, body)] = entry.entries.items()
    entries = {"name": Node(label, entry.line, entry.column), **body.entries}
    named = Node(entries, body.line, body.column)
    named.key_marks = {"name": (0, 0), **body.key_marks}
    return named


def _is_empty(node: Node, key: str) -> bool:
    return key in node.entries and node.entries[key].value == {}


def _paired(old: Node, new: Node) -> list[tuple[Node, Node]]:
    nothing = Node(None, 0, 0)
    olds = [*old.items, *[nothing] * (len(new.items) - len(old.items))]
    return list(zip(olds, new.items, strict=False))


def like(node: Node, value: dict[str, Node] | list[Node]) -> Node:
    found = Node(value, node.line, node.column)
    found.key_marks = node.key_marks
    return found


_WAY = ("executor", "spec", "extensions")
_TRIALS = 200  # each attempt reads the whole text
_MORE = re.compile(r"\bcommand_\d|\brow_count\b")


class Migrated(msgspec.Struct, frozen=True):
    """Result; ``text`` is None for an invalid playbook, ``left`` is work by hand.

    If nothing is left, the playbook does not name the extension any more.
    """

    text: str | None
    left: tuple[Diagnostic, ...]


def migrate(text: str, kinds: Kinds, extensions: frozenset[str]) -> Migrated:
    """Migrate a playbook. Never raises for any text."""
    before = load(text, kinds, extensions)
    root = read_source(text, Report())
    if before.playbook is None or root is None:
        return Migrated(None, before.diagnostics)
    enabled = before.playbook.extensions
    after, _ = rewrite(root, kinds, enabled, Report())
    shown = presentable(root, after)
    edited = _edited(text, root, shown)
    # `legacy` is not needed any more if the text is the same without it.
    found, rest = _switched_off(edited, frozenset({"legacy"})), enabled - {"legacy"}
    loaded = load(found, kinds, rest)
    if not _same(before, loaded):
        found, rest = _stepwise(text, root, shown, before, kinds), enabled
        loaded = load(found, kinds, rest)
        left = (*_left(loaded, found), *_obstacles(found))
        return _named_in(Migrated(found, left), before, kinds, rest)
    left = _left(loaded, found)
    if not left:
        bare = _switched_off(found, frozenset(DIALECTS))
        if _same(before, load(bare, kinds, rest - set(DIALECTS))):
            return Migrated(bare, left)
    return _named_in(Migrated(found, left), before, kinds, rest)


def _named_in(
    migrated: Migrated, before: Loaded, kinds: Kinds, enabled: frozenset[str]
) -> Migrated:
    """Return a text that names the extensions which it still needs."""
    text = migrated.text or ""
    root = read_source(text, Report())
    wanted = [name for name in DIALECTS if name in enabled]
    if root is None or not wanted or {*wanted} <= declared_extensions(root):
        return migrated
    document = {"executor": {"spec": {"extensions": wanted}}}
    metadata = yaml.compose(text, Loader=yaml.SafeLoader)
    if "executor" in root.entries or not isinstance(metadata, yaml.MappingNode):
        named = overlay(root, made({"executor": document["executor"]}, root))
        found = _edited(text, root, named)
    else:
        value = next(each for key, each in metadata.value if key.value == "metadata")
        end = text.find("\n", len(text[: value.end_mark.index].rstrip()) - 1) + 1
        found = f"{text[:end]}executor: {inline(document['executor'])}\n{text[end:]}"
    loaded = load(found, kinds, frozenset())
    if not _same(before, loaded):
        return migrated
    left = _left(loaded, found)
    if any(each.rule == "migration" for each in migrated.left):
        left = (*left, *_obstacles(found))
    return Migrated(found, left)


def spoken(text: str, kinds: Kinds, given: frozenset[str]) -> frozenset[str]:
    """Return the dialects of a playbook: those that it names, or else that it needs.

    A diagnostic names the extension that accepts a form; `legacy` has its own meaning
    for names of steps, so it is tried first, unless `classic` alone accepts all.
    """
    found = load(text, kinds, given)
    root = read_source(text, Report())
    declared = frozenset() if root is None else declared_extensions(root)
    enabled = given | declared
    settled = bool(enabled & set(DIALECTS))
    if not settled and _names(found, "classic"):
        alone = enabled | {"classic"}
        other = load(text, kinds, alone)
        if other.valid and not _names(other, "legacy"):
            return alone
    for name in DIALECTS:
        wanted = _names(found, name)
        if wanted and name not in enabled and not (settled and found.valid):
            enabled |= {name}
            found = load(text, kinds, enabled)
    return enabled


def _names(found: Loaded, extension: str) -> bool:
    return any(f"'{extension}'" in (each.hint or "") for each in found.diagnostics)


def _edited(text: str, old: Node, new: Node) -> str:
    lines = text.count("\n")
    if lines and text.count("\r\n") == lines:
        plain = text.replace("\r\n", "\n")
        return _edited(plain, old, new).replace("\n", "\r\n")
    try:
        return Editor(text).apply(old, new)
    except yaml.YAMLError:  # its reader differs from that of NoETL
        return text


def _stepwise(text: str, root: Node, new: Node, before: Loaded, kinds: Kinds) -> str:
    """Rewrite the steps that can be rewritten independently of the others."""
    assert before.playbook is not None
    workflow, fresh = root.entries["workflow"], new.entries["workflow"].items
    steps, found, trials = list(workflow.items), text, 0
    changed = [i for i, step in enumerate(steps) if step.plain() != fresh[i].plain()]
    waiting: list[int] = []
    while changed != waiting and trials < _TRIALS:
        waiting, changed = changed, []
        for place in waiting:
            tried = [*steps[:place], fresh[place], *steps[place + 1 :]]
            document = {**root.entries, "workflow": like(workflow, tried)}
            edited, trials = _edited(text, root, like(root, document)), trials + 1
            if _same(before, load(edited, kinds, before.playbook.extensions)):
                steps, found = tried, edited
            else:
                changed.append(place)
    return found


def _same(one: Loaded, other: Loaded) -> bool:
    """Compare canonical forms, without the extensions and the knobs that they set."""
    if one.playbook is None or other.playbook is None:
        return False
    return bool(_bare(canonical(one.playbook)) == _bare(canonical(other.playbook)))


def _spoken(loaded: Loaded) -> tuple[Diagnostic, ...]:
    return tuple(each for each in loaded.diagnostics if each.rule == "dialect")


def _left(loaded: Loaded, text: str) -> tuple[Diagnostic, ...]:
    found = [*_spoken(loaded), *_shapes(loaded, text)]
    return tuple(sorted(found, key=lambda each: (each.line, each.column)))


def _shapes(loaded: Loaded, text: str) -> Iterator[Diagnostic]:
    """Yield tasks whose results are read in a shape of the dialect."""
    assert loaded.playbook is not None
    if "classic" not in loaded.playbook.extensions:
        return
    for step in loaded.playbook.workflow:
        for task in step.tasks:
            if task.kind == "http":
                hint = "the result is the body itself; a policy has outcome.http"
            elif task.kind in ("postgres", "duckdb") and _MORE.search(text):
                hint = "read rows and rowcount; postgres has statements as well"
            else:
                continue
            message = f"the result of this {task.kind} task is in the dialect's shape"
            line, column = task.at.mark
            place = task.at.dotted
            yield Diagnostic(
                "S-01", "dialect", "warning", message, place, line, column, hint
            )


def _obstacles(text: str) -> Iterator[Diagnostic]:
    """Return why a readable text cannot be edited."""
    message = "the text cannot be changed in place without changing its meaning"
    hint = "noetl validate --canonical prints the whole playbook in canonical form"
    line, column = 1, 1
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        if isinstance(token, yaml.AnchorToken | yaml.AliasToken):
            message = "parts that share text by anchors cannot be rewritten apart"
            hint = "write it out, and migrate again"
            line, column = token.start_mark.line + 1, token.start_mark.column + 1
            break
    yield Diagnostic("S-01", "migration", "warning", message, "", line, column, hint)


def _switched_off(text: str, names: frozenset[str]) -> str:
    """Return the text without these extensions."""
    root = read_source(text, Report())
    if root is None:
        return text
    return _edited(text, root, _without_switch(root, _WAY, names))


def _without_switch(node: Node, way: tuple[str, ...], names: frozenset[str]) -> Node:
    """Remove the names, and every mapping or list that becomes empty."""
    inner = node.entries.get(way[0]) if way else None
    entries = dict(node.entries)
    if inner is not None and len(way) > 1:
        entries[way[0]] = _without_switch(inner, way[1:], names)
    elif inner is not None:
        others = [each for each in inner.items if each.value not in names]
        entries[way[0]] = Node(others, inner.line, inner.column)
    if inner is not None and not entries[way[0]].value:
        del entries[way[0]]
    found = Node(entries, node.line, node.column)
    found.key_marks = node.key_marks
    return found


def _bare(value: JSON) -> JSON:
    """Return the value without extensions, the knobs they set, and empty mappings.

    The order of conditions counts, unlike that of any other mapping.
    """
    if isinstance(value, list):
        return [_bare(each) for each in value]
    if not isinstance(value, dict):
        return value
    gone = (*KNOBS, "extensions")
    inner = {key: _bare(each) for key, each in value.items() if key not in gone}
    if inner.get("kind") == "choose" and isinstance(inner.get("when"), dict):
        inner["when"] = [[name, each] for name, each in inner["when"].items()]
    scopes = ("spec", "executor")
    return {k: v for k, v in inner.items() if not (k in scopes and v == {})}
