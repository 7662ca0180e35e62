"""Renaming of names in the text of templates.

Only names at the root of an access are changed: no attribute, filter, test, keyword
argument or text between the delimiters, and no name that the template assigns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from noetl.errors import TemplateError
from noetl.templates import errors
from noetl.templates.syntax import Node
from noetl.types import JSON

Attributes = tuple[str, ...]
Resolve = Callable[[str, Attributes], tuple[str, int] | None]
"""A name and the keys read from it, to an expression and how many of the keys it
stands for; None leaves the name alone."""

_WORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "in",
        "is",
        "if",
        "else",
        "elif",
        "for",
        "set",
        "true",
        "false",
        "none",
        "True",
        "False",
        "None",
        "recursive",
        "loop",
        "endfor",
        "endif",
        "endset",
        "raw",
        "endraw",
    ]
)
_EMPTY = frozenset({"whitespace", "comment", "comment_begin", "comment_end"})


class _Token(NamedTuple):
    kind: str
    text: str
    start: int

    def is_sign(self, *signs: str) -> bool:
        return self.kind == "operator" and self.text in signs


_END = _Token("end", "", 0)


class Name(NamedTuple):
    """Name that is read, with the constant keys after it and the end of each."""

    text: str
    attributes: Attributes
    start: int
    ends: tuple[int, ...]


def rename(source: str, resolve: Resolve) -> str:
    """Return the template with other names; a broken template is unchanged."""
    parts: list[str] = []
    position = 0
    for name in names_in(source):
        found = resolve(name.text, name.attributes)
        if found is not None:
            expression, taken = found
            parts += [source[position : name.start], expression]
            position = name.ends[taken]
    return "".join([*parts, source[position:]])


def names_in(source: str) -> Iterator[Name]:
    """Yield every name that the template reads from its scope, in order."""
    tokens = _tokens(source)
    assigned = set(_assigned(tokens))
    for place, token in enumerate(tokens):
        if token.kind != "name" or token.text in _WORDS or token.text in assigned:
            continue
        before = tokens[place - 1]
        if before.kind == "block_begin" or before.is_sign(".", "|"):
            continue
        if before.text == "is" or (
            before.text == "not" and tokens[place - 2].text == "is"
        ):
            continue
        if tokens[place + 1].is_sign("="):
            continue
        yield _with_attributes(tokens, place)


def _with_attributes(tokens: list[_Token], place: int) -> Name:
    name = tokens[place]
    attributes: list[str] = []
    ends = [name.start + len(name.text)]
    place += 1
    while True:
        sign, key = tokens[place], tokens[place + 1]
        if sign.is_sign(".") and key.kind == "name":
            attributes.append(key.text)
            place += 2
        elif (
            sign.is_sign("[")
            and key.kind == "string"
            and "\\" not in key.text
            and tokens[place + 2].is_sign("]")
        ):
            attributes.append(key.text[1:-1])
            key = tokens[place + 2]
            place += 3
        else:
            return Name(name.text, tuple(attributes), name.start, tuple(ends))
        ends.append(key.start + len(key.text))


def _assigned(tokens: list[_Token]) -> Iterator[str]:
    """Return the names after ``{% set`` and ``{% for``."""
    for place, token in enumerate(tokens):
        if token.kind != "block_begin":
            continue
        tag = tokens[place + 1].text
        if tag not in ("set", "for"):
            continue
        for other in tokens[place + 2 :]:
            if other.text == "in" or other.is_sign("=") or other.kind == "block_end":
                break
            if other.kind == "name":
                yield other.text


def _tokens(source: str) -> list[_Token]:
    """Return the tokens with positions, padded for every look-ahead."""
    from jinja2 import TemplateSyntaxError

    from noetl.templates.parser import lexer

    tokens: list[_Token] = []
    position = 0
    try:
        for _, kind, text in lexer().tokeniter(source, None):
            while not source.startswith(text, position):
                if not source[position : position + 1].isspace():
                    return []  # other line ends: leave the template unchanged
                position += 1
            if kind not in _EMPTY:
                tokens.append(_Token(kind, text, position))
            position += len(text)
    except TemplateSyntaxError:
        return []  # compiling it reports the error
    return [*tokens, _END, _END, _END]


Names = Mapping[tuple[str, ...], str]
"""Expressions by the paths that they replace: ``("job", "uuid")``."""

_NameToken = tuple[int, str, str]
_INVISIBLE = frozenset({"whitespace"})


def substitute(source: str, names: Names, texts: Mapping[str, str]) -> str:
    """Return the template with ``names`` and the literals ``texts`` replaced.

    The longest path that fits is taken. Names that the template sets itself are
    unchanged. Raises ``TemplateError`` if the words are ambiguous.
    """
    from noetl.templates.parser import parse, words

    tree, _ = parse(source)
    free = {path: text for path, text in names.items() if path[0] not in _set_in(tree)}
    found = "".join(_replaced(words(source), free, texts))
    wanted = _Replacement(free, texts).of(tree)
    if parse(found)[0] != wanted:
        raise errors.wrong(
            "its older names cannot be distinguished from other names in it"
        )
    return found


def _set_in(tree: Node) -> set[str]:
    from jinja2 import nodes

    return {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}


def _replaced(
    tokens: Sequence[_NameToken], names: Names, texts: Mapping[str, str]
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
    tokens: Sequence[_NameToken], start: int, names: Names
) -> tuple[int | None, str]:
    """Return the end of the longest known path that begins here, and its
    replacement."""
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


def _is_argument(tokens: Sequence[_NameToken], position: int) -> bool:
    """Return whether the token is ``name=`` of a call, which is not read."""
    visible = (each for each in tokens[position:] if each[1] not in _INVISIBLE)
    following = next(visible, (0, "", ""))
    return following[1:] == ("operator", "=")


class _Replacement:
    """Replacement on the syntax tree, where names are unambiguous."""

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
        raise TemplateError("template.error", f"'{text}' is not an expression")
    return outputs[0]


def expression_of(value: JSON) -> str:
    """Return an expression with the value that a tree of templates renders to.

    Raises ``TemplateError`` for a template with statements.
    """
    if isinstance(value, dict):
        pairs = (
            f"{expression_of(key)}: {expression_of(each)}"
            for key, each in value.items()
        )
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(expression_of, value))}]"
    if not isinstance(value, str):
        return "none" if value is None else str(value).lower()
    parts = list(_parts(value))
    return parts[0] if len(parts) == 1 else f"({' ~ '.join(parts)})" if parts else "''"


def _parts(source: str) -> Iterator[str]:
    """Yield the texts and expressions of a template, each as an expression."""
    from noetl.templates import is_template
    from noetl.templates.parser import parse, words

    if not is_template(source):
        yield repr(source)
        return
    parse(source)
    inside: list[str] | None = None
    for _, kind, word in words(source):
        if kind == "block_begin":
            raise errors.wrong("a template with statements is not an expression")
        if kind == "variable_begin":
            inside = []
        elif kind == "variable_end" and inside is not None:
            text = "".join(inside).strip()
            yield text if _is_plain(text) else f"({text})"
            inside = None
        elif inside is not None:
            inside.append(word)
        elif kind == "data" and word:
            yield repr(word)


def _is_plain(text: str) -> bool:
    """Return whether an expression needs no brackets before an attribute."""
    return text.replace(".", "").replace("_", "").isalnum() and text.isascii()
