"""Loads plug-ins from enabled packages and checks their declarations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from importlib.metadata import EntryPoint
from typing import TypeAlias

import msgspec

from noetl.adapters.plugins.enabled import Package, Plugins, find_package
from noetl.adapters.tools import BUILTIN
from noetl.dsl.grammar.earlier_forms import SCOPE_OWNED
from noetl.dsl.grammar.keychain import KEYCHAIN, KeychainKind
from noetl.dsl.grammar.tasks import TASK_SPEC
from noetl.dsl.tool_kinds import Kind
from noetl.errors import ConfigError
from noetl.plugins import (
    API,
    KeyPlugin,
    QuantumPlugin,
    ResultPlugin,
    SecretPlugin,
    ToolPlugin,
)

Declaration: TypeAlias = (
    ToolPlugin | SecretPlugin | ResultPlugin | QuantumPlugin | KeyPlugin
)

# Type of the object that an entry point of each group must name.
DECLARATIONS: Mapping[str, type[Declaration]] = {
    "noetl.tools": ToolPlugin,
    "noetl.secrets": SecretPlugin,
    "noetl.results": ResultPlugin,
    "noetl.quantum": QuantumPlugin,
    "noetl.keys": KeyPlugin,
}
# Reserved names: built-in kinds, members of an outcome, and siblings of `spec.<kind>`.
_TAKEN = {
    "noetl.tools": {*BUILTIN, *SCOPE_OWNED, *TASK_SPEC.fields}
    | {"error", "meta", "pg", "py", "status"},
    "noetl.secrets": {*KEYCHAIN, "stored"},
    "noetl.results": {"file"},
    "noetl.quantum": {"local"},
    "noetl.keys": {"command", "env", "file"},
}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}\Z")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,62}\Z")


def load_plugins(enabled: Collection[str]) -> Plugins:
    """Import the enabled packages, and no others. Raises ``ConfigError``."""
    return combine(
        (package, load_package(package))
        for package in map(find_package, sorted(enabled))
    )


def load_package(package: Package) -> dict[EntryPoint, Declaration]:
    """Load and check all plug-ins of a package. Raises ``ConfigError``."""
    return {entry: _load(package, entry) for entry in package.entries}


def combine(
    packages: Iterable[tuple[Package, Mapping[EntryPoint, Declaration]]],
) -> Plugins:
    """Merge plug-ins. Raises ``ConfigError`` if two packages provide the same name."""
    owners: dict[tuple[str, str], Package] = {}
    found: dict[type, dict[str, Declaration]] = {t: {} for t in DECLARATIONS.values()}
    for package, declared in packages:
        for entry, declaration in declared.items():
            other = owners.setdefault((entry.group, entry.name), package)
            if entry.name in found[type(declaration)]:
                raise ConfigError(
                    f"{_what(entry)} is provided by two plug-ins, {other} and "
                    f"{package}; enable one of them"
                )
            found[type(declaration)][entry.name] = declaration
    return Plugins(*found.values())  # type: ignore[arg-type]


def _load(package: Package, entry: EntryPoint) -> Declaration:
    where = f"plug-in {package}, {_what(entry)}"
    pattern = _SCHEME if entry.group == "noetl.results" else _NAME
    if entry.name in _TAKEN[entry.group]:
        raise ConfigError(f"{where}: the name is reserved by NoETL; choose another")
    if not pattern.match(entry.name):
        message = f"{where}: the name is not valid; write a name such as 'my_tool'"
        raise ConfigError(message)
    try:
        declaration = entry.load()
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{where} cannot be imported: {type(error).__name__}: {error}"
        ) from None
    wanted = DECLARATIONS[entry.group]
    # A package that was built for another API may not have our class at all.
    api = getattr(declaration, "api", None)
    if isinstance(api, int) and api != API:
        raise ConfigError(
            f"{where} is built for version {api} of the plug-in API, but this NoETL "
            f"has version {API}; install a matching version of {package.name}"
        )
    if type(declaration) is not wanted:
        raise ConfigError(
            f"{where}: {entry.value} must be a {wanted.__name__}, but is a "
            f"{type(declaration).__name__}"
        )
    try:
        _check(entry.name, declaration)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: invalid declaration: {error}") from None
    return declaration


def _check(name: str, declaration: Declaration) -> None:
    """Raise ``ValueError`` or ``TypeError`` if a member has a wrong type."""
    if not callable(declaration.make):
        raise ValueError("make is not a function")
    if isinstance(declaration, ToolPlugin):
        _check_data(declaration.kind, Kind)
        if declaration.kind.name != name:
            raise ValueError(f"its kind has another name, '{declaration.kind.name}'")
    elif isinstance(declaration, SecretPlugin):
        _check_data(declaration.kind, KeychainKind)


def _check_data(value: object, wanted: type) -> None:
    if not isinstance(value, wanted):
        raise ValueError(f"kind is a {type(value).__name__}, not a {wanted.__name__}")
    msgspec.convert(msgspec.to_builtins(value), wanted)


def _what(entry: EntryPoint) -> str:
    words = {
        "noetl.tools": "tool kind",
        "noetl.secrets": "keychain kind",
        "noetl.results": "result store",
        "noetl.quantum": "quantum provider",
        "noetl.keys": "key service",
    }
    return f"{words[entry.group]} '{entry.name}'"
