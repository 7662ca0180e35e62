"""In-place edits of a document's text; unchanged parts stay as written.

Comments, order and layout of everything else are kept. A part that is replaced as a
whole is written anew; the comments that stood in it are put above its step.

New text is laid out for readers. Mappings and lists are blocks. Below a list, where
indentation is deep, a short flat mapping of constants stays in one line:
``then: {do: retry, attempts: 3}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec
import yaml

from noetl.dsl.node import Node
from noetl.types import JSON

_PLAIN = re.compile(r"[A-Za-z_][\w./ -]*(?<! )\Z")
_SHORT = 60


def inline(value: JSON) -> str:
    """Write a value in one line that is also valid inside brackets."""
    if isinstance(value, dict):
        members = (f"{inline(key)}: {inline(each)}" for key, each in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(inline, value))}]"
    if isinstance(value, str) and _PLAIN.match(value):
        return value if yaml.safe_load(value) == value else json.dumps(value)
    return json.dumps(value, ensure_ascii=False)


def block(value: JSON, column: int, *, in_list: bool = False) -> str:
    """Write the lines of a mapping or a list, each with its line break."""
    pad = " " * column
    if isinstance(value, list):
        return "".join(f"{pad}-{_entry(each, column)}\n" for each in value)
    return "".join(
        f"{pad}{inline(key)}:{written(each, column, in_list=in_list)}\n"
        for key, each in value.items()
    )


def written(value: JSON, column: int, *, in_list: bool = False) -> str:
    """Write the text after ``key:``, with the space or the line break before it."""
    if isinstance(value, str):
        return " " + _text(value, column + 2)
    if not isinstance(value, dict | list) or not value:
        return " " + inline(value)
    if _is_short(value) and (in_list or isinstance(value, list)):
        return " " + inline(value)
    below = block(value, column + 2, in_list=in_list)
    return "\n" + below.removesuffix("\n")


def _entry(value: JSON, column: int) -> str:
    """Write the text after the dash of a list."""
    if not isinstance(value, dict | list) or not value:
        return written(value, column)
    lines = block(value, column + 2, in_list=True)
    return " " + lines.removesuffix("\n").lstrip(" ")


def _is_short(value: dict[str, JSON] | list[JSON]) -> bool:
    members = value.values() if isinstance(value, dict) else value
    for each in members:
        if (isinstance(each, dict | list) and each) or "\n" in str(each):
            return False
    text = inline(value)
    return len(text) <= _SHORT and "{{" not in text


def _text(value: str, column: int) -> str:
    if "\n" in value and _may_stand_as_lines(value):
        pad = " " * column
        lines = value.removesuffix("\n").split("\n")
        keep = "" if value.endswith("\n") else "-"
        body = "\n".join(f"{pad}{line}" if line else "" for line in lines)
        return f"|{keep}\n{body}"
    if "{{" in value:
        return json.dumps(value, ensure_ascii=False)
    return inline(value)


def _may_stand_as_lines(value: str) -> bool:
    """Return whether a block scalar needs no indentation indicator."""
    return (
        not value[0].isspace()
        and not value.endswith("\n\n")
        and all(line.isprintable() for line in value.split("\n"))
    )


_COMMENT = re.compile(r"#[^\n]*")


def comments_of(text: str) -> list[tuple[int, str]]:
    """Return each comment by its position. Raises ``yaml.YAMLError``."""
    return list(_comments(text))


def _comments(text: str) -> Iterator[tuple[int, str]]:
    reached = 0
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        start, end = token.start_mark.index, token.end_mark.index
        yield from _between(text, reached, start)
        if isinstance(token, yaml.ScalarToken) and token.style in ("|", ">"):
            head = text.find("\n", start)
            yield from _between(text, start, end if head < 0 else head)
        reached = max(reached, end)
    yield from _between(text, reached, len(text))


def _between(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    for found in _COMMENT.finditer(text, start, end):
        yield found.start(), found.group().rstrip()


_Edit = tuple[int, int, str]
_LINE = 88


class Indentation(msgspec.Struct, frozen=True):
    """Position of a value: the column of its key or dash, and its container."""

    column: int
    in_flow: bool = False
    in_list: bool = False


class Editor:
    """Collects replacements of the text, by position."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: dict[int, _Edit] = {}

    def apply(self, old: Node, new: Node) -> str:
        """Return the text with ``new`` in it. Raises ``yaml.YAMLError``."""
        root = yaml.compose(self._text, Loader=yaml.SafeLoader)
        self._compare(old, new, root, Indentation(-2))
        if self._edits:
            self._keep_comments(_steps(root))
        text = self._text
        for start, end, fresh in sorted(self._edits.values(), reverse=True):
            text = text[:start] + fresh + text[end:]
        return text

    def _compare(
        self, old: Node, new: Node, at: yaml.Node, indent: Indentation
    ) -> None:
        if old is new or old.plain() == new.plain():
            return
        in_flow = indent.in_flow or _is_flow(at)
        if isinstance(at, yaml.MappingNode) and old.is_mapping and new.is_mapping:
            self._mapping(old, new, at, indent)
        elif isinstance(at, yaml.SequenceNode) and (
            len(old.items) == len(new.items) == len(at.value)
            or (len(old.items) == len(at.value) and _adds_steps(old, new, at))
        ):
            for before, after, child in zip(
                old.items, new.items, at.value, strict=False
            ):
                inner = Indentation(child.start_mark.column - 2, in_flow, True)
                self._compare(before, after, child, inner)
            self._append(at, [each.plain() for each in new.items[len(old.items) :]])
        else:
            self._replace(at, new.plain(), indent)

    def _mapping(
        self, old: Node, new: Node, at: yaml.MappingNode, indent: Indentation
    ) -> None:
        entries = {key.value: (key, value) for key, value in at.value}
        in_flow = indent.in_flow or _is_flow(at)
        names = _renamed(old, new)
        kept = {names.get(key, key) for key in new.entries}
        gone = [key for key in old.entries if key not in kept]
        added = [key for key in new.entries if names.get(key, key) not in old.entries]
        # Empty, with merge keys, or with lines that are not entries.
        whole = not entries or old.entries.keys() != entries.keys()
        first = None if whole else at.value[0][0]
        if first is None or ((gone or added) and (in_flow or first.value in gone)):
            self._replace(at, new.plain(), indent)
            return
        column = first.start_mark.column
        for key, value in new.entries.items():
            before = names.get(key, key)
            if before not in entries:
                continue
            mark, child = entries[before]
            if key != before:
                self._put(mark.start_mark.index, mark.end_mark.index, key)
            inner = Indentation(column, in_flow)
            self._compare(old.entries[before], value, child, inner)
        fresh = {key: new.entries[key].plain() for key in added}
        lines = block(fresh, column, in_list=indent.in_list)
        for key in gone:
            mark, child = entries[key]
            start = self._line_start(mark.start_mark.index)
            taken = lines if key == gone[-1] else ""
            self._put(start, self._next_line(self._end(child)), taken)
        if added and not gone:
            end = self._next_line(self._end(at.value[-1][1]))
            ahead = "" if self._text[:end].endswith("\n") else "\n"
            self._insert(end, ahead + lines)

    def _append(self, at: yaml.SequenceNode, steps: list[JSON]) -> None:
        """Add steps behind the last one of a block sequence."""
        if not steps:
            return
        column = at.value[-1].start_mark.column - 2
        end = self._next_line(self._end(at.value[-1]))
        ahead = "" if self._text[:end].endswith("\n") else "\n"
        self._insert(end, ahead + block(steps, column))

    def _replace(self, at: yaml.Node, value: JSON, indent: Indentation) -> None:
        start, end = at.start_mark.index, self._end(at)
        column = at.start_mark.column
        tail = "\n" if self._text[end - 1 : end] == "\n" else ""
        filled = isinstance(value, dict | list) and bool(value)
        short = _is_flow(at) and len(inline(value)) <= _LINE - column
        if indent.in_flow or (filled and short):
            fresh = inline(value)
        elif filled and (_is_block(at) or indent.in_list):
            deep = column if column > indent.column else indent.column + 2
            fresh = block(value, deep, in_list=indent.in_list)[column:]
        else:
            fresh = written(value, indent.column)
            start -= len(self._text[:start]) - len(self._text[:start].rstrip(" "))
        fresh = fresh.rstrip("\n")
        if "\n" in fresh and not tail:
            end = self._without_comment(end)
        self._put(start, end, fresh + tail)

    def _keep_comments(self, steps: list[yaml.Node]) -> None:
        """Put the comments of replaced text above the step, or leave them in place."""
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
        """Replace text after the insertion at ``start``, which belongs to the part
        before."""
        _, reached, before = self._edits.get(start, (start, start, ""))
        self._edits[start] = (start, end, (before if reached == start else "") + text)

    def _insert(self, at: int, text: str) -> None:
        """Insert text after earlier insertions at ``at`` and before its replacement."""
        start, end, there = self._edits.get(at, (at, at, ""))
        self._edits[at] = (start, end, there + text if end == at else text + there)

    def _end(self, at: yaml.Node) -> int:
        """Return the end without the empty lines that the YAML reader includes."""
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
        """Return the end of the line if only a comment follows, else ``index``."""
        line = self._text[index:].partition("\n")[0]
        return index + len(line) if line.lstrip(" ").startswith("#") else index


def _steps(root: yaml.Node) -> list[yaml.Node]:
    """Return the steps of a block sequence."""
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == "workflow" and _is_block(value):
            return list(value.value)
    return []


def _adds_steps(old: Node, new: Node, at: yaml.Node) -> bool:
    """Return whether only steps are added, behind the last one."""
    more = new.items[len(old.items) :]
    has_tools = all({"step", "tool"} <= each.entries.keys() for each in more)
    return bool(more) and has_tools and _is_block(at)


def _is_flow(at: yaml.Node) -> bool:
    return isinstance(at, yaml.CollectionNode) and bool(at.flow_style)


def _is_block(at: yaml.Node) -> bool:
    return isinstance(at, yaml.CollectionNode) and not at.flow_style


def _end(at: yaml.Node) -> int:
    """Return the end of a node's own text; a block's end mark is the next node's
    start."""
    if isinstance(at, yaml.CollectionNode) and at.value and not at.flow_style:
        last = at.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(at.end_mark.index)


def _renamed(old: Node, new: Node) -> dict[str, str]:
    """Return old keys by new keys at the same position, where that is unique."""
    lost = {old.key_marks[key]: key for key in old.entries if key not in new.entries}
    marks = [new.key_marks[key] for key in new.entries if key not in old.entries]
    return {
        key: lost[mark]
        for key, mark in new.key_marks.items()
        if key not in old.entries and mark in lost and key in new.entries
        if marks.count(mark) == 1
    }
