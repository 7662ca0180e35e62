"""Names of a playbook of the dialect: definitions, reads, canonical names."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping

import msgspec

from noetl.dialects.legacy.nodes import each_text, texts_of
from noetl.dialects.template_rewrite import Attributes, names_in, rename
from noetl.dsl.node import Location, Node
from noetl.dsl.template_scopes import NAMESPACES
from noetl.templates import is_template


def free_names(code: str) -> frozenset[str]:
    """Return the names that are read and never assigned; none for invalid code."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    read: set[str] = set()
    bound: set[str] = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return frozenset(read - bound)


_BLOCKS = ("case", "retry", "poll", "sink", "vars", "set_vars", "args")
_MODES = ("case_mode", "eval_mode", "next_policy", "branch_order")
_ON_TASKS = ("retry", "poll", "sink", "vars", "set_vars")
CONTROL = frozenset({"next"})
"""Names of a chain's entries that are not tasks."""

Resolved = tuple[str, int] | None


class Book(msgspec.Struct):
    """Playbook; ``tasks`` are the names of then-tasks by step, ``looped`` the steps
    with a loop.

    ``reads`` has each name with the first key that is read from it, if any.
    """

    steps: frozenset[str]
    looped: frozenset[str]
    tasks: dict[str, frozenset[str]]
    reads: frozenset[tuple[str, str | None]]
    given: frozenset[str]
    vars: bool

    def reads_data(self, step: str) -> bool:
        return (step, "data") in self.reads or (step, None) in self.reads

    def reads_result(self, task: str, step: str) -> bool:
        """Return whether another step reads a task's result."""
        elsewhere = {(task, "result"), (task, None)} & self.reads
        return bool(elsewhere)

    def elsewhere(self, name: str, attributes: Attributes, step: str) -> Resolved:
        """Return the canonical expression for a name of another step."""
        if name in NAMESPACES:
            return None
        if name == "vars":
            if self.vars:
                merged = "workload.vars | combine(ctx.vars | default({}))"
                return f"({merged})", 0
            return "ctx.vars", 0
        if name in self.steps and attributes[:1] == ("data",):
            root = "args" if name in self.looped else "ctx"
            data = f"{root}.{name}.data"
            if attributes[1:2] == ("result",):
                inside = f"{data}.result if {data}.result is defined else {data}"
                return f"({inside})", 2
            return data, 1
        if attributes[:1] == ("result",) and any(
            name in tasks for tasks in self.tasks.values()
        ):
            return f"ctx.{name}.result", 1
        return None

    @property
    def known(self) -> frozenset[str]:
        """Names that python code may expect, because the playbook can define them."""
        named = {name for tasks in self.tasks.values() for name in tasks}
        return self.given | self.steps | named | {"vars"}


def read_book(root: Node) -> Book:
    workflow = root.entries.get("workflow")
    steps: set[str] = set()
    looped: set[str] = set()
    tasks: dict[str, frozenset[str]] = {}
    given: set[str] = set()
    for node in workflow.items if workflow is not None else ():
        name = node.entries.get("step")
        if name is None or not isinstance(name.value, str):
            continue
        steps.add(name.value)
        if "loop" in node.entries:
            looped.add(name.value)
        tasks[name.value] = frozenset(_task_names(node))
        given.update(_given(node))
    workload = root.entries.get("workload")
    given.update(workload.entries if workload is not None else ())
    return Book(
        frozenset(steps),
        frozenset(looped),
        tasks,
        frozenset(_reads(workflow)) if workflow is not None else frozenset(),
        frozenset(given),
        "vars" in root.entries,
    )


def _task_names(step: Node) -> Iterator[str]:
    case = step.entries.get("case")
    for branch in case.items if case is not None else ():
        for key in ("then", "else"):
            chain = branch.entries.get(key)
            for entry in _entries(chain):
                yield from (name for name in entry.entries if name not in CONTROL)


def _entries(chain: Node | None) -> list[Node]:
    if chain is None:
        return []
    return chain.items if chain.is_sequence else [chain]


def _given(node: Node) -> Iterator[str]:
    """Yield the keys of every ``with`` and ``args`` below: arguments of tokens."""
    for key, child in node.entries.items():
        if key in ("with", "args"):
            yield from child.entries
        yield from _given(child)
    for child in node.items:
        yield from _given(child)


def _reads(node: Node) -> Iterator[tuple[str, str | None]]:
    for text in texts_of(node):
        for name in names_in(text):
            yield name.text, name.attributes[0] if name.attributes else None
    yield from ((name, None) for name in _read_by_code(node))


def _read_by_code(node: Node) -> Iterator[str]:
    for key, child in node.entries.items():
        if key == "code" and isinstance(child.value, str):
            yield from free_names(child.value)
        yield from _read_by_code(child)
    for child in node.items:
        yield from _read_by_code(child)


def is_legacy(step: Location) -> bool:
    """Return whether the whole step is written in the dialect (S-66)."""
    spec, loop = step.get("spec"), step.get("loop")
    modes = (*_MODES, "on_error", "set_vars")
    return (
        any(key in step for key in _BLOCKS)
        or (spec is not None and any(key in spec for key in modes))
        or (loop is not None and ("collection" in loop or "element" in loop))
        or _has_legacy_tool(step.get("tool"))
    )


def _has_legacy_tool(tool: Location | None) -> bool:
    if tool is None:
        return False
    if tool.node.is_mapping and "kind" in tool:
        return any(key in tool for key in _ON_TASKS)
    return any(_has_legacy_tool(child) for child in tool.children())


class Spelling(msgspec.Struct):
    """Meaning of names at one location of a step.

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
        """Return a task's own mapping; python code is unchanged (S-34)."""
        spelled = self.tree(node)
        if "code" in node.entries:
            spelled.value["code"] = node.entries["code"]
        return spelled

    def expression(self, value: str | bool) -> str:
        """Return the expression between the braces of a condition."""
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
