"""Checks of the machine: interpreter, SQLite, clock, network, optional extras."""

from __future__ import annotations

import platform
import re
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import EntryPoint, PackageNotFoundError, requires, version

from noetl.adapters.host import Isolation as Setting
from noetl.adapters.plugins.enabled import Package, find_package, installed_packages
from noetl.adapters.plugins.loading import Declaration, combine, load_package
from noetl.adapters.processes.limits import clean_environment
from noetl.adapters.processes.sandbox import ALLOW, describe, look
from noetl.adapters.tools.python import PythonTool
from noetl.commands.doctor_checks import Finding
from noetl.errors import ConfigError, ToolError
from noetl.extras import DISTRIBUTION, install_command
from noetl.ports import ToolCall

Version = tuple[int, ...]

_PYTHON = (3, 11)
_SQLITE = (3, 24)  # the first with ON CONFLICT DO UPDATE
_SQLITE_RESET = (3, 51, 3)
_PAST = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
_FUTURE = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
_TIMEOUT_S = 5.0


def check_machine() -> Iterator[Finding]:
    yield judge_python(sys.version_info[:3])
    yield judge_sqlite(sqlite3.sqlite_version_info)
    yield judge_clock(time.time())
    yield check_loopback()


def judge_python(version: Version) -> Finding:
    shown = f"{_dotted(version)} ({platform.python_implementation()})"
    if version < _PYTHON:
        message = f"{shown}; NoETL needs {_dotted(_PYTHON)}"
        return Finding("python", "problem", message, "install a newer Python")
    return Finding("python", "ok", shown)


def judge_sqlite(version: Version) -> Finding:
    shown = _dotted(version)
    if version < _SQLITE:
        message = f"{shown}; the log needs {_dotted(_SQLITE)}"
        return Finding("sqlite", "problem", message, "use a Python with a newer SQLite")
    if version < _SQLITE_RESET:
        shown += (
            f"; versions below {_dotted(_SQLITE_RESET)} have a bug that needs two "
            "writers of one write-ahead log, and NoETL has only one"
        )
    return Finding("sqlite", "ok", shown)


def judge_clock(now: float) -> Finding:
    shown = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if not _PAST <= now < _FUTURE:
        cure = "set it, for instance by a time service (NTP)"
        return Finding("clock", "problem", f"{shown} cannot be correct", cure)
    return Finding("clock", "ok", shown)


def check_loopback() -> Finding:
    """Connect to a socket of 127.0.0.1, which servers, workers and tools use."""
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), _TIMEOUT_S) as ours,
        ):
            server.settimeout(_TIMEOUT_S)
            theirs, _ = server.accept()
            with theirs:
                theirs.sendall(b"noetl")
                answer = ours.recv(5)
    except OSError as error:
        cure = "bring the interface up: ip link set lo up"
        return Finding("loopback", "problem", f"127.0.0.1: {error}", cure)
    if answer != b"noetl":
        cure = "check for a proxy or firewall on this machine"
        return Finding("loopback", "problem", "127.0.0.1 lost data", cure)
    return Finding("loopback", "ok", "127.0.0.1 answers")


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


_OPEN = "none: code runs without a sandbox, also on a server with accounts"
_CODE = "result = 6 * 7"
_START_TIMEOUT_S = 30


async def check_processes(
    setting: Setting = "auto", pools: frozenset[str] | None = None
) -> list[Finding]:
    """Check with the operator's settings ``isolation`` and ``pools.code``."""
    tool = PythonTool(1)
    try:
        found = [await _check_python(tool), await _check_sandbox(tool)]
    finally:
        await tool.close()
    if setting == "none":
        cure = "unset isolation (NOETL_ISOLATION) where other people's code runs"
        found.append(Finding("isolation", "warning", _OPEN, cure))
    if pools is not None:
        named = "the worker pools " + ", ".join(sorted(pools)) if pools else "no pool"
        found.append(Finding("code", "ok", f"runs in {named} of a server (pools.code)"))
    return found


async def _check_python(tool: PythonTool) -> Finding:
    problem = await _try(tool, "fresh")
    if problem is None:
        return Finding("python child", "ok", "starts and answers")
    cure = "check the limits of this user: ulimit -a"
    return Finding("python child", "problem", problem, cure)


async def _check_sandbox(tool: PythonTool) -> Finding:
    probe = look(clean_environment()["PATH"])
    problem = probe.problem or await _try(tool, "required")
    if problem is None:
        return Finding("sandbox", "ok", describe(probe))
    meaning = "a server with accounts refuses python, script, shell and duckdb"
    cure = f"if you need it: {probe.cure or ALLOW}"
    return Finding("sandbox", "warning", f"{problem}; {meaning}", cure)


async def _try(tool: PythonTool, isolation: str) -> str | None:
    """Run a test task; return the problem, or None."""
    call = ToolCall(
        kind="python",
        inputs={"code": _CODE},
        spec={"timeout": _START_TIMEOUT_S, "isolation": isolation},
        execution_id="doctor",
        step="doctor",
        task="doctor",
        action_id="doctor",
        attempt=1,
    )
    try:
        outcome = await tool.run(call)
    except ToolError as error:
        return " ".join(error.message.split())
    return None if outcome.result == 42 else f"6 * 7 is {outcome.result}"


_EXTRA = re.compile(r"""(?P<wanted>[^;]+);.*\bextra\s*==\s*["'](?P<extra>[^"']+)""")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_NOT_FOR_USERS = {"all", "dev", "docs"}


def check_extras() -> Iterator[Finding]:
    try:
        declared = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        message = "NoETL is not installed as a package; its extras are unknown"
        yield Finding("extras", "warning", message, "run pip install . in its folder")
        return
    for extra, wanted in sorted(by_extra(declared).items()):
        yield judge_extra(extra, wanted, _is_installed)


def by_extra(declared: Iterable[str]) -> dict[str, list[str]]:
    """Group the requirements by extra, without extras for developers."""
    found: dict[str, list[str]] = {}
    for text in declared:
        match = _EXTRA.match(text)
        if match is not None and match["extra"] not in _NOT_FOR_USERS:
            found.setdefault(match["extra"], []).append(match["wanted"].strip())
    return found


def judge_extra(
    extra: str, wanted: list[str], is_installed: Callable[[str], bool]
) -> Finding:
    if all(is_installed(_name(text)) for text in wanted):
        return Finding(f"extra {extra}", "ok", "installed")
    message = f"not installed; to use it: {install_command(extra)}"
    return Finding(f"extra {extra}", "ok", message)


def _name(requirement: str) -> str:
    match = _NAME.match(requirement)
    return match[0] if match else requirement


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def check_plugins(enabled: Collection[str]) -> Iterator[Finding]:
    loaded: list[tuple[Package, dict[EntryPoint, Declaration]]] = []
    for name in sorted(enabled):
        try:
            package = find_package(name)
            loaded.append((package, load_package(package)))
        except ConfigError as error:
            cure = f"repair the package, or remove {name} from the setting plugins"
            yield Finding(f"plug-in {name}", "problem", str(error), cure)
        else:
            message = f"{package.version}, enabled: {_brings(package)}"
            yield Finding(f"plug-in {name}", "ok", message)
    try:
        combine(loaded)
    except ConfigError as error:
        cure = "remove one of them from the setting plugins"
        yield Finding("plug-ins", "problem", str(error), cure)
    for package in installed_packages():
        if package.name not in enabled:
            message = f"{package.version}, not enabled, not imported: "
            message += f"{_brings(package)}; to use it: NOETL_PLUGINS={package.name}"
            yield Finding(f"plug-in {package.name}", "ok", message)


def _brings(package: Package) -> str:
    return ", ".join(
        f"{entry.group.removeprefix('noetl.')} {entry.name}"
        for entry in sorted(package.entries)
    )
