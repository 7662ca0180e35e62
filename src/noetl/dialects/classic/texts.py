"""Names in templates: which are read, and which canonical ones replace them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from noetl.dialects.classic.nodes import listed, mapping
from noetl.dialects.classic.uses import Uses
from noetl.dsl.node import Node, shorten
from noetl.dsl.place import Place
from noetl.errors import TemplateError
from noetl.templates import compile_template, is_template
from noetl.templates.substitution import Names, substitute

LITERAL = frozenset({"code", "step", "desc", "kind"})
"""Keys whose text is not rendered."""

EVENTS = {"call.done": "step.done", "call.error": "step.failed"}


class Vocabulary(msgspec.Struct, frozen=True):
    """``names`` are replaced; ``said`` is what the author is told of others, which
    resolve as they are; ``texts`` are literals that stand beside an event."""

    names: Names = msgspec.field(default_factory=dict)
    said: Mapping[str, str] = msgspec.field(default_factory=dict)
    texts: Mapping[str, str] = msgspec.field(default_factory=dict)


def references(at: Place) -> Iterator[tuple[Place, tuple[str, ...]]]:
    """Every name that a template below reads; broken templates read nothing."""
    for leaf in _templates(at):
        try:
            template = compile_template(leaf.node.value)
        except TemplateError:
            continue
        for reference in template.references:
            yield leaf, reference.path


def _templates(at: Place) -> Iterator[Place]:
    stack = [at]
    while stack:
        here = stack.pop()
        value = here.node.value
        if isinstance(value, str):
            if is_template(value):
                yield here
        elif isinstance(value, dict):
            stack.extend(here[key] for key in value if key not in LITERAL)
        elif isinstance(value, list):
            stack.extend(here.children())


def translate(at: Place, words: Vocabulary, uses: Uses) -> Node:
    """The node with canonical names in all its templates."""
    value = at.node.value
    if isinstance(value, dict):
        entries = {
            key: child if key in LITERAL else translate(at[key], words, uses)
            for key, child in value.items()
        }
        return mapping(entries, at.node)
    if isinstance(value, list):
        return listed([translate(each, words, uses) for each in at.children()], at.node)
    if isinstance(value, str) and is_template(value):
        return _translate_text(at, value, words, uses)
    return at.node


def _translate_text(at: Place, text: str, words: Vocabulary, uses: Uses) -> Node:
    try:
        paths = {each.path for each in compile_template(text).references}
    except TemplateError:
        return at.node  # the grammar says what is wrong with it
    for name in sorted({path[0] for path in paths} & words.said.keys()):
        uses.accept(at, f"the result of step '{name}' by its name", words.said[name])
    names = {
        path: canonical
        for path, canonical in words.names.items()
        if any(each[: len(path)] == path for each in paths)
    }
    about_event = any(path[0] == "event" for path in paths)
    texts = {
        old: new
        for old, new in words.texts.items()
        if about_event and (f"'{old}'" in text or f'"{old}"' in text)
    }
    if not names and not texts:
        return at.node
    try:
        found = substitute(text, names, texts)
    except TemplateError as error:
        uses.refuse(at, error.message, f"rewrite it: {shorten(text)}")
        return at.node
    for path, canonical in names.items():
        if path[0] not in words.said:
            uses.accept(at, f"'{'.'.join(path)}'", canonical)
    for old, new in texts.items():
        uses.accept(at, f"the event '{old}'", f"'{new}'")
    return Node(found, at.node.line, at.node.column)
