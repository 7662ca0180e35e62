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
from noetl.dialects.presenting import KNOBS, like, presentable
from noetl.dsl.canonical import canonical
from noetl.dsl.diagnostics import Diagnostic, Report
from noetl.dsl.grammar.dialects import DIALECTS
from noetl.dsl.kinds import Kinds
from noetl.dsl.load import Loaded
from noetl.dsl.node import Node
from noetl.dsl.parse import declared_extensions
from noetl.dsl.source import read_source
from noetl.types import JSON

_WAY = ("executor", "spec", "extensions")
_TRIALS = 200  # each of them reads the whole text
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
    enabled = before.playbook.extensions
    after, _ = rewrite(root, kinds, enabled, Report())
    shown = presentable(root, after)
    edited = _edited(text, root, shown)
    # Nothing of `legacy` is left where the text is as it shall be without it.
    found, rest = _switched_off(edited, frozenset({"legacy"})), enabled - {"legacy"}
    loaded = load(found, kinds, rest)
    if not _same(before, loaded):
        found, rest = _stepwise(text, root, shown, before, kinds), enabled
        loaded = load(found, kinds, rest)
        return Migrated(found, (*_left(loaded, found), *_obstacles(found)))
    left = _left(loaded, found)
    if not left:
        bare = _switched_off(found, frozenset(DIALECTS))
        if _same(before, load(bare, kinds, rest - set(DIALECTS))):
            found = bare
    return Migrated(found, left)


def spoken(text: str, kinds: Kinds, given: frozenset[str]) -> frozenset[str]:
    """The dialects to read a playbook in: those that it names, or else that it needs.

    A diagnostic names the extension that would accept a form; `legacy` has its own
    meaning for names of steps, so it is asked first.
    """
    found = load(text, kinds, given)
    root = read_source(text, Report())
    declared = frozenset() if root is None else declared_extensions(root)
    enabled = given | declared
    settled = bool(enabled & set(DIALECTS))
    for name in DIALECTS:
        wanted = any(f"'{name}'" in (each.hint or "") for each in found.diagnostics)
        if wanted and name not in enabled and not (settled and found.valid):
            enabled |= {name}
            found = load(text, kinds, enabled)
    return enabled


def _edited(text: str, old: Node, new: Node) -> str:
    lines = text.count("\n")
    if lines and text.count("\r\n") == lines:
        plain = text.replace("\r\n", "\n")
        return _edited(plain, old, new).replace("\n", "\r\n")
    try:
        return Editor(text).apply(old, new)
    except yaml.YAMLError:  # it reads YAML in its own way
        return text


def _stepwise(text: str, root: Node, new: Node, before: Loaded, kinds: Kinds) -> str:
    """With the steps in new words that can be so without the others."""
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
    """By the canonical form, without the switch and the knobs that it sets."""
    if one.playbook is None or other.playbook is None:
        return False
    return bool(_bare(canonical(one.playbook)) == _bare(canonical(other.playbook)))


def _spoken(loaded: Loaded) -> tuple[Diagnostic, ...]:
    return tuple(each for each in loaded.diagnostics if each.rule == "dialect")


def _left(loaded: Loaded, text: str) -> tuple[Diagnostic, ...]:
    found = [*_spoken(loaded), *_shapes(loaded, text)]
    return tuple(sorted(found, key=lambda each: (each.line, each.column)))


def _shapes(loaded: Loaded, text: str) -> Iterator[Diagnostic]:
    """Tasks whose results are read in a shape that only the dialect gives them."""
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
    """Why a text that can be read cannot be edited."""
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
    """Without these extensions."""
    root = read_source(text, Report())
    if root is None:
        return text
    return _edited(text, root, _without_switch(root, _WAY, names))


def _without_switch(node: Node, way: tuple[str, ...], names: frozenset[str]) -> Node:
    """The name goes, and whatever is empty without it."""
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
    """Without the switch, the knobs that it sets, and what is empty without them.

    The order of conditions counts, as that of no other mapping.
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
