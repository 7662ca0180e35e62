"""Plug-ins: whether those that are enabled load, and which others are installed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib.metadata import EntryPoint

from noetl.adapters.plugins.loading import Declaration, combine, load_package
from noetl.adapters.plugins.packages import Package, find_package, installed_packages
from noetl.commands.checkup.finding import Finding
from noetl.errors import ConfigError


def check_plugins(enabled: Collection[str]) -> Iterator[Finding]:
    loaded: list[tuple[Package, dict[EntryPoint, Declaration]]] = []
    for name in sorted(enabled):
        try:
            package = find_package(name)
            loaded.append((package, load_package(package)))
        except ConfigError as error:
            cure = f"mend the package, or take {name} out of the setting plugins"
            yield Finding(f"plug-in {name}", "problem", str(error), cure)
        else:
            message = f"{package.version}, enabled: {_brings(package)}"
            yield Finding(f"plug-in {name}", "ok", message)
    try:
        combine(loaded)
    except ConfigError as error:
        cure = "take one of them out of the setting plugins"
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
