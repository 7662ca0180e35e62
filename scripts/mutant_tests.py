"""Runs tests against mutants: a pytest plug-in that forks a process for each mutant.

Tests and NoETL are imported once. A fork gives the functions of one scope the code of
the mutant and runs the tests that execute its lines, until one fails. A mutant outside
of functions, or in a function that runs during an import, needs a cold fork: one that
imports NoETL and the tests afterwards, with the changed source.
"""

from __future__ import annotations

import ast
import gc
import importlib.machinery
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from mutant_recording import PACKAGE, Lines, Tracer
from mutants import Mutant, Source

OPTIONS = [
    *("-qq", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-summary"),
    *("--assert=plain", "-o", "faulthandler_timeout=0"),
]


def is_excluded(item: pytest.Item) -> bool:
    """Leave out tests that need servers, or time, or other shards of the same."""
    names = getattr(item, "fixturenames", ())
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    words = [each for each in parameters.values() if isinstance(each, str)]
    return bool(
        any(server in name for server in ("nats", "bucket", "s3") for name in names)
        or {"bucket", "s3", "guarded"}.intersection(words)
        or parameters.get("shard", 0) != 0
        or "chunk" in parameters
    )


class Runner:
    """The plug-in: ``job`` runs in the place of the tests, when they are collected."""

    def __init__(self, job: Callable[[Runner], None], tracer: Tracer | None) -> None:
        self._job = job
        self._tracer = tracer
        self.is_done = False
        self.items: dict[str, pytest.Item] = {}
        self.imported: dict[str, Lines] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        if self._tracer is not None:
            self._tracer.start()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._tracer is not None:
            self.imported = self._tracer.stop()
        items[:] = [item for item in items if not is_excluded(item)]
        self.items = {item.nodeid: item for item in items}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Failed("the tests cannot be collected")
        self._job(self)
        self.is_done = True
        return True

    def run(
        self, limits: Mapping[str, float], folder: Path, server: int | None
    ) -> str | None:
        """Run tests until one fails; return its name.

        A test that uses more CPU seconds than its limit ends the process.
        """
        items = [self.items[name] for name in limits if name in self.items]
        if not items:
            return None
        self._own_folder(items[0].config, folder)
        following = [*items[1:], None]
        for item, then in zip(items, following, strict=True):
            _use_server(item, server)
            signal.setitimer(signal.ITIMER_PROF, limits[item.nodeid])
            reports = runtestprotocol(item, log=False, nextitem=then)
            if any(report.failed for report in reports):
                return item.nodeid
        return None

    @staticmethod
    def _own_folder(config: Any, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config._tmp_path_factory._basetemp = folder
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder / "hypothesis")


def _use_server(item: Any, port: int | None) -> None:
    """Let a test use a running PostgreSQL in the place of one that it starts."""
    known = item.session._fixturemanager.getfixturedefs("postgres_server", item)
    for fixture in known if port and known else ():
        fixture.cached_result = (port, None, None)


class Functions:
    """All functions of the process by the place of their code in the source."""

    def __init__(self) -> None:
        gc.unfreeze()
        self._known: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        for each in gc.get_objects():
            if type(each) is FunctionType:
                code = each.__code__
                place = code.co_filename, code.co_qualname, code.co_firstlineno
                self._known[place].append(each)
        gc.collect()
        gc.freeze()

    def install(self, source: Source, mutant: Mutant) -> bool:
        """Give all functions of the scope the code of the mutant, if possible."""
        if not mutant.scope.is_function:
            return False
        node: Any = mutant.scope.node
        lines = range(_first_line(node), node.end_lineno + 1)
        mutant.apply()
        filename = str(PACKAGE / source.path)
        tree = ast.fix_missing_locations(source.tree)
        found = False
        for code in _codes(compile(tree, filename, "exec")):
            if code.co_firstlineno not in lines or code.co_name == "<lambda>":
                continue
            place = filename, code.co_qualname, code.co_firstlineno
            for function in self._known.get(place, ()):
                if function.__code__.co_freevars != code.co_freevars:
                    return False
                function.__code__ = code
                found = True
        return found


def _first_line(node: Any) -> int:
    lines = [node.lineno, *(each.lineno for each in node.decorator_list)]
    return int(min(lines))


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def import_mutant(source: Source, mutant: Mutant) -> None:
    """Let this process import the changed module; it must not be imported yet."""
    mutant.apply()
    filename = str(PACKAGE / source.path)
    tree = ast.fix_missing_locations(source.tree)
    code = compile(tree, filename, "exec")
    loader = importlib.machinery.SourceFileLoader
    usual = loader.get_code

    def get_code(self: Any, fullname: str) -> CodeType | None:
        return code if self.path == filename else usual(self, fullname)

    loader.get_code = get_code  # type: ignore[method-assign]


def run_pytest(runner: Runner, paths: Sequence[str]) -> None:
    """Collect tests and let the runner do its job."""
    code = pytest.main([*OPTIONS, *paths], plugins=[runner])
    if not runner.is_done:
        raise RuntimeError(f"the tests cannot be collected: {code!r}")
