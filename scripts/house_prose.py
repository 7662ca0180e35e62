"""Finds banned idioms in the docstrings, comments and string constants of a module."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

# The one list of banned idioms. A docstring starts with a verb or a noun, and the
# subject of a sentence is a named thing; each idiom breaks one of these two rules. The
# lookarounds keep ordinary English out.
IDIOMS = {
    # "What is queued of an execution": a relative clause in the place of a noun. A
    # comment may begin with the row that it obeys: "S-18: what is over".
    "opening": re.compile(
        r"\A(?:[A-Z]+-\d+: )?(?:What|Which|Where|Who|Whose|Whom|How|Of|Whether)\b"
        r"|\A[A-Z]+-\d+: (?:what|which|where|who|whose|whom|how|of|whether)\b"
    ),
    # "Except of what somebody asked for", "; of which nothing is left": the same clause
    # inside a text, at the start of a sentence or of a part of it.
    "of what": re.compile(r"[.;:]\s+[Oo]f (?:what|which|whom)\b"),
    # "Let in whoever has the token": name the caller, the worker, the process.
    "whoever": re.compile(r"\bwho(?:m|se)?ever\b", re.I),
    # "until somebody resumes it": the same with other pronouns.
    # "'nobody'" in quotes is a name, such as the account of Unix.
    "somebody": re.compile(r"(?<!['\"`])\b(?:some|no|any|every)body\b", re.I),
    # "'x' is no address" for "is not an address". "There is no address" and "is no
    # longer" are ordinary English.
    "is no": re.compile(
        r"(?<!\bthere )\b(?:is|are|was|were) no "
        r"(?!longer\b|more\b|less\b|fewer\b|other\b|one\b|or\b)",
        re.I,
    ),
    # "Of what is over" for "finished". "It is over the limit" compares.
    "is over": re.compile(
        r"\b(?:is|are|was|were|be|been) over\b"
        r"(?! (?:a|an|the|its|this|that|these|all|each|every|HTTPS?|TCP|TLS|\d\S*)\b)",
        re.I,
    ),
    # "what is under way" for "running".
    "under way": re.compile(r"\bunder way\b", re.I),
    # "it is a worker with free slots meanwhile" for "while it waits".
    "meanwhile": re.compile(r"\bmeanwhile\b", re.I),
    # "after so many seconds" for "after this number of seconds". "So many bits that a
    # guess fails" is ordinary English.
    "so many": re.compile(r"\bso many\b(?! (?:\w+ ){0,3}that\b)", re.I),
    # "starts executions by itself" for "automatically".
    "by itself": re.compile(r"\bby (?:itself|themselves)\b", re.I),
    # "the parent is told": a program notifies, returns, receives. "tell" and "say" stay
    # allowed, for "tell one from another" and "the log says" are ordinary English.
    "told": re.compile(r"\b(?:told|hears?|heard)\b", re.I),
}
# Those that readers of messages, help and metrics meet.
IN_STRINGS = ("whoever", "somebody", "is no")
# Words that name neither the subject nor the behaviour, in names of tests.
NAME_WORDS = re.compile(
    r"_(?:who(?:m|se)?ever|(?:some|no|any|every)body|neither|strangers?|told|hears?"
    r"|heard|people|desk|bell|doorbells?|crew|staff|roll|shelf|shelves|postbox"
    r"|doors?)(?=_|$)"
    r"|(?<!_there)_(?:is|are|was|were)_no_(?!longer(?:_|$)|more(?:_|$))"
)
PRAGMA = re.compile(r"(?:noqa|type: ignore|pragma|fmt:|mypy:|!)")


class Text(NamedTuple):
    """One docstring, block of comments or string constant, on one line."""

    line: int
    kind: str  # "docstring", "comment" or "string"
    text: str

    def idioms(self) -> list[str]:
        """Return the names of the idioms in it. A string of one word is not prose."""
        names = IN_STRINGS if self.kind == "string" else IDIOMS
        if self.kind == "string" and " " not in self.text:
            return []
        return [name for name in names if IDIOMS[name].search(self.text)]


def find_test_names(tree: ast.Module) -> list[tuple[int, str]]:
    """Return line and name of the tests whose name has a banned word."""
    return [
        (node.lineno, node.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and NAME_WORDS.search(node.name)
    ]


def read_texts(source: str, tree: ast.Module) -> list[Text]:
    """Return all texts of a module; ``tree`` is its parsed ``source``."""
    return sorted([*_strings(tree), *_comments(source)])


def _strings(tree: ast.Module) -> Iterator[Text]:
    """Yield docstrings, also those of attributes, and all other string constants.

    An f-string is one text, with ``{}`` for each value.
    """
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Expr) and _constant(node.value) is not None:
            yield _text(node.lineno, "docstring", _constant(node.value) or "")
        elif isinstance(node, ast.JoinedStr):
            parts = [_constant(part) or "{}" for part in node.values]
            yield _text(node.lineno, "string", "".join(parts))
            formatted = [p for p in node.values if isinstance(p, ast.FormattedValue)]
            waiting.extend(part.value for part in formatted)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield _text(node.lineno, "string", node.value)
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _constant(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def _comments(source: str) -> Iterator[Text]:
    """Yield comments; adjacent whole lines are one text."""
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        (line, column), text = token.start, token.string.lstrip("#").strip()
        if PRAGMA.match(text) or not text:
            continue
        is_alone = not token.line[:column].strip()
        if block and is_alone and line == last + 1:
            block.append(text)
        else:
            if block:
                yield _text(first, "comment", " ".join(block))
            block, first = [text], line
        last = line if is_alone else 0
    if block:
        yield _text(first, "comment", " ".join(block))


def _text(line: int, kind: str, text: str) -> Text:
    return Text(line, kind, " ".join(text.split()))
