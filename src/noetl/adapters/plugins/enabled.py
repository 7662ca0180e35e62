"""Installed packages with plug-ins: read from metadata, never imported."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING

import msgspec

from noetl.adapters.tools import BUILTIN
from noetl.dsl.diagnostics import nearest
from noetl.dsl.grammar.keychain import KEYCHAIN
from noetl.dsl.tool_kinds import Kinds
from noetl.errors import ConfigError

if TYPE_CHECKING:
    # Importing it takes 20 ms, which every `noetl run` would pay.
    from importlib.metadata import Distribution, EntryPoint

    from noetl.plugins import (
        KeyPlugin,
        QuantumPlugin,
        ResultPlugin,
        SecretPlugin,
        ToolPlugin,
    )

GROUPS = (
    *("noetl.tools", "noetl.secrets", "noetl.results", "noetl.quantum"),
    "noetl.keys",
)


class Package(msgspec.Struct, frozen=True):
    """Installed package; ``entries`` are the entry points of ``GROUPS``."""

    name: str
    version: str
    entries: tuple[EntryPoint, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def normalize(name: str) -> str:
    """Normalize the name of a package: My_Plugin and my-plugin are the same."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache  # reading metadata is slow, and a playbook may have many unknown names
def installed_packages() -> tuple[Package, ...]:
    """Return all packages with plug-ins, enabled or not, by name."""
    from importlib.metadata import distributions

    found: dict[str, Package] = {}
    for package in filter(None, map(_package, distributions())):
        # Python imports the first one on the path.
        found.setdefault(package.name, package)
    return tuple(found[name] for name in sorted(found) if found[name].entries)


def find_package(name: str) -> Package:
    """Find an enabled package. Raises ``ConfigError`` if it has no plug-in."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        package = _package(distribution(name))
    except (PackageNotFoundError, ValueError):
        package = None
    if package is None:
        raise ConfigError(
            f"plug-in '{name}' is enabled, but no package of this name is installed "
            f"for {sys.executable}; {_meant(name)}"
        )
    if not package.entries:
        groups = ", ".join(GROUPS)
        raise ConfigError(
            f"plug-in '{name}' is enabled, but the package has no plug-in: it has no "
            f"entry point of {groups}; remove it from the setting plugins"
        )
    return package


def bringing(group: str, name: str) -> list[str]:
    """Return the names of installed packages that have this entry point."""
    return [
        package.name
        for package in installed_packages()
        if any((e.group, e.name) == (group, name) for e in package.entries)
    ]


def _package(found: Distribution) -> Package | None:
    name = found.metadata["Name"]  # None in a damaged installation
    if not name:
        return None
    entries = [entry for entry in found.entry_points if entry.group in GROUPS]
    return Package(normalize(name), found.version, tuple(entries))


def _meant(name: str) -> str:
    for package in installed_packages():
        if name in [entry.name for entry in package.entries]:
            return f"{name} is provided by the package '{package.name}'"
    known = [package.name for package in installed_packages()]
    match = nearest(name, known)
    if match is not None:
        return f"did you mean '{match}'?"
    brought = ", ".join(known) or "none"
    return f"install it, or remove it from the setting plugins (installed: {brought})"


class Plugins(msgspec.Struct, frozen=True, dict=True):
    """Enabled plug-ins, by the names that playbooks and settings use."""

    tools: Mapping[str, ToolPlugin] = msgspec.field(default_factory=dict)
    secrets: Mapping[str, SecretPlugin] = msgspec.field(default_factory=dict)
    results: Mapping[str, ResultPlugin] = msgspec.field(default_factory=dict)
    quantum: Mapping[str, QuantumPlugin] = msgspec.field(default_factory=dict)
    keys: Mapping[str, KeyPlugin] = msgspec.field(default_factory=dict)

    @cached_property
    def kinds(self) -> Kinds:
        """Kinds that playbooks may use: the built-in and the enabled ones."""
        tools = [*BUILTIN.values(), *(each.kind for each in self.tools.values())]
        keychain = {name: each.kind for name, each in self.secrets.items()}
        return Kinds(tools, {**KEYCHAIN, **keychain}, how_to_enable)


def how_to_enable(group: str, name: str) -> str | None:
    """Return a hint if an installed package provides an unknown name."""

    found = bringing(f"noetl.{group}", name)
    if not found:
        return None
    packages = " or ".join(found)
    return (
        f"{packages} provides it, but is not enabled: add it to the setting plugins "
        f"(NOETL_PLUGINS={found[0]})"
    )
