"""Composer: builds nodes from parser events and enforces the limits.

libyaml's own constructor recurses and expands aliases, so a few hundred bytes can crash
it. Here the parser only emits events; depth, nodes, aliases and scalars are checked as
they arrive, and the tree is built by a loop with its own stack.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import msgspec
import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from noetl.dsl.diagnostics import Diagnostic, Report
from noetl.dsl.node import KEY_SHOWN, Node, describe, shorten
from noetl.dsl.scalars import WORDS, ScalarProblem, looks_octal, resolve
from noetl.types import JSON

MAX_DEPTH = 64
MAX_NODES = 100_000
MAX_EXPANSION = 100_000

_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_{/$")
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""Characters that end a line for the parser."""

Mark = tuple[int, int]


class Unreadable(Exception):
    """Text that cannot be read any further; the report holds the reason."""


class _Open(msgspec.Struct):
    """A collection under construction."""

    node: Node
    anchor: str | None
    key: str | None = None  # the mapping key that waits for its value
    expects_key: bool = True
    discard: bool = False  # the waiting key was refused: drop its value
    merges: list[Node] = msgspec.field(default_factory=list)
    template: str | None = None  # the template that lacks its quotes


def _mark(event: Any) -> Mark:
    return event.start_mark.line + 1, event.start_mark.column + 1


class Composer:
    """One pass over the parser's events; reports each problem and goes on."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._stack: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._open_anchors: set[str] = set()
        self._nodes = 0
        self._expanded = 0
        self._root: Node | None = None

    def compose(self, text: str) -> Node | None:
        """Return the root node; None for an empty text. Raises ``Unreadable``."""
        loader = _Parser(text)
        documents = 0
        try:
            while loader.check_event():
                event = loader.get_event()
                kind = type(event)
                if kind is ScalarEvent:
                    self._scalar(event)
                elif kind is MappingStartEvent:
                    self._start(event, {})
                elif kind is SequenceStartEvent:
                    self._start(event, [])
                elif kind is MappingEndEvent or kind is SequenceEndEvent:
                    self._end()
                elif kind is AliasEvent:
                    self._alias(event)
                elif kind is DocumentStartEvent:
                    documents += 1
                    if documents > 1:
                        self._second_document(_mark(event))
                        break
        except yaml.YAMLError as error:
            self._syntax(error, text)
        finally:
            loader.dispose()
        return self._root

    # -- events ---------------------------------------------------------------

    def _scalar(self, event: Any) -> None:
        """Add a scalar. Nine of ten events are scalars, so this method is kept fast."""
        stack = self._stack
        is_key = stack and stack[-1].expects_key and type(stack[-1].node.value) is dict
        if not is_key:  # the limit counts values, not keys
            self._count(event)
        if event.tag is not None:
            self._refuse_tag(event)
        text, mark, plain = event.value, event.start_mark, event.implicit[0]
        node = Node(text, mark.line + 1, mark.column + 1)
        # Plain, so the schema decides what it is; most are words, which stay text.
        if plain and (not text or text[0] not in _LETTERS or text in WORDS):
            self._resolve(node, text)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        if is_key:
            stack[-1].expects_key = False
            self._take_key(stack[-1], node, plain=plain)
        else:
            self._place(node, plain=plain)

    def _resolve(self, node: Node, text: str) -> None:
        mark = (node.line, node.column)
        try:
            node.value = resolve(text)
        except ScalarProblem as problem:
            node.value = None
            self._error(problem.rule, mark, problem.message, problem.hint)
        if node.value is text:
            return
        node.text = text
        if type(node.value) is int and looks_octal(text):
            message = f"{text} is the decimal number {node.value}, not octal"
            hint = f"drop the leading zero, write 0o{text.lstrip('+-0')}, or quote it"
            self._report.add(
                Diagnostic(
                    "ROOT-01",
                    "yaml-octal",
                    "warning",
                    message,
                    self._path(),
                    *mark,
                    hint,
                )
            )

    def _start(self, event: Any, empty: JSON) -> None:
        top = self._stack[-1] if self._stack else None
        if top is None or not top.expects_key or top.node.is_sequence:
            self._count(event)
        if event.tag is not None:
            self._refuse_tag(event)
        line, column = _mark(event)
        if len(self._stack) >= MAX_DEPTH:
            message = f"nesting deeper than {MAX_DEPTH} at line {line}"
            self._stop("yaml-too-deep", (line, column), message, "flatten the document")
        if event.anchor is not None:
            self._open_anchors.add(event.anchor)
        node = Node(empty, line, column)
        node.key_marks = {}
        self._stack.append(_Open(node, event.anchor))

    def _end(self) -> None:
        done = self._stack.pop()
        node = done.node
        for merged in done.merges:
            self._merge(node, merged)
        children = node.value.values() if node.is_mapping else node.value
        node.weight = 1 + sum(child.weight for child in children)
        if done.template is not None:
            node.value = done.template
        if done.anchor is not None:
            self._open_anchors.discard(done.anchor)
            self._anchors[done.anchor] = node
        self._place(node, plain=False)

    def _alias(self, event: Any) -> None:
        mark, name = _mark(event), event.anchor
        if name in self._open_anchors:
            message = f"alias *{name} stands inside its own anchor"
            self._stop("yaml-cycle", mark, message, "a playbook cannot contain itself")
        node = self._anchors.get(name)
        if node is None:
            message = f"alias *{name} has no anchor before it"
            self._stop("yaml-alias", mark, message, f"define it first with &{name}")
        if self._merging():
            self._expand(node.weight, "yaml-merge-limit", "merge keys expand", mark)
        else:
            self._expand(node.weight, "yaml-alias-limit", "anchors expand", mark)
        self._place(node, plain=False)

    # -- structure ------------------------------------------------------------

    def _place(self, node: Node, *, plain: bool) -> None:
        """Add a finished node to its parent."""
        if not self._stack:
            self._root = node
            return
        top = self._stack[-1]
        if type(top.node.value) is list:
            top.node.value.append(node)
        elif top.expects_key:
            top.expects_key = False
            self._take_key(top, node, plain=plain)
        else:
            top.expects_key = True
            self._take_value(top, node)

    def _take_key(self, top: _Open, node: Node, *, plain: bool) -> None:
        key, mark = node.value, (node.line, node.column)
        top.discard = type(key) is not str or key in top.node.key_marks
        top.key = key if type(key) is str else None
        if node.is_mapping:
            self._unquoted_template(top, node)
        elif top.key is None:
            message = f"a mapping key must be text, found {describe(node)}"
            hint = f'quote it: "{node.text}"' if node.text else "write a text key"
            self._error("yaml-key-type", mark, message, hint)
        elif top.discard:
            lines = f"lines {top.node.key_marks[key][0]} and {node.line}"
            message = f"key '{shorten(key)}' stands twice in one mapping: {lines}"
            self._error("duplicate-key", mark, message, "keep one of them", code="S-50")
        elif not (plain and key == "<<"):
            top.node.key_marks[key] = mark

    def _take_value(self, top: _Open, node: Node) -> None:
        if top.discard or top.key is None:
            return
        if top.key in top.node.key_marks:
            top.node.value[top.key] = node
        else:
            top.merges.append(node)  # a plain '<<'

    def _merging(self) -> bool:
        """Return whether the next node is merged: ``<<: *a`` or ``<<: [*a, *b]``."""
        return any(
            opened.key == "<<" and "<<" not in opened.node.key_marks
            for opened in self._stack[-2:]
        )

    def _merge(self, into: Node, source: Node) -> None:
        """Merge ``<<: *defaults``: own keys win, then the keys of the earlier
        source."""
        for mapping in source.items if source.is_sequence else [source]:
            if not mapping.is_mapping:
                message = f"'<<' merges mappings, found {describe(mapping)}"
                mark = (mapping.line, mapping.column)
                hint = "use an alias of a mapping: <<: *name"
                self._error("yaml-merge", mark, message, hint)
                continue
            mark = (source.line, source.column)
            self._expand(mapping.weight, "yaml-merge-limit", "merge keys expand", mark)
            for key, child in mapping.entries.items():
                if key not in into.value:
                    into.value[key] = child
                    into.key_marks[key] = mapping.key_marks[key]

    # -- limits and complaints ------------------------------------------------

    def _count(self, event: Any) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            message = f"the playbook has more than {MAX_NODES:,} values"
            hint = "split it, or keep data outside the playbook"
            self._stop("yaml-too-large", _mark(event), message, hint, code="S-70")

    def _expand(self, weight: int, rule: str, what: str, mark: Mark) -> None:
        self._expanded += weight
        if self._expanded > MAX_EXPANSION:
            message = f"{what} to more than {MAX_EXPANSION:,} nodes"
            hint = "repeat less, or keep the data outside the playbook"
            self._stop(rule, mark, message, hint)

    def _refuse_tag(self, event: Any) -> None:
        tag = shorten(event.tag.replace("tag:yaml.org,2002:", "!!"), 60)
        hint = "remove it; quote a value to make it text"
        self._error("yaml-tag", _mark(event), f"tag {tag} is not allowed", hint)

    def _second_document(self, mark: Mark) -> None:
        message = "a second document starts here; a playbook is one document"
        hint = "put it in a file of its own, or remove the '---' line"
        self._error("yaml-multi-document", mark, message, hint)

    def _unquoted_template(self, top: _Open, node: Node) -> None:
        """Report ``url: {{ x }}``, which YAML reads as a mapping with a mapping as its
        key.

        The node is replaced by the intended template, so that one missing pair of
        quotes causes one finding.
        """
        inner = next(iter(node.entries), None)
        shown = f'"{{{{ {shorten(inner)} }}}}"' if inner else '"{{ … }}"'
        top.template = f"{{{{ {inner} }}}}" if inner else ""
        message = "found a mapping as a key: is this a template without quotes?"
        mark = (node.line, node.column)
        hint = f"quote the template: {shown}"
        self._error("yaml-unquoted-template", mark, message, hint)

    def _syntax(self, error: yaml.YAMLError, text: str) -> NoReturn:
        at, said = None, str(error)
        if isinstance(error, yaml.MarkedYAMLError):
            at = error.problem_mark or error.context_mark
            said = " ".join(part for part in (error.context, error.problem) if part)
        mark = (at.line + 1, at.column + 1) if at else (1, 1)
        lines = LINE_END.split(text)
        if mark[0] > len(lines):  # the parser adds a line break to the last line
            mark = (len(lines), len(lines[-1]) + 1)
        self._stop("yaml-syntax", mark, f"not valid YAML: {said}", _advice(said))

    def _error(
        self, rule: str, mark: Mark, message: str, hint: str, code: str = "ROOT-01"
    ) -> None:
        self._report.add(
            Diagnostic(code, rule, "error", message, self._path(), *mark, hint)
        )

    def _stop(
        self,
        rule: str,
        mark: Mark,
        message: str,
        hint: str | None,
        code: str = "ROOT-01",
    ) -> NoReturn:
        self._report.add(
            Diagnostic(code, rule, "error", message, self._path(), *mark, hint)
        )
        raise Unreadable

    def _path(self) -> str:
        """Return the current path, such as ``workflow[2].tool``."""
        parts: list[str] = []
        for opened in self._stack:
            if opened.node.is_sequence:
                parts.append(f"[{len(opened.node.value)}]")
            elif opened.key is not None and not opened.expects_key:
                name = shorten(opened.key, KEY_SHOWN)
                parts.append(f".{name}" if parts else name)
        return "".join(parts)


def _advice(problem: str) -> str | None:
    """Return a hint with the usual cause of a problem of the YAML parser."""
    if "mapping values are not allowed" in problem:
        return "check the indentation above, and quote text that contains ': '"
    if "cannot start any token" in problem or "tab character" in problem:
        return "indent with spaces, not tabs; quote text that starts with @ or `"
    if "quoted scalar" in problem:
        return "a quote is not closed"
    if "did not find expected" in problem:
        return 'check the indentation, and quote templates: "{{ … }}"'
    return None
