"""Settings: one table. Each is read from the environment or a configuration file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec

from noetl.dsl.diagnostics import did_you_mean, nearest
from noetl.dsl.grammar.retired import DIALECTS
from noetl.dsl.node import shorten
from noetl.errors import ConfigError
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.adapters.plugins.enabled import Plugins

T = TypeVar("T")
Origin = Literal["default", "file", "environment"]

PREFIX = "NOETL_"
VARIABLE = "NOETL_CONFIG"
FILE = "config.toml"
MASK = "***"
_LARGEST = 1024 * 1024
_EXTENSION = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_PACKAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_POSITION = re.compile(r"(.+) \(at line (\d+), column (\d+)\)")


class Setting(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """What is known of a setting before anybody sets it.

    ``parse`` takes text, or what TOML has for it, and the folder that relative paths
    start from. It raises ``ValueError``, and ``words`` say what was expected, or
    ``ConfigError`` if it has more to say.
    """

    name: str
    words: str
    doc: str
    parse: Callable[[JSON, Path], T]
    default: Callable[[], T]
    default_words: str
    secret: bool = False

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


class Value(msgspec.Struct, frozen=True):
    """The effective value; ``place`` is the variable, or file and line."""

    setting: Setting[Any]
    value: Any
    origin: Origin
    place: str | None = None

    def shown(self) -> JSON:
        """For people and for JSON; a secret only says that it is there."""
        if self.setting.secret:
            return None if self.value is None else MASK
        if isinstance(self.value, frozenset):
            return sorted(self.value)
        return str(self.value) if isinstance(self.value, Path) else self.value


def _parse_home(value: JSON, folder: Path) -> Path:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError
    return folder / _expand(Path(value))


def _default_home() -> Path:
    return _expand(Path("~/.noetl"))


def _expand(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise ConfigError(
            f"NOETL_HOME: this user has no home folder for {path}; set it to a folder"
        ) from None


def _parse_extensions(value: JSON, _: Path) -> frozenset[str]:
    """A name that is nearly a dialect's is refused: a typing error must not silently
    switch nothing on."""
    found = _parse_names(value)
    for name in sorted(found):
        match = nearest(name, DIALECTS)
        if not _EXTENSION.match(name) or (match is not None and match != name):
            known = match or ", ".join(DIALECTS)
            raise ConfigError(f"unknown extension '{shorten(name)}' ({known}?)")
    return found


def _parse_plugins(value: JSON, _: Path) -> frozenset[str]:
    from noetl.adapters.plugins.packages import normalize  # slow, and seldom needed

    found = _parse_names(value)
    for name in sorted(found):
        if not _PACKAGE.match(name):
            raise ConfigError(f"'{shorten(name)}' is not the name of a package")
    return frozenset(map(normalize, found))


def _parse_names(value: JSON) -> frozenset[str]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise ValueError
    return frozenset(filter(None, (name.strip() for name in names)))


def _parse_slots(value: JSON, _: Path) -> int:
    if isinstance(value, str) and _NUMBER.match(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1024:
        raise ValueError
    return value


def _parse_results_url(value: JSON, _: Path) -> str | None:
    """A credential in it would be printed by ``noetl config``, and logged by others."""
    if not isinstance(value, str):
        raise ValueError
    from urllib.parse import urlsplit

    found = urlsplit(value.rstrip("/"))
    if found.query or found.fragment or "@" in found.netloc:
        raise ConfigError(
            "it may hold no credential and no options; those are read from the "
            "environment (AWS_…, GOOGLE_…, AZURE_…)"
        )
    needs = {"file": not found.netloc and found.path}
    needs |= dict.fromkeys(("s3", "gs", "az"), found.netloc)
    if not found.scheme or not needs.get(found.scheme, found.netloc or found.path):
        raise ValueError
    return found.geturl()


def _in_the_home() -> str | None:
    return None


def _parse_text(value: JSON, _: Path) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError
    return value.strip()


def _parse_port(value: JSON, _: Path) -> int:
    if isinstance(value, str) and _NUMBER.match(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 65536:
        raise ValueError
    return value


def _parse_server(value: JSON, folder: Path) -> str | None:
    text = _parse_text(value, folder)
    if not text.startswith(("http://", "https://")):
        raise ValueError
    return text.rstrip("/")


def _parse_ttl(value: JSON, _: Path) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise ValueError from None
    if isinstance(value, bool) or not 1 <= seconds <= 3600:
        raise ValueError
    return seconds


def _parse_database(value: JSON, folder: Path) -> str | None:
    text = _parse_text(value, folder)
    if not text.startswith(("postgresql://", "postgres://")):
        raise ValueError
    return text


def _parse_hosts(value: JSON, _: Path) -> frozenset[str]:
    from noetl.access.browsers import Hosts

    found = _parse_names(value)
    Hosts(found)  # raises for what is none
    return found


def _parse_switch(value: JSON, _: Path) -> bool:
    words = {"true": True, "1": True, "false": False, "0": False}
    found = words.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise ValueError
    return found


def _parse_nats(value: JSON, folder: Path) -> str | None:
    text = _parse_text(value, folder)
    if not text.startswith(("nats://", "tls://")):
        raise ValueError
    return text


def _parse_token(value: JSON, folder: Path) -> str | None:
    return _parse_text(value, folder)


HOME = Setting(
    name="home",
    words="a folder",
    doc="Holds the embedded event log, results and secrets. In a configuration file "
    "a relative path starts at the file's folder.",
    parse=_parse_home,
    default=_default_home,
    default_words="~/.noetl",
)
EXTENSIONS = Setting(
    name="extensions",
    words=f"names with commas between them ({', '.join(DIALECTS)})",
    doc="Dialects that every playbook may use, besides those that a command's "
    "`--extensions` adds. In a configuration file a list will do, too.",
    parse=_parse_extensions,
    default=frozenset[str],
    default_words="none",
)
SLOTS = Setting(
    name="slots",
    words="a whole number from 1 to 1024",
    doc="How many tasks the embedded runtime works on at the same time.",
    parse=_parse_slots,
    default=lambda: 16,
    default_words="16",
)
PLUGINS = Setting(
    name="plugins",
    words="names of packages with commas between them",
    doc="Installed packages whose plug-ins are loaded; of others nothing is imported. "
    "In a configuration file a list will do, too.",
    parse=_parse_plugins,
    default=frozenset[str],
    default_words="none",
)
RESULTS_URL = Setting(
    name="results_url",
    words="s3://bucket/folder, gs://bucket/folder, az://container/folder, "
    "file:///folder or an address for a plug-in, without credentials and options",
    doc="Where values go that are too large for the log. Credentials are what the "
    "cloud's own variables say (`AWS_…`, `GOOGLE_…`, `AZURE_…`), not part of the URL. "
    "Enabled plug-ins bring other schemes.",
    parse=_parse_results_url,
    default=_in_the_home,
    default_words="`results` in the home",
)
HOST = Setting(
    name="host",
    words="an address of this machine",
    doc="Where `noetl server start` listens.",
    parse=_parse_text,
    default=lambda: "127.0.0.1",
    default_words="127.0.0.1",
)
HOSTS = Setting(
    name="hosts",
    words="names with commas between them (noetl.example.com)",
    doc="Names by which clients reach the server, besides those of this machine; a "
    "request for another one is refused. In a configuration file a list will do, too.",
    parse=_parse_hosts,
    default=frozenset[str],
    default_words="none",
)
BEHIND_PROXY = Setting(
    name="behind_proxy",
    words="true or false",
    doc="Clients reach the server through a proxy that speaks TLS with them, and adds "
    "their address to `X-Forwarded-For`.",
    parse=_parse_switch,
    default=lambda: False,
    default_words="false",
)
PORT = Setting(
    name="port",
    words="a whole number from 0 to 65535",
    doc="The port of `noetl server start`; 0 takes any that is free.",
    parse=_parse_port,
    default=lambda: 8082,
    default_words="8082",
)
SERVER = Setting(
    name="server",
    words="the address of a server: http://127.0.0.1:8082",
    doc="The server that commands talk to. Without it, the one that runs under this "
    "home, or else the embedded store.",
    parse=_parse_server,
    default=lambda: None,
    default_words="none",
)
DATABASE = Setting(
    name="database",
    words="the address of a PostgreSQL: postgresql://user@host/name",
    doc="Where servers keep log, catalog and secrets that are under way. Without it, "
    "in the PostgreSQL that `noetl up` runs under this home; without that, a server "
    "keeps them in its home and does all the work itself.",
    parse=_parse_database,
    default=lambda: None,
    default_words="none",
    secret=True,
)
NATS = Setting(
    name="nats",
    words="the address of a NATS: nats://token@host:4222",
    doc="By which servers on one database tell each other of new work. Without it, by "
    "the NATS that `noetl up` runs under this home; without that, or while it is away, "
    "each of them looks once a second.",
    parse=_parse_nats,
    default=lambda: None,
    default_words="none",
    secret=True,
)
LEASE_TTL = Setting(
    name="lease_ttl",
    words="seconds, from 1 to 3600",
    doc="How long a worker of a server may be silent before another one takes over.",
    parse=_parse_ttl,
    default=lambda: 30.0,
    default_words="30",
)
TOKEN = Setting(
    name="token",
    words="a token",
    doc="What commands show to the server. Without it, the file `token` of the home.",
    parse=_parse_token,
    default=lambda: None,
    default_words="none",
    secret=True,
)
SETTINGS: tuple[Setting[Any], ...] = (
    HOME,
    EXTENSIONS,
    SLOTS,
    PLUGINS,
    RESULTS_URL,
    HOST,
    PORT,
    HOSTS,
    BEHIND_PROXY,
    SERVER,
    TOKEN,
    DATABASE,
    NATS,
    LEASE_TTL,
)


class Settings:
    """All settings at one moment, each with where it comes from."""

    def __init__(self, values: Mapping[str, Value], file: Path | None) -> None:
        self._values = values
        self.file = file

    def __getitem__(self, setting: Setting[T]) -> T:
        value: T = self._values[setting.name].value
        return value

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values.values())


def read_settings(
    environ: Mapping[str, str] = os.environ,
    table: tuple[Setting[Any], ...] = SETTINGS,
) -> Settings:
    """Defaults, under what the file says, under what the environment says.

    The file is ``NOETL_CONFIG`` (the command line's ``--config`` sets it), or
    ``config.toml`` in the home if it is there. Raises ``ConfigError``.
    """
    file = find_file(environ)
    stated = _read_file(file, table) if file is not None else {}
    if HOME.name in stated and not environ.get(VARIABLE):
        place = stated[HOME.name].place
        raise ConfigError(
            f"{place}: home: the file is in the home already; "
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
    """The configuration file that holds; one that was named must be there."""
    named = environ.get(VARIABLE)
    if named:
        return Path(named)
    home = environ.get(HOME.variable)
    try:
        file = _expand(Path(home or HOME.default_words)) / FILE
        return file if file.is_file() else None
    except (ConfigError, OSError):
        return None  # no home, or none that we may look into: no file in it either


def strays(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Variables that set nothing, though somebody probably meant them to."""
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


def read_extensions(
    flag: str | None, environ: Mapping[str, str] = os.environ
) -> frozenset[str]:
    """The extensions of ``--extensions`` and of the settings together."""
    given = _parse(EXTENSIONS, flag or "", Path(), "--extensions")
    always = read_settings(environ)[EXTENSIONS]
    return given | always


def read_plugins(environ: Mapping[str, str] = os.environ) -> Plugins:
    """The plug-ins that the settings enable, imported. Raises ``ConfigError``."""
    from noetl.adapters.plugins.enabled import Plugins

    value = next(v for v in read_settings(environ) if v.setting is PLUGINS)
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
            text = stream.read(_LARGEST + 1).decode("utf-8")
        if len(text) > _LARGEST:
            raise ConfigError(f"{file}: larger than {_LARGEST:,} bytes")
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
    for name, value in stated.items():
        place = _place(file, text, name)
        if name not in known:
            hint = did_you_mean(name, known) or "noetl config lists all of them"
            raise ConfigError(f"{place}: unknown setting '{shorten(name)}'; {hint}")
        parsed = _parse(known[name], value, file.parent, f"{place}: {name}")
        values[name] = Value(known[name], parsed, "file", place)
    return values


def _not_toml(file: Path, error: str) -> str:
    found = _POSITION.fullmatch(error)
    if found is None:
        return f"{file}: not TOML: {error}"
    return f"{file}:{found[2]}:{found[3]}: not TOML: {found[1]}"


def _place(file: Path, text: str, name: str) -> str:
    """File and line; TOML's reader does not say where a key stands, so we look."""
    key = re.compile(rf"[ \t]*(['\"]?){re.escape(name)}\1[ \t]*[=.]")
    for number, line in enumerate(text.splitlines(), 1):
        if key.match(line) or re.match(rf"[ \t]*\[+[ \t]*{re.escape(name)}\b", line):
            return f"{file}:{number}"
    return str(file)
