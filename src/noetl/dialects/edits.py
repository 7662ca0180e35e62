"""A document's text with other values in it: what is not changed stays as it is.

Comments, order and layout of everything else are kept. A part that is replaced as a
whole is written anew.
"""

from __future__ import annotations

import json
import re

import yaml

from noetl.dsl.node import Node
from noetl.types import JSON

_Edit = tuple[int, int, str]
_PLAIN = re.compile(r"[A-Za-z_][\w./ -]*(?<! )\Z")


class Editor:
    """Collects replacements of the text, by position."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: dict[int, _Edit] = {}

    def apply(self, old: Node, new: Node) -> str:
        root = yaml.compose(self._text, Loader=yaml.SafeLoader)
        self._compare(old, new, root, 0, in_flow=False)
        text = self._text
        for start, end, written in sorted(self._edits.values(), reverse=True):
            text = text[:start] + written + text[end:]
        return text

    def _compare(
        self, old: Node, new: Node, at: yaml.Node, indent: int, *, in_flow: bool
    ) -> None:
        if old is new or old.plain() == new.plain():
            return
        inside = in_flow or _is_flow(at)
        if isinstance(at, yaml.MappingNode) and old.is_mapping and new.is_mapping:
            self._mapping(old, new, at, indent, in_flow=inside)
        elif isinstance(at, yaml.SequenceNode) and (
            len(old.items) == len(new.items) == len(at.value)
        ):
            for before, after, child in zip(
                old.items, new.items, at.value, strict=True
            ):
                column = child.start_mark.column
                self._compare(before, after, child, column, in_flow=inside)
        else:
            self._replace(at, new.plain(), indent, in_flow=inside)

    def _mapping(
        self, old: Node, new: Node, at: yaml.MappingNode, indent: int, *, in_flow: bool
    ) -> None:
        entries = {key.value: (key, value) for key, value in at.value}
        names = _renamed(old, new)
        kept = {names.get(key, key) for key in new.entries}
        gone = [key for key in old.entries if key not in kept]
        added = [key for key in new.entries if names.get(key, key) not in old.entries]
        # Without entries of its own, with merge keys, or where lines are not entries.
        whole = not entries or old.entries.keys() != entries.keys()
        first = None if whole else at.value[0][0]
        if first is None or ((gone or added) and (in_flow or first.value in gone)):
            self._replace(at, new.plain(), indent, in_flow=in_flow)
            return
        column = first.start_mark.column
        for key, value in new.entries.items():
            before = names.get(key, key)
            if before not in entries:
                continue
            if key != before:
                mark = entries[before][0]
                self._put(mark.start_mark.index, mark.end_mark.index, key)
            child = entries[before][1]
            self._compare(old.entries[before], value, child, column, in_flow=in_flow)
        for key in gone:
            mark, value_at = entries[key]
            start = self._line_start(mark.start_mark.index)
            self._put(start, self._next_line(_end(value_at)), "")
        if added:
            fresh = {key: new.entries[key].plain() for key in added}
            end = self._next_line(_end(at.value[-1][1]))
            ahead = "" if self._text[:end].endswith("\n") else "\n"
            self._insert(end, ahead + _block(fresh, column))

    def _replace(
        self, at: yaml.Node, value: JSON, indent: int, *, in_flow: bool
    ) -> None:
        start, end = at.start_mark.index, _end(at)
        tail = "\n" if self._text[end - 1 : end] == "\n" else ""
        if in_flow:
            written = _inline(value)
        elif isinstance(value, dict | list) and value and _is_block(at):
            written = _block(value, at.start_mark.column).lstrip(" ")
        else:
            written = _written(value, indent).lstrip(" ")
        self._put(start, end, written.rstrip("\n") + tail)

    def _put(self, start: int, end: int, text: str) -> None:
        self._edits[start] = (start, end, text)

    def _insert(self, at: int, text: str) -> None:
        start, end, before = self._edits.get(at, (at, at, ""))
        self._edits[at] = (start, end, before + text)  # inner ones came first

    def _line_start(self, index: int) -> int:
        return self._text.rfind("\n", 0, index) + 1

    def _next_line(self, index: int) -> int:
        if index and self._text[index - 1] == "\n":
            return index
        found = self._text.find("\n", index)
        return len(self._text) if found < 0 else found + 1


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
    """New keys by the old ones whose place they have."""
    lost = {old.key_marks[key]: key for key in old.entries if key not in new.entries}
    return {
        key: lost[mark]
        for key, mark in new.key_marks.items()
        if key not in old.entries and mark in lost and key in new.entries
    }


def _inline(value: JSON) -> str:
    """In one line, as it may stand inside of brackets, too."""
    if isinstance(value, dict):
        members = (f"{_inline(key)}: {_inline(each)}" for key, each in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, str) and _PLAIN.match(value):
        return value if yaml.safe_load(value) == value else json.dumps(value)
    return json.dumps(value, ensure_ascii=False)


def _block(value: JSON, column: int) -> str:
    """Lines of a mapping or a list, each with its line break."""
    pad = " " * column
    if isinstance(value, list):
        return "".join(f"{pad}- {_inline(each)}\n" for each in value)
    return "".join(
        f"{pad}{_inline(key)}:{_written(each, column)}\n" for key, each in value.items()
    )


def _written(value: JSON, column: int) -> str:
    """What follows ``key:``, with the space or the line break before it."""
    if isinstance(value, str) and "\n" in value:
        pad = " " * (column + 2)
        lines = value.removesuffix("\n").split("\n")
        keep = "" if value.endswith("\n") else "-"
        body = "\n".join(f"{pad}{line}" if line else "" for line in lines)
        return f" |{keep}\n{body}"
    if isinstance(value, str) and "{{" in value:
        return " " + json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value:
        return " " + _inline(value)
    return "\n" + _block(value, column + 2).removesuffix("\n")
