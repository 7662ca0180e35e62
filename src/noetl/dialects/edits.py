"""A document's text with other values in it: what is not changed stays as it is.

Comments, order and layout of everything else are kept. A part that is replaced as a
whole is written anew; the comments that stood in it are put above its step.
"""

from __future__ import annotations

import msgspec
import yaml

from noetl.dialects.comments import comments_of
from noetl.dialects.writing import block, inline, written
from noetl.dsl.node import Node
from noetl.types import JSON

_Edit = tuple[int, int, str]
_LINE = 88


class Spot(msgspec.Struct, frozen=True):
    """Where a value stands: the column of its key or dash, and in what."""

    column: int
    in_flow: bool = False
    in_list: bool = False


class Editor:
    """Collects replacements of the text, by position."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: dict[int, _Edit] = {}

    def apply(self, old: Node, new: Node) -> str:
        """The text with ``new`` in it. Raises ``yaml.YAMLError``."""
        root = yaml.compose(self._text, Loader=yaml.SafeLoader)
        self._compare(old, new, root, Spot(-2))
        if self._edits:
            self._keep_comments(_steps(root))
        text = self._text
        for start, end, fresh in sorted(self._edits.values(), reverse=True):
            text = text[:start] + fresh + text[end:]
        return text

    def _compare(self, old: Node, new: Node, at: yaml.Node, spot: Spot) -> None:
        if old is new or old.plain() == new.plain():
            return
        in_flow = spot.in_flow or _is_flow(at)
        if isinstance(at, yaml.MappingNode) and old.is_mapping and new.is_mapping:
            self._mapping(old, new, at, spot)
        elif isinstance(at, yaml.SequenceNode) and (
            len(old.items) == len(new.items) == len(at.value)
        ):
            for before, after, child in zip(
                old.items, new.items, at.value, strict=True
            ):
                inner = Spot(child.start_mark.column - 2, in_flow, True)
                self._compare(before, after, child, inner)
        else:
            self._replace(at, new.plain(), spot)

    def _mapping(self, old: Node, new: Node, at: yaml.MappingNode, spot: Spot) -> None:
        entries = {key.value: (key, value) for key, value in at.value}
        in_flow = spot.in_flow or _is_flow(at)
        names = _renamed(old, new)
        kept = {names.get(key, key) for key in new.entries}
        gone = [key for key in old.entries if key not in kept]
        added = [key for key in new.entries if names.get(key, key) not in old.entries]
        # Without entries of its own, with merge keys, or where lines are not entries.
        whole = not entries or old.entries.keys() != entries.keys()
        first = None if whole else at.value[0][0]
        if first is None or ((gone or added) and (in_flow or first.value in gone)):
            self._replace(at, new.plain(), spot)
            return
        column = first.start_mark.column
        for key, value in new.entries.items():
            before = names.get(key, key)
            if before not in entries:
                continue
            mark, child = entries[before]
            if key != before:
                self._put(mark.start_mark.index, mark.end_mark.index, key)
            inner = Spot(column, in_flow)
            self._compare(old.entries[before], value, child, inner)
        fresh = {key: new.entries[key].plain() for key in added}
        lines = block(fresh, column, in_list=spot.in_list)
        for key in gone:
            mark, child = entries[key]
            start = self._line_start(mark.start_mark.index)
            taken = lines if key == gone[-1] else ""
            self._put(start, self._next_line(self._end(child)), taken)
        if added and not gone:
            end = self._next_line(self._end(at.value[-1][1]))
            ahead = "" if self._text[:end].endswith("\n") else "\n"
            self._insert(end, ahead + lines)

    def _replace(self, at: yaml.Node, value: JSON, spot: Spot) -> None:
        start, end = at.start_mark.index, self._end(at)
        column = at.start_mark.column
        tail = "\n" if self._text[end - 1 : end] == "\n" else ""
        filled = isinstance(value, dict | list) and bool(value)
        short = _is_flow(at) and len(inline(value)) <= _LINE - column
        if spot.in_flow or (filled and short):
            fresh = inline(value)
        elif filled and (_is_block(at) or spot.in_list):
            deep = column if column > spot.column else spot.column + 2
            fresh = block(value, deep, in_list=spot.in_list)[column:]
        else:
            fresh = written(value, spot.column)
            start -= len(self._text[:start]) - len(self._text[:start].rstrip(" "))
        fresh = fresh.rstrip("\n")
        if "\n" in fresh and not tail:
            end = self._without_comment(end)
        self._put(start, end, fresh + tail)

    def _keep_comments(self, steps: list[yaml.Node]) -> None:
        """Those in replaced text go above the step, or stay alone in their place."""
        comments = comments_of(self._text)
        for start, end, _ in sorted(self._edits.values()):
            lost = [comment for place, comment in comments if start <= place < end]
            inside = [s for s in steps if s.start_mark.index <= start < _end(s)]
            above = self._line_start(inside[0].start_mark.index if inside else start)
            line = self._text[above:]
            pad = line[: len(line) - len(line.lstrip(" "))]
            if lost:
                self._insert(above, "".join(f"{pad}{each}\n" for each in lost))

    def _put(self, start: int, end: int, text: str) -> None:
        """Behind what has been inserted there: that belongs to the part before."""
        _, reached, before = self._edits.get(start, (start, start, ""))
        self._edits[start] = (start, end, (before if reached == start else "") + text)

    def _insert(self, at: int, text: str) -> None:
        """Behind what has been inserted, as inner ones came first; before the rest."""
        start, end, there = self._edits.get(at, (at, at, ""))
        self._edits[at] = (start, end, there + text if end == at else text + there)

    def _end(self, at: yaml.Node) -> int:
        """Without the empty lines that the reader counts to the text before them."""
        end = _end(at)
        return min(end, len(self._text[:end].rstrip()) + 1)

    def _line_start(self, index: int) -> int:
        return self._text.rfind("\n", 0, index) + 1

    def _next_line(self, index: int) -> int:
        if index and self._text[index - 1] == "\n":
            return index
        found = self._text.find("\n", index)
        return len(self._text) if found < 0 else found + 1

    def _without_comment(self, index: int) -> int:
        """The end of the line, if only a comment follows: lines cannot have it."""
        line = self._text[index:].partition("\n")[0]
        return index + len(line) if line.lstrip(" ").startswith("#") else index


def _steps(root: yaml.Node) -> list[yaml.Node]:
    """The steps that have lines of their own."""
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == "workflow" and _is_block(value):
            return list(value.value)
    return []


def _is_flow(at: yaml.Node) -> bool:
    return isinstance(at, yaml.CollectionNode) and bool(at.flow_style)


def _is_block(at: yaml.Node) -> bool:
    return isinstance(at, yaml.CollectionNode) and not at.flow_style


def _end(at: yaml.Node) -> int:
    """Where its own text ends: a block's end mark is that of what follows it."""
    if isinstance(at, yaml.CollectionNode) and at.value and not at.flow_style:
        last = at.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(at.end_mark.index)


def _renamed(old: Node, new: Node) -> dict[str, str]:
    """New keys by the old ones whose place they have, each by one."""
    lost = {old.key_marks[key]: key for key in old.entries if key not in new.entries}
    marks = [new.key_marks[key] for key in new.entries if key not in old.entries]
    return {
        key: lost[mark]
        for key, mark in new.key_marks.items()
        if key not in old.entries and mark in lost and key in new.entries
        if marks.count(mark) == 1
    }
