"""Installed packages that bring plug-ins: read from their metadata, never imported."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.metadata import Distribution, EntryPoint, distribution, distributions
from importlib.metadata import PackageNotFoundError as NotInstalled

import msgspec

from noetl.dsl.diagnostics import nearest
from noetl.errors import ConfigError

GROUPS = ("noetl.tools", "noetl.secrets", "noetl.results", "noetl.quantum")


class Package(msgspec.Struct, frozen=True):
    """``entries`` are those of our groups alone."""

    name: str
    version: str
    entries: tuple[EntryPoint, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def normalize(name: str) -> str:
    """As packages are compared: My_Plugin and my-plugin are one."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache  # reading them is slow, and a playbook may have many unknown names
def installed_packages() -> tuple[Package, ...]:
    """All that bring something, whether enabled or not, by name."""
    found: dict[str, Package] = {}
    for package in filter(None, map(_package, distributions())):
        # Of several the first on the path is the one that is imported.
        found.setdefault(package.name, package)
    return tuple(found[name] for name in sorted(found) if found[name].entries)


def find_package(name: str) -> Package:
    """One that is enabled. Raises ``ConfigError`` if there is nothing to load."""
    try:
        package = _package(distribution(name))
    except (NotInstalled, ValueError):
        package = None
    if package is None:
        raise ConfigError(
            f"plug-in '{name}' is enabled, but no package of this name is installed "
            f"for {sys.executable}; {_meant(name)}"
        )
    if not package.entries:
        groups = ", ".join(GROUPS)
        raise ConfigError(
            f"plug-in '{name}' is enabled, but the package brings none: it has no "
            f"entry point of {groups}; take it out of the setting"
        )
    return package


def bringing(group: str, name: str) -> list[str]:
    """The installed packages that have this entry point."""
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
            return f"it is the package '{package.name}' that brings {name}"
    known = [package.name for package in installed_packages()]
    match = nearest(name, known)
    if match is not None:
        return f"did you mean '{match}'?"
    brought = ", ".join(known) or "none"
    return f"install it, or take it out of the setting (installed: {brought})"
