"""Names in templates: those read, and their canonical replacements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from noetl.dialects.classic.task import Uses, listed, mapping, text_of
from noetl.dialects.template_rewrite import Names, expression_of, substitute
from noetl.dsl.node import Location, Node, shorten
from noetl.errors import TemplateError
from noetl.templates import compile_template, is_template

_LITERAL = frozenset({"code", "desc", "kind"})


def literal_keys(value: Mapping[str, Node]) -> frozenset[str]:
    """Return the keys of a task, a step or an arc whose text is not rendered."""
    if "kind" in value and isinstance(value["kind"].value, str):
        return _LITERAL
    return frozenset({"step", "desc"}) if "step" in value else frozenset()


_CONDITION = re.compile(r"\b(if|and|or|not)\b")
_ALL = re.compile(r"\s*\{\{-?\s*\w+\s*-?\}\}\s*")
_EVENT = re.compile(r"(?<![.\w])event\b")
EVENTS = {"call.done": "step.done", "call.error": "step.failed"}


class Vocabulary(msgspec.Struct, frozen=True):
    """Names of the dialect. ``names`` are replaced; ``said`` are warnings about
    names that resolve unchanged; ``texts`` are literals compared with an event.
    ``wholes`` replace a name that is all of a template. ``kind`` is that of the task
    whose outcome is read; ``unsure`` are steps that may not have run, whose names are
    null then."""

    names: Names = msgspec.field(default_factory=dict)
    said: Mapping[str, str] = msgspec.field(default_factory=dict)
    texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    wholes: Mapping[str, str] = msgspec.field(default_factory=dict)
    kind: str = ""
    unsure: frozenset[str] = frozenset()

    def over(self, names: Names, kind: str = "") -> Vocabulary:
        """Return the vocabulary with more names, which win."""
        kept = {
            path: each for path, each in self.names.items() if path[:1] not in names
        }
        said = {name: each for name, each in self.said.items() if (name,) not in names}
        wholes = {
            name: each for name, each in self.wholes.items() if (name,) not in names
        }
        unsure = frozenset(name for name in self.unsure if (name,) not in names)
        return Vocabulary({**kept, **names}, said, self.texts, wholes, kind, unsure)

    def without(self, name: str) -> Vocabulary:
        """Return the vocabulary in which this name has no meaning of its own."""
        kept = self.over({(name,): name})
        names = {path: each for path, each in kept.names.items() if path != (name,)}
        return msgspec.structs.replace(kept, names=names)


def references(at: Location) -> Iterator[tuple[Location, tuple[str, ...]]]:
    """Yield every name that a template below reads; broken templates read nothing."""
    for leaf in templates_in(at):
        try:
            template = compile_template(leaf.node.value)
        except TemplateError:
            continue
        for reference in template.references:
            yield leaf, reference.path


def templates_in(at: Location) -> Iterator[Location]:
    stack = [at]
    while stack:
        here = stack.pop()
        value = here.node.value
        if isinstance(value, str):
            if is_template(value):
                yield here
        elif isinstance(value, dict):
            literal = literal_keys(value)
            stack.extend(here[key] for key in value if key not in literal)
        elif isinstance(value, list):
            stack.extend(here.children())


def translate(at: Location, words: Vocabulary, uses: Uses) -> Node:
    """Return the node with canonical names in all its templates."""
    value = at.node.value
    if isinstance(value, dict):
        literal = literal_keys(value)
        entries = {
            key: child if key in literal else _translate_entry(at, key, words, uses)
            for key, child in value.items()
        }
        return mapping(entries, at.node)
    if isinstance(value, list):
        return listed([translate(each, words, uses) for each in at.children()], at.node)
    if isinstance(value, str) and is_template(value):
        return _translate_text(at, value, words, uses)
    return at.node


def _translate_entry(at: Location, key: str, words: Vocabulary, uses: Uses) -> Node:
    if key == "when" and words.unsure:  # an undefined name is false there
        words = msgspec.structs.replace(words, unsure=frozenset())
    return translate(at[key], words, uses)


def _used(names: Names, paths: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Return the names that are replaced: the longest for each path that is read."""
    found = set()
    for path in paths:
        fits = [each for each in names if path[: len(each)] == each]
        found |= {max(fits, key=len)} if fits else set()
    return found


def _or_null(text: str) -> str:
    """Return the template with null in place of an undefined value."""
    expression = expression_of(text)
    if "{{" in expression or not text.strip().startswith("{{"):
        return text
    if expression.startswith("(") and " ~ " in expression:
        return text  # a text of several parts: an undefined one is empty
    return f"{{{{ {expression} | default(none) }}}}"


def _may_be_null(path: tuple[str, ...]) -> str:
    """Return the name of a step, or a member of its result, or null."""
    return f"({'.'.join(path)} | default(none))"


def _more_names(
    text: str, paths: set[tuple[str, ...]], words: Vocabulary
) -> dict[tuple[str, ...], str]:
    """Return the names whose replacement depends on the rest of the template."""
    found: dict[tuple[str, ...], str] = {}
    for path in paths:
        member = fitting(words.names, path)
        if member is not None:
            found[path[:2]] = member
    for path, expression in kinds_of_errors(text, words.kind).items():
        if any(each[:3] == path for each in paths):
            found[path] = expression
    for name, expression in words.wholes.items():
        if paths == {(name,)} and _ALL.fullmatch(text):
            found[name,] = expression
    return found


def _translate_text(at: Location, text: str, words: Vocabulary, uses: Uses) -> Node:
    try:
        paths = {each.path for each in compile_template(text).references}
    except TemplateError:
        return at.node  # the grammar reports the problem
    for name in sorted({path[0] for path in paths} & words.said.keys()):
        uses.accept(at, f"the result of step '{name}' by its name", words.said[name])
    names = {
        path: canonical
        for path, canonical in words.names.items()
        if any(each[: len(path)] == path for each in paths)
    }
    names |= _more_names(text, paths, words)
    read = [".".join(path) for path in paths] + list(names.values())
    about_event = any(_EVENT.search(each) for each in read)
    texts = {
        old: new
        for old, new in words.texts.items()
        if about_event and (f"'{old}'" in text or f'"{old}"' in text)
    }
    unsure = {path for path in paths if path[0] in words.unsure}
    is_unsure = bool(unsure)
    if _CONDITION.search(text):
        names |= {path: _may_be_null(path) for path in unsure - names.keys()}
    if not names and not texts and not is_unsure:
        return at.node
    try:
        found = substitute(text, names, texts) if names or texts else text
        if is_unsure:
            found = _or_null(found)
    except TemplateError as error:
        uses.refuse(at, error.message, f"rewrite it: {shorten(text)}")
        return at.node
    for path in sorted(_used(names, paths) - unsure):
        if path[0] not in words.said:
            uses.accept(at, f"'{'.'.join(path)}'", names[path])
    for old, new in texts.items():
        uses.accept(at, f"the event '{old}'", f"'{new}'")
    return Node(found, at.node.line, at.node.column)


_OLDER_KINDS = ("server_error", "client_error", "rate_limit", "auth")
"""Kinds of errors of a request that have another name, or are told by the status."""

_KIND = (
    "('rate_limit' if {0}.http.status == 429"
    " else 'auth' if {0}.http.status in [401, 403]"
    " else 'server_error' if {0}.error.kind == 'http.server'"
    " else 'client_error' if {0}.error.kind == 'http.client'"
    " else {0}.error.kind)"
)


class Labelled(msgspec.Struct, frozen=True):
    """Task of a step: its label, its kind, and its body."""

    label: str
    kind: str
    body: Location

    @property
    def result(self) -> str:
        return f"_outcomes.{self.label}.result"


def labelled(tool: Location | None) -> list[Labelled]:
    """Return the tasks of a pipeline with the labels that they will have."""
    if tool is None:
        return []
    places = tool.children() if tool.node.is_sequence else iter([tool])
    found: list[Labelled] = []
    for number, at in enumerate(places, start=1):
        if "kind" in at:
            name = text_of(at.node.entries.get("name"))
            kind = text_of(at.node.entries["kind"]) or ""
            own = name is not None and kind not in ("workbook", "secrets")
            found.append(Labelled(str(name) if own else f"task_{number}", kind, at))
        elif "tool" in at and "kind" in at["tool"]:
            kind = text_of(at["tool"].node.entries["kind"]) or ""
            name = text_of(at.node.entries.get("name")) or f"task_{number}"
            found.append(Labelled(name, kind, at))
        else:
            for label, body in at.node.entries.items():
                kind = text_of(body.entries.get("kind")) or ""
                found.append(Labelled(label, kind, at[label]))
    return found


def names_of_tasks(tasks: Iterable[Labelled], taken: set[str]) -> Names:
    """Return the results of tasks of the same step, by label."""
    found: dict[tuple[str, ...], str] = {}
    for task in tasks:
        if task.label in taken or not task.label.isidentifier():
            continue
        found[task.label,] = task.result
        if task.kind != "http":
            alias = f"({task.result}.data | default({task.result}))"
            found[task.label, "data"] = alias
    return found


def output_of(source: str, kind: str) -> Names:
    """Return the members of ``output``, where ``source`` is an outcome."""
    data = f"{source}.result.data" if kind == "http" else f"{source}.result"
    whole = f"'status': {source}.status, 'data': {data}, 'error': {source}.error"
    found: dict[tuple[str, ...], str] = {("output",): f"{{{whole}}}"}
    for member in ("data", "response", "body", "ref"):
        found["output", member] = data
    for member in ("status", "error", "result", "http", "pg", "py", "meta"):
        found["output", member] = f"{source}.{member}"
    return found


def output_of_step(own: str, kind: str) -> Names:
    """Return the members of ``output`` in the arcs of a step."""
    data = f"{own}.data" if kind == "http" else own
    status = "('error' if event.name == 'step.failed' else 'ok')"
    whole = f"'status': {status}, 'data': {data}, 'error': event.payload.error"
    found: dict[tuple[str, ...], str] = {
        ("output",): f"{{{whole}}}",
        ("output", "status"): status,
        ("output", "error"): "event.payload.error",
        ("output", "result"): own,
    }
    for member in ("data", "response", "body", "ref"):
        found["output", member] = data
    return found


def kinds_of_errors(text: str, kind: str) -> dict[tuple[str, ...], str]:
    """Return what ``error.kind`` of a request stands for, if an older kind is read."""
    older = any(f"'{each}'" in text or f'"{each}"' in text for each in _OLDER_KINDS)
    if kind != "http" or not older or "'http.server'" in text:
        return {}
    expression = _KIND.format("outcome")
    return {
        ("outcome", "error", "kind"): expression,
        ("output", "error", "kind"): expression,
    }


def visible(tasks: list[Labelled], place: int) -> list[Labelled]:
    """Return the tasks that may have run before the one at ``place``."""
    return [*tasks[:place], *tasks[place + 1 :]] if _jumps(tasks) else tasks[:place]


def _jumps(tasks: Iterable[Labelled]) -> bool:
    stack: list[Node] = [task.body.node for task in tasks]
    while stack:
        node = stack.pop()
        if text_of(node.entries.get("do")) == "jump":
            return True
        stack.extend(node.entries.values())
        stack.extend(node.items)
    return False


def fitting(names: Mapping[tuple[str, ...], str], path: tuple[str, ...]) -> str | None:
    """Return the replacement of a member of ``output`` that has no name of its own: a
    member of its data."""
    if path[0] != "output" or len(path) < 2 or path[:2] in names:
        return None
    data = names.get(("output", "data"))
    return None if data is None else f"{data}.{path[1]}"
