"""Measures how readable the code base is, and fails if a figure is above its bound.

    scripts/house.py [--trace] [--list]

``make check`` calls it without options, which takes some seconds; ``make house`` adds
``--trace``, which runs a playbook and counts the files that one step visits. ``--list``
prints what each figure counts: banned idioms and names of tests by file and line, small
modules, large folders and files, the files of a step.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from house_prose import Text, find_test_names, read_texts

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "noetl"
TESTS = ROOT / "tests"
TRACE = Path(__file__).with_name("house_trace.py")
ORCHESTRATOR = "runtime/orchestrator.py"
SMALL = 45
"""Lines up to which a module with one importer is probably a part of that importer."""
RUNS = 3
"""Traces of each host. The shortest one counts: a timer may be due in the others."""


class Bound(NamedTuple):
    """A figure's bound: above ``most`` the check fails. It may only be lowered, to
    ``target``.
    """

    most: float
    target: float


BOUNDS = {
    "modules": Bound(760, 760),
    "modules in the largest folder": Bound(25, 25),
    "small modules with one importer": Bound(0, 0),
    "lines of the largest file": Bound(400, 400),
    f"lines of {ORCHESTRATOR}": Bound(200, 200),
    "docstrings and comments with a banned idiom, %": Bound(1, 1),
    "messages and other strings with a banned idiom": Bound(0, 0),
    "names of tests with a banned word": Bound(0, 0),
    "files of one step, embedded": Bound(45, 45),
    "changes of file in one step, embedded": Bound(120, 120),
    "files of one step, cluster": Bound(60, 60),
    "changes of file in one step, cluster": Bound(180, 180),
}


class Figure(NamedTuple):
    """One measured number; ``details`` are the lines that ``--list`` prints."""

    name: str
    value: float
    details: list[str]


class Module(NamedTuple):
    """One file of the package; ``path`` is relative to the folder of the package.

    ``imports`` are module and name of what it imports from the package. ``is_verb``
    says that it is a command of ``noetl``; these need not be grouped in folders.
    """

    path: Path
    lines: int
    imports: list[tuple[str, str]]
    is_verb: bool
    texts: list[Text]

    @property
    def name(self) -> str:
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if self.is_package else parts)

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


def read_modules(package: Path) -> list[Module]:
    return [
        read_module(file, file.relative_to(package))
        for file in sorted(package.rglob("*.py"))
    ]


def read_module(file: Path, path: Path) -> Module:
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    return Module(
        path=path,
        lines=len(source.splitlines()),
        imports=list(_imports(tree)),
        is_verb=path.parts[:-1] == ("commands",)
        and any(getattr(node, "name", None) == "command" for node in tree.body),
        texts=read_texts(source, tree),
    )


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import, also of those inside functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            for block in ("body", "orelse", "handlers", "finalbody", "cases"):
                inner = getattr(node, block, [])
                waiting.extend(inner if isinstance(inner, list) else [])
            continue
        for name in names:
            if name.startswith("noetl."):
                parent, _, last = name.removeprefix("noetl").rpartition(".")
                yield parent.lstrip("."), last


def measure_files(modules: list[Module]) -> Iterator[Figure]:
    yield Figure("modules", len(modules), [])
    counted = [each for each in modules if not each.is_package and not each.is_verb]
    folders = Counter(each.path.parent.as_posix() for each in counted)
    yield _largest("modules in the largest folder", folders)
    small = find_small(modules)
    listed = [f"{path}: imported by {importer} alone" for path, importer in small]
    yield Figure("small modules with one importer", len(small), listed)
    lines = Counter({each.path.as_posix(): each.lines for each in modules})
    yield _largest("lines of the largest file", lines)
    if ORCHESTRATOR not in lines:
        sys.exit(f"house: {ORCHESTRATOR} is missing; if it was moved, change its path")
    yield Figure(f"lines of {ORCHESTRATOR}", lines[ORCHESTRATOR], [])


def _largest(name: str, counts: Counter[str]) -> Figure:
    """Return the figure; its details are above the target, or the largest five."""
    ranked = counts.most_common()
    above = [(each, count) for each, count in ranked if count > BOUNDS[name].target]
    listed = [f"{each}: {count}" for each, count in above or ranked[:5]]
    return Figure(name, ranked[0][1], listed)


def find_small(modules: list[Module]) -> list[tuple[Path, str]]:
    """Return small modules that exactly one module imports, and the name of that one.

    A name that a package re-exports counts as imported from where it is defined.
    """
    by_name = {each.name: each for each in modules}
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for parent, name in module.imports:
            for target in _definers(parent, name, by_name):
                importers[target].add(module.name)
    return [
        (each.path, min(importers[each.name]))
        for each in modules
        if each.lines <= SMALL and not each.is_package
        if len(importers[each.name]) == 1
    ]


def _definers(parent: str, name: str, by_name: Mapping[str, Module]) -> Iterator[str]:
    inner = f"{parent}.{name}".lstrip(".")
    if inner in by_name:
        yield inner
    elif parent in by_name:
        yield parent
        if by_name[parent].is_package:
            exported = {each: at for at, each in by_name[parent].imports}
            if name in exported:
                yield exported[name]


def measure_prose(modules: list[Module]) -> Iterator[Figure]:
    prose, strings = Counter[bool](), 0
    listed: dict[bool, list[str]] = {True: [], False: []}
    for module in modules:
        for text in module.texts:
            is_string, idioms = text.kind == "string", text.idioms()
            strings += is_string and bool(idioms)
            prose[bool(idioms)] += not is_string
            if idioms:
                where, why = f"{module.path}:{text.line}", ", ".join(idioms)
                listed[is_string].append(f"{where}: {why}: {text.text[:90]}")
    share = round(100 * prose[True] / max(prose.total(), 1), 1)
    name = "docstrings and comments with a banned idiom, %"
    yield Figure(name, share, listed[False])
    name = "messages and other strings with a banned idiom"
    yield Figure(name, strings, listed[True])


def measure_test_names(tests: Path) -> Figure:
    listed = [
        f"{file.relative_to(tests)}:{line}: {name}"
        for file in sorted(tests.rglob("test_*.py"))
        for line, name in find_test_names(ast.parse(file.read_text(encoding="utf-8")))
    ]
    return Figure("names of tests with a banned word", len(listed), listed)


def measure_step(host: str) -> Iterator[Figure]:
    """Trace one step on a host, each time in a process of its own."""
    command = [sys.executable, str(TRACE), host]
    runs = [json.loads(subprocess.check_output(command)) for _ in range(RUNS)]
    shortest = min(runs, key=lambda run: (len(run["files"]), run["changes"]))
    files: list[str] = shortest["files"]
    yield Figure(f"files of one step, {host}", len(files), files)
    yield Figure(f"changes of file in one step, {host}", shortest["changes"], [])


def measure(
    package: Path = PACKAGE, tests: Path = TESTS, *, trace: bool = False
) -> Iterator[Figure]:
    modules = read_modules(package)
    yield from measure_files(modules)
    yield from measure_prose(modules)
    yield measure_test_names(tests)
    if trace:
        yield from measure_step("embedded")
        yield from measure_step("cluster")


def report(figures: Iterable[Figure], *, details: bool = False) -> int:
    """Print each figure with its bound and target; 1 if one is above its bound."""
    above = []
    print(f"{'':48}{'today':>8}{'bound':>8}{'target':>8}")
    for name, value, listed in figures:
        most, target = BOUNDS[name]
        hint = "  lower the bound" if value < most else ""
        print(f"{name:48}{value:8g}{most:8g}{target:8g}{hint}")
        if details:
            sys.stdout.writelines(f"    {line}\n" for line in listed)
        if value > most:
            above.append(f"house: {name}: {value:g}, expected at most {most:g}")
    if above:
        hint = "house: to see what is counted: .venv/bin/python scripts/house.py --list"
        print(*above, hint, sep="\n", file=sys.stderr)
    return 1 if above else 0


if __name__ == "__main__":
    figures = measure(trace="--trace" in sys.argv)
    sys.exit(report(figures, details="--list" in sys.argv))
