"""Other names in a template's text: what it reads is replaced, the rest stays.

Words are found by Jinja2's lexer, and the new text is believed only if its syntax tree
is the old one with just those parts replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from noetl.errors import TemplateError
from noetl.templates import faults
from noetl.templates.syntax import Node

Names = Mapping[tuple[str, ...], str]
"""Expressions by the paths that they replace: ``("job", "uuid")``."""

_Token = tuple[int, str, str]
_INVISIBLE = frozenset({"whitespace"})


def substitute(source: str, names: Names, texts: Mapping[str, str]) -> str:
    """The template with ``names`` and the literals ``texts`` replaced.

    The longest path that fits is taken. Names that the template sets itself are not
    touched. Raises ``TemplateError`` if the words alone do not tell what is what.
    """
    from noetl.templates.parser import parse, words

    tree, _ = parse(source)
    free = {path: text for path, text in names.items() if path[0] not in _set_in(tree)}
    found = "".join(_replaced(words(source), free, texts))
    wanted = _Replacement(free, texts).of(tree)
    if parse(found)[0] != wanted:
        raise faults.wrong("its older names cannot be told from others in it")
    return found


def _set_in(tree: Node) -> set[str]:
    from jinja2 import nodes

    return {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}


def _replaced(
    tokens: Sequence[_Token], names: Names, texts: Mapping[str, str]
) -> Iterator[str]:
    position, before = 0, ""
    while position < len(tokens):
        _, kind, word = tokens[position]
        end = None
        if kind == "name" and before not in (".", "|", "is"):
            end, expression = _longest(tokens, position, names)
        if end is not None:
            yield expression
            position, before = end, "name"
            continue
        if kind == "string" and word[1:-1] in texts:
            word = word[0] + texts[word[1:-1]] + word[-1]
        yield word
        if kind not in _INVISIBLE and not (before == "is" and word == "not"):
            before = word
        position += 1


def _longest(
    tokens: Sequence[_Token], start: int, names: Names
) -> tuple[int | None, str]:
    """Where the longest known path that begins here ends, and what replaces it."""
    path: tuple[str, ...] = (tokens[start][2],)
    end, found = None, ""
    position = start + 1
    while True:
        if path in names and not _is_argument(tokens, position):
            end, found = position, names[path]
        rest = [token[1:] for token in tokens[position : position + 2]]
        if len(rest) < 2 or rest[0] != ("operator", ".") or rest[1][0] != "name":
            return end, found
        path, position = (*path, rest[1][1]), position + 2


def _is_argument(tokens: Sequence[_Token], position: int) -> bool:
    """``name=`` of a call is not a name that is read."""
    visible = (each for each in tokens[position:] if each[1] not in _INVISIBLE)
    following = next(visible, (0, "", ""))
    return following[1:] == ("operator", "=")


class _Replacement:
    """The same on the syntax tree, where nothing can be mistaken."""

    def __init__(self, names: Names, texts: Mapping[str, str]) -> None:
        self._names = {path: _expression(text) for path, text in names.items()}
        self._texts = texts

    def of(self, node: Node) -> Node:
        from jinja2 import nodes

        found = self._names.get(_path(node))
        if found is not None:
            return found
        if isinstance(node, nodes.Const) and isinstance(node.value, str):
            return nodes.Const(self._texts.get(node.value, node.value))
        fields = {name: self._field(value) for name, value in node.iter_fields()}
        return type(node)(*(fields[name] for name in node.fields))

    def _field(self, value: Node) -> Node:
        from jinja2 import nodes

        if isinstance(value, list):
            return [self._field(each) for each in value]
        return self.of(value) if isinstance(value, nodes.Node) else value


def _path(node: Node) -> tuple[str, ...]:
    kind = type(node).__name__
    if kind == "Name" and node.ctx == "load":
        return (node.name,)
    inner = _path(node.node) if kind == "Getattr" else ()
    return (*inner, node.attr) if inner else ()


def _expression(text: str) -> Node:
    from noetl.templates.parser import parse

    tree: Node = parse(f"{{{{ {text} }}}}")[0]
    outputs = tree.body[0].nodes
    if len(outputs) != 1:
        raise TemplateError("template.error", f"'{text}' is no expression")
    return outputs[0]
