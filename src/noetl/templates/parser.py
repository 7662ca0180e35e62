"""Parser of Jinja2 without its runtime: text in, syntax tree out.

A fast scanner, with limits, handles text and ``{{ expressions }}`` in ASCII. Everything
else (statements, comments, escapes, white space control, unusual numbers, errors) is
left to the lexer of Jinja2, so that the language has one definition.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.lexer import Lexer, Token, TokenStream, operators
from jinja2.parser import Parser

from noetl.errors import TemplateError
from noetl.templates import errors, limits


class _Grammar(Environment):
    """Environment of Jinja2 with default syntax; it never renders."""

    def _tokenize(
        self,
        source: str,
        name: str | None,
        filename: str | None = None,
        state: str | None = None,
    ) -> TokenStream:
        return QuickStream((), name, filename)  # the parser below has its own


class _Parser(Parser):
    """Parser of Jinja2 that reads tokens made and checked beforehand."""

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(_grammar(), "")
        self.stream = QuickStream(tokens, None, None)


@cache
def _grammar() -> _Grammar:
    return _Grammar(keep_trailing_newline=True)


def lexer() -> Lexer:
    """Return the lexer of Jinja2, for code that edits the text of templates."""
    return _grammar().lexer


def parse(source: str) -> tuple[nodes.Template, bool]:
    """Return the tree of ``source``, and whether it has ``{% statements %}``."""
    _check_source(source)
    try:
        tokens = tokenize(source, _grammar().lexer)
        # Parser.parse would walk the tree once more to set the environment.
        tree = nodes.Template(_Parser(tokens).subparse(), lineno=1)
    except TemplateError:
        raise
    except TemplateSyntaxError as error:
        raise errors.wrong(_sentence(error, source), _hint(source)) from None
    except RecursionError:
        raise errors.too_deep() from None
    except Exception as error:
        raise errors.translate(error, "not a valid template") from None
    return tree, any(token[1] == "block_begin" for token in tokens)


def words(source: str) -> list[tuple[int, str, str]]:
    """Return the lexer's tokens with white space and comments: line, type, text."""
    return list(_grammar().lexer.tokeniter(source, None))


def _check_source(source: str) -> None:
    size = len(source)
    if not source.isascii():
        try:
            size = len(source.encode())
        except UnicodeEncodeError:
            raise errors.wrong(
                "the template is not valid Unicode: it contains half of a surrogate "
                "pair"
            ) from None
    if size > limits.SOURCE_BYTES:
        raise errors.too_much(
            f"the template is too long: {size:,} bytes, at most "
            f"{limits.SOURCE_BYTES:,}; move the work to a python task"
        )


_GO = re.compile(r"\{\{-?\s*(?:(?:if|range|with|end|else|index|printf)\b|[.$])")


def _hint(source: str) -> str | None:
    """Return the hint for a template of the Go language."""
    if not _GO.search(source):
        return None
    return (
        "this is a template of Go: write {{ workload.name }}, without a dot before it"
    )


def _sentence(error: TemplateSyntaxError, source: str) -> str:
    message = (error.message or "it cannot be read").rstrip(".")
    place = f"line {error.lineno}: " if "\n" in source.strip() else ""
    return f"not a valid template: {place}{message}"


# -- tokens -----------------------------------------------------------------------


_SCAN = re.compile(
    r"""[ \t\n]*(?:
      (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<string>'[^'\\]*'|"[^"\\]*")
    | (?P<float>(?<!\.)[0-9]+\.[0-9]+(?![\w.]))
    | (?P<integer>(?:0|[1-9][0-9]{0,99})(?![\w.]))
    | (?P<operator>\*\*|//|==|!=|>=|<=|-(?!\}\})|[-+/*%~\[\](){}<>=.:|,;])
    )""",
    re.VERBOSE,
)
_PAIRS = {")": "(", "]": "[", "}": "{"}
_UNUSUAL = re.compile(r"\{[%#]|\{\{[-+]|-\}\}|\r")

_NO_SUCH_TAG = {
    "macro": "write the expression where it is needed",
    "call": "write the expression where it is needed",
    "import": "a template stands alone",
    "from": "a template stands alone",
    "include": "a template stands alone",
    "extends": "a template stands alone",
    "block": "a template stands alone",
    "filter": "use {{ value | filter }}",
    "with": "use {% set name = value %}",
    "autoescape": "nothing is escaped; use the filter that the target needs",
    "do": "templates change nothing; use {% set name = value %}",
    "break": "filter the loop: {% for x in list if condition %}",
    "continue": "filter the loop: {% for x in list if condition %}",
    "trans": "templates are not translated",
    "debug": "use {{ value | tojson }}",
}


class QuickToken(Token):
    """Token that answers the parser's most frequent test without splitting strings."""

    __slots__ = ()

    def test(self, expr: str) -> bool:
        if self[1] == expr:
            return True
        return expr[:5] == "name:" and self[1] == "name" and expr[5:] == self[2]


class QuickStream(TokenStream):
    """Token stream that tests for a keyword only at a name."""

    def skip_if(self, expr: str) -> bool:
        if expr[:5] == "name:" and self.current[1] != "name":
            return False
        return super().skip_if(expr)


def tokenize(source: str, lexer: Lexer) -> list[Token]:
    """Return all tokens of ``source``, checked against the limits of the parser."""
    tokens = None if _UNUSUAL.search(source) else _scan(source)
    if tokens is None:
        tokens = list(lexer.wrap(lexer.tokeniter(source, None)))
        _refuse_tags(tokens)
    if len(tokens) > limits.BRACKETS:
        _check_depth(tokens)
    return tokens


def _scan(source: str) -> list[Token] | None:
    """Return the tokens of text with plain expressions; None for any other text."""
    tokens: list[Token] = []
    position = 0
    line = 1
    while (start := source.find("{{", position)) >= 0:
        if start > position:
            text = source[position:start]
            tokens.append(_token(line, "data", text))
            line += text.count("\n")
        end = _scan_expression(source, start, line, tokens)
        if end is None:
            return None
        line += source.count("\n", start, end)
        position = end
    if position < len(source):
        tokens.append(_token(line, "data", source[position:]))
    return tokens


def _scan_expression(
    source: str, start: int, line: int, tokens: list[Token]
) -> int | None:
    """Append the tokens of the expression at ``start``; return its end."""
    several_lines = "\n" in source
    open_brackets: list[str] = []
    tokens.append(_token(line, "variable_begin", "{{"))
    scan = _SCAN.match
    position = start + 2
    while found := scan(source, position):
        kind = found.lastgroup
        begin, end = found.span(kind or 0)
        word = source[begin:end]
        if several_lines:
            line += source.count("\n", position, begin)
        if kind == "name":
            tokens.append(_token(line, "name", word))
        elif kind == "operator":
            if word == "}" and not open_brackets:
                if source.startswith("}}", begin):
                    tokens.append(_token(line, "variable_end", "}}"))
                    return begin + 2
                return None
            if word in "([{":
                open_brackets.append(word)
            elif word in _PAIRS and (
                not open_brackets or open_brackets.pop() != _PAIRS[word]
            ):
                return None
            tokens.append(_token(line, operators[word], word))
        elif kind == "string":
            tokens.append(_token(line, "string", word[1:-1]))
            if several_lines:
                line += word.count("\n")
        elif kind == "integer":
            tokens.append(_token(line, "integer", int(word)))
        else:
            tokens.append(_token(line, "float", float(word)))
        position = end
    return None


def _token(line: int, kind: str, value: object) -> Token:
    # Jinja2 declares value as str, but stores numbers in it.
    return tuple.__new__(QuickToken, (line, kind, value))


def _refuse_tags(tokens: list[Token]) -> None:
    for here, following in pairwise(tokens):
        if here.type == "block_begin" and following.value in _NO_SUCH_TAG:
            tag = following.value
            raise errors.forbidden(
                f"{{% {tag} %}} is not available in templates; {_NO_SUCH_TAG[tag]}"
            )


def _check_depth(tokens: list[Token]) -> None:
    """Reject a template that would take Jinja2's recursive parser too deep.

    It recurses at brackets, at each sign or ``not`` of a run of them, at ``else`` and
    at nested statements; each bracket stores the depth to return to.
    """
    depth = run = statements = 0
    outside: list[int] = []
    previous = ""
    for _, kind, value in tokens:
        if kind in ("sub", "add") or (kind == "name" and value == "not"):
            run += 1
        elif kind in ("lparen", "lbracket", "lbrace"):
            outside.append(depth)
            depth += run
            run = 0
        else:
            run = 0
            if kind in ("rparen", "rbracket", "rbrace"):
                depth = outside.pop() if outside else 0
            elif kind == "name" and value == "else":
                depth += 1
            elif kind in ("variable_begin", "block_begin"):
                depth = 0
                outside.clear()
            if previous == "block_begin":
                statements += {"if": 1, "for": 1, "endif": -1, "endfor": -1}.get(
                    str(value), 0
                )
        previous = kind
        if (
            len(outside) > limits.BRACKETS
            or depth + run + len(outside) > limits.DEPTH
            or statements > limits.BRACKETS
        ):
            raise errors.too_deep()
    if len(tokens) > limits.TOKENS:
        raise errors.too_much(
            f"the template has {len(tokens):,} words and signs, more than "
            f"{limits.TOKENS:,}; move the work to a python task"
        )
