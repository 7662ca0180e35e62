"""Settings from the environment and a file, each with its origin."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from noetl.config.setting import FILE, PREFIX, VARIABLE, Setting, Value, expand
from noetl.config.table import EXTENSIONS, HOME, PLUGINS, SETTINGS
from noetl.dsl.diagnostics import did_you_mean, nearest
from noetl.dsl.node import shorten
from noetl.errors import ConfigError
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.adapters.plugins.enabled import Plugins

T = TypeVar("T")


_MAX_BYTES = 1024 * 1024
_POSITION = re.compile(r"(.+) \(at line (\d+), column (\d+)\)")


class Settings:
    """All settings at one moment, each with its origin."""

    def __init__(self, values: Mapping[str, Value], file: Path | None) -> None:
        self._values = values
        self.file = file

    def __getitem__(self, setting: Setting[T]) -> T:
        value: T = self._values[setting.name].value
        return value

    def value(self, setting: Setting[Any]) -> Value:
        """The value of a setting with its origin."""
        return self._values[setting.name]

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values.values())

    def filled(self, defaults: Mapping[str, Value]) -> Settings:
        """Return the same settings, with these values in place of missing ones."""
        values = {
            name: defaults.get(name, each) if each.value is None else each
            for name, each in self._values.items()
        }
        return Settings(values, self.file)


def read_settings(
    environ: Mapping[str, str] = os.environ,
    table: tuple[Setting[Any], ...] = SETTINGS,
) -> Settings:
    """Merge the defaults, the file and the environment, in ascending priority.

    The file is ``NOETL_CONFIG`` (the command line's ``--config`` sets it), or
    ``config.toml`` in the home if it is there. Raises ``ConfigError``.
    """
    file = find_file(environ)
    stated = _read_file(file, table) if file is not None else {}
    if HOME.name in stated and not environ.get(VARIABLE):
        place = stated[HOME.name].place
        raise ConfigError(
            f"{place}: home: the file is already in the home; "
            f"set it by {HOME.variable} or in a file for --config"
        )
    values = {}
    for setting in table:
        text = environ.get(setting.variable)
        if text:
            value = _parse(setting, text, Path(), setting.variable)
            found = Value(setting, value, "environment", setting.variable)
        elif setting.name in stated:
            found = stated[setting.name]
        else:
            found = Value(setting, setting.default(), "default")
        values[setting.name] = found
    return Settings(values, file)


def find_file(environ: Mapping[str, str]) -> Path | None:
    """Find the configuration file; a named file must exist."""
    named = environ.get(VARIABLE)
    if named:
        return Path(named)
    home = environ.get(HOME.variable)
    try:
        file = expand(Path(home or HOME.default_words)) / FILE
        return file if file.is_file() else None
    except (ConfigError, OSError):
        return None  # a home that is missing or not accessible has no file


def strays(environ: Mapping[str, str] = os.environ) -> list[str]:
    """List variables that set nothing, but look like a setting."""
    known = {setting.name for setting in SETTINGS} | {"config"}
    found = []
    for name in sorted(environ):
        word = name.removeprefix(PREFIX).lower()
        if not name.startswith(PREFIX) or word in known:
            continue
        match = nearest(word, known)
        if match is not None:
            meant = PREFIX + match.upper()
            found.append(f"{name} sets nothing; did you mean {meant}?")
    return found


def read_extensions(flag: str | None, settings: Settings) -> frozenset[str]:
    """Combine the extensions of ``--extensions`` and of the settings."""
    given = _parse(EXTENSIONS, flag or "", Path(), "--extensions")
    always = settings[EXTENSIONS]
    return given | always


def read_plugins(settings: Settings) -> Plugins:
    """Import the plug-ins that the settings enable. Raises ``ConfigError``."""
    from noetl.adapters.plugins.enabled import Plugins

    value = settings.value(PLUGINS)
    if not value.value:
        return Plugins()
    from noetl.adapters.plugins.loading import load_plugins

    try:
        return load_plugins(value.value)
    except ConfigError as error:
        raise ConfigError(f"{value.place}: {error}") from None


def _parse(setting: Setting[T], value: JSON, folder: Path, place: str) -> T:
    try:
        return setting.parse(value, folder)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
    except ValueError:
        found = "" if setting.secret else f", found {_quote(value)}"
        raise ConfigError(f"{place}: expected {setting.words}{found}") from None


def _quote(value: JSON) -> str:
    return f"'{shorten(value)}'" if isinstance(value, str) else shorten(str(value))


def _read_file(file: Path, table: tuple[Setting[Any], ...]) -> dict[str, Value]:
    import tomllib

    try:
        with file.open("rb") as stream:
            text = stream.read(_MAX_BYTES + 1).decode("utf-8")
        if len(text) > _MAX_BYTES:
            raise ConfigError(f"{file}: larger than {_MAX_BYTES:,} bytes")
        stated = tomllib.loads(text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{file}: cannot be read: {reason}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: not UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(_not_toml(file, str(error))) from None
    known = {setting.name: setting for setting in table}
    values = {}
    for path, value in _flatten(stated, known):
        name, place = path.replace(".", "_"), _place(file, text, path)
        if name not in known:
            hint = did_you_mean(name, known) or "noetl config lists all of them"
            raise ConfigError(f"{place}: unknown setting '{shorten(name)}'; {hint}")
        parsed = _parse(known[name], value, file.parent, f"{place}: {name}")
        values[name] = Value(known[name], parsed, "file", place)
    return values


def _flatten(
    stated: Mapping[str, JSON], known: Mapping[str, Any]
) -> Iterator[tuple[str, JSON]]:
    """Read ``files.roots`` as ``files_roots``: tables are one level deep."""
    for name, value in stated.items():
        is_group = any(each.startswith(f"{name}_") for each in known)
        if name in known or not isinstance(value, dict) or not is_group:
            yield name, value
            continue
        for key, each in value.items():
            yield f"{name}.{key}", each


def _not_toml(file: Path, error: str) -> str:
    found = _POSITION.fullmatch(error)
    if found is None:
        return f"{file}: not TOML: {error}"
    return f"{file}:{found[2]}:{found[3]}: not TOML: {found[1]}"


def _place(file: Path, text: str, name: str) -> str:
    """Find the line of a key in the text, as TOML's reader does not return it."""
    table, dot, last = name.rpartition(".")
    if dot and not re.search(rf"(?m)^[ \t]*{re.escape(name)}\b", text):
        name = last if _place(file, text, table) != str(file) else name
    key = re.compile(rf"[ \t]*(['\"]?){re.escape(name)}\1[ \t]*[=.]")
    for number, line in enumerate(text.splitlines(), 1):
        if key.match(line) or re.match(rf"[ \t]*\[+[ \t]*{re.escape(name)}\b", line):
            return f"{file}:{number}"
    return str(file)
