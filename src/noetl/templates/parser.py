"""Jinja2's parser, without Jinja2's runtime: text in, syntax tree out."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.lexer import Lexer, Token, TokenStream
from jinja2.parser import Parser

from noetl.errors import TemplateError
from noetl.templates import faults, limits
from noetl.templates.tokens import QuickStream, tokenize


class _Grammar(Environment):
    """Jinja2's syntax with its defaults; nothing of it is ever run."""

    def _tokenize(
        self,
        source: str,
        name: str | None,
        filename: str | None = None,
        state: str | None = None,
    ) -> TokenStream:
        return QuickStream((), name, filename)  # the parser below brings its own


class _Parser(Parser):
    """Jinja2's parser, reading tokens that are made and checked beforehand."""

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(_grammar(), "")
        self.stream = QuickStream(tokens, None, None)


@cache
def _grammar() -> _Grammar:
    return _Grammar(keep_trailing_newline=True)


def lexer() -> Lexer:
    """Jinja2's own, for who works on the text of templates."""
    return _grammar().lexer


def parse(source: str) -> tuple[nodes.Template, bool]:
    """The tree of ``source``, and whether it has ``{% statements %}``."""
    _check_source(source)
    try:
        tokens = tokenize(source, _grammar().lexer)
        # Parser.parse would walk the tree once more to note the environment in it.
        tree = nodes.Template(_Parser(tokens).subparse(), lineno=1)
    except TemplateError:
        raise
    except TemplateSyntaxError as error:
        raise faults.wrong(_sentence(error, source)) from None
    except RecursionError:
        raise faults.too_deep() from None
    except Exception as error:
        raise faults.translate(error, "not a valid template") from None
    return tree, any(token[1] == "block_begin" for token in tokens)


def words(source: str) -> list[tuple[int, str, str]]:
    """The lexer's own tokens, white space and comments included: line, type, text."""
    return list(_grammar().lexer.tokeniter(source, None))


def _check_source(source: str) -> None:
    size = len(source)
    if not source.isascii():
        try:
            size = len(source.encode())
        except UnicodeEncodeError:
            raise faults.wrong(
                "the template is not valid Unicode: it contains half of a surrogate "
                "pair"
            ) from None
    if size > limits.SOURCE_BYTES:
        raise faults.too_much(
            f"the template is too long: {size:,} bytes, at most "
            f"{limits.SOURCE_BYTES:,}; move the work to a python task"
        )


def _sentence(error: TemplateSyntaxError, source: str) -> str:
    message = (error.message or "it cannot be read").rstrip(".")
    place = f"line {error.lineno}: " if "\n" in source.strip() else ""
    return f"not a valid template: {place}{message}"
