"""A playbook of a dialect in the canonical language, as far as that can be said.

The text is changed where a dialect was spoken. Nothing is believed: the new text must
mean the same, by its canonical form, or it is not given out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import yaml

from noetl.dialects import load, rewrite
from noetl.dialects.edits import Editor
from noetl.dsl.canonical import canonical
from noetl.dsl.diagnostics import Diagnostic, Report
from noetl.dsl.grammar.retired import DIALECTS
from noetl.dsl.kinds import Kinds
from noetl.dsl.load import Loaded
from noetl.dsl.node import Node
from noetl.dsl.source import read_source
from noetl.types import JSON

_KNOBS = ("dialect", "statements")
_WAY = ("executor", "spec", "extensions")
_MORE = re.compile(r"\bcommand_\d|\brow_count\b")


class Migrated(msgspec.Struct, frozen=True):
    """``text`` is None for what is no playbook; ``left`` is what is to be done by hand.

    Where that is nothing, the playbook does not name the extension any more.
    """

    text: str | None
    left: tuple[Diagnostic, ...]


def migrate(text: str, kinds: Kinds, extensions: frozenset[str]) -> Migrated:
    """Never raises for any text."""
    before = load(text, kinds, extensions)
    root = read_source(text, Report())
    if before.playbook is None or root is None:
        return Migrated(None, before.diagnostics)
    after, _ = rewrite(root, kinds, extensions, Report())
    found = _edited(text, root, _presentable(root, after))
    loaded = load(found, kinds, extensions)
    if not _same(before, loaded):
        return Migrated(text, _left(before, text))
    left = _left(loaded, found)
    return Migrated(found if left else _switched_off(found, before, kinds), left)


def _edited(text: str, old: Node, new: Node) -> str:
    try:
        return Editor(text).apply(old, new)
    except yaml.YAMLError:  # it reads YAML in its own way
        return text


def _same(one: Loaded, other: Loaded) -> bool:
    if one.playbook is None or other.playbook is None:
        return False
    return canonical(one.playbook) == canonical(other.playbook)


def _spoken(loaded: Loaded) -> tuple[Diagnostic, ...]:
    return tuple(each for each in loaded.diagnostics if each.rule == "dialect")


def _left(loaded: Loaded, text: str) -> tuple[Diagnostic, ...]:
    found = [*_spoken(loaded), *_shapes(loaded, text)]
    return tuple(sorted(found, key=lambda each: (each.line, each.column)))


def _shapes(loaded: Loaded, text: str) -> Iterator[Diagnostic]:
    """Tasks whose results are read in a shape that only the dialect gives them."""
    assert loaded.playbook is not None
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


def _switched_off(text: str, before: Loaded, kinds: Kinds) -> str:
    """Without the extension, if the playbook is the same then."""
    root = read_source(text, Report())
    assert root is not None
    assert before.playbook is not None
    found = _edited(text, root, _without_switch(root, _WAY))
    loaded = load(found, kinds)
    if loaded.playbook is None:
        return text
    same = _bare(canonical(loaded.playbook)) == _bare(canonical(before.playbook))
    return found if same else text


def _without_switch(node: Node, way: tuple[str, ...]) -> Node:
    """The name goes, and whatever is empty without it."""
    inner = node.entries.get(way[0]) if way else None
    entries = dict(node.entries)
    if inner is not None and len(way) > 1:
        entries[way[0]] = _without_switch(inner, way[1:])
    elif inner is not None:
        others = [each for each in inner.items if each.value not in DIALECTS]
        entries[way[0]] = Node(others, inner.line, inner.column)
    if inner is not None and not entries[way[0]].value:
        del entries[way[0]]
    found = Node(entries, node.line, node.column)
    found.key_marks = node.key_marks
    return found


def _bare(value: JSON) -> JSON:
    """Without the switch, the knobs that it sets, and what is empty without them."""
    if isinstance(value, list):
        return [_bare(each) for each in value]
    if not isinstance(value, dict):
        return value
    gone = (*_KNOBS, "extensions")
    inner = {key: _bare(each) for key, each in value.items() if key not in gone}
    scopes = ("spec", "executor")
    return {k: v for k, v in inner.items() if not (k in scopes and v == {})}


def _presentable(old: Node, new: Node) -> Node:
    """Without what the dialect adds by itself each time that it reads."""
    if new.is_sequence:
        pairs = _paired(old, new)
        return _like(new, [_presentable(before, after) for before, after in pairs])
    if not new.is_mapping:
        return new
    if "tool" in new.entries and "step" in old.entries and "tool" not in old.entries:
        return old  # a bare last step: its result is the dialect's
    entries: dict[str, Node] = {}
    for key, value in new.entries.items():
        before = old.entries.get(key)
        if key == "_result" or (key == "keychain" and before is None):
            continue
        if key in _KNOBS and before is None:
            continue
        if key == "data" and before is None and "form" in old.entries:
            key, value = "form", old.entries["form"]  # `data` would be read as JSON
        entries[key] = _presentable(before or Node(None, 0, 0), value)
    shown = {
        key: each
        for key, each in entries.items()
        if not (key in ("spec", "args") and each.value == {} and key not in old.entries)
    }
    return _like(new, shown)


def _paired(old: Node, new: Node) -> list[tuple[Node, Node]]:
    nothing = Node(None, 0, 0)
    olds = [*old.items, *[nothing] * (len(new.items) - len(old.items))]
    return list(zip(olds, new.items, strict=False))


def _like(node: Node, value: dict[str, Node] | list[Node]) -> Node:
    found = Node(value, node.line, node.column)
    found.key_marks = node.key_marks
    return found
