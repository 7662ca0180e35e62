"""Names of the dialect in templates, as canonical templates say them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.dialects.legacy.book import Book, Resolved
from noetl.dialects.legacy.nodes import each_text
from noetl.dsl.node import Node
from noetl.dsl.scopes import NAMESPACES
from noetl.templates import is_template
from noetl.templates.renaming import Attributes, rename


class Spelling(msgspec.Struct):
    """What names mean at one place of a step.

    ``names`` are expressions by name: ``result``, ``event``, the loop's element, the
    tasks of this step, the ``args`` of a task.
    """

    book: Book
    step: str
    names: Mapping[str, str]

    def with_names(self, **names: str) -> Spelling:
        return Spelling(self.book, self.step, {**self.names, **names})

    def text(self, source: str) -> str:
        return rename(source, self._resolve) if is_template(source) else source

    def tree(self, node: Node) -> Node:
        return each_text(node, self.text)

    def tool(self, node: Node) -> Node:
        """A task's own mapping: python code is taken as it is (S-34)."""
        spelled = self.tree(node)
        if "code" in node.entries:
            spelled.value["code"] = node.entries["code"]
        return spelled

    def expression(self, value: str | bool) -> str:
        """What stands between the braces of a condition."""
        if isinstance(value, bool):
            return str(value).lower()
        text = self.text(value).strip()
        if text.startswith("{{") and text.endswith("}}"):
            text = text[3 if text[2:3] in "-+" else 2 :]
            text = text[: -3 if text[-3:-2] in "-+" else -2]
        return text.strip()

    def _resolve(self, name: str, attributes: Attributes) -> Resolved:
        if name in self.names:
            return self.names[name], 0
        if name in NAMESPACES:
            return None
        return self.book.elsewhere(name, attributes, self.step)
