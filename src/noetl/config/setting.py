"""A setting: its name, the parsers of its value, and the origin of the value."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from noetl.dsl.diagnostics import nearest
from noetl.dsl.grammar.earlier_forms import DIALECTS
from noetl.dsl.node import shorten
from noetl.errors import AccessError, ConfigError
from noetl.types import JSON

T = TypeVar("T")
Origin = Literal["default", "file", "environment", "noetl up", "server"]


PREFIX = "NOETL_"
VARIABLE = "NOETL_CONFIG"
FILE = "config.toml"
MASK = "***"


class Setting(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The declaration of a setting.

    ``parse`` takes text, or a TOML value, and the folder of relative paths. It raises
    ``ValueError``, reported with ``words`` as the expected value, or ``ConfigError``
    with its own message.
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
    """The effective value; ``place`` is the variable, or file and line.

    The origin can also be the command that started the server of this home, if the
    default of the setting depends on it.
    """

    setting: Setting[Any]
    value: Any
    origin: Origin
    place: str | None = None

    def shown(self) -> JSON:
        """Return the value for output; a secret is masked."""
        if self.setting.secret:
            return None if self.value is None else MASK
        if isinstance(self.value, frozenset | tuple):
            return sorted(self.value)
        return str(self.value) if isinstance(self.value, Path) else self.value


_EXTENSION = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_PACKAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_NUMBER = re.compile(r"[0-9]{1,9}\Z")


def parse_home(value: JSON, folder: Path) -> Path:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError
    return folder / expand(Path(value))


def default_home() -> Path:
    return expand(Path("~/.noetl"))


def expand(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise ConfigError(
            f"NOETL_HOME: this user has no home folder for {path}; set it to a folder"
        ) from None


def parse_extensions(value: JSON, _: Path) -> frozenset[str]:
    """Parse names of dialects; refuse a name that resembles one, as a typing error."""
    found = parse_names(value)
    for each in sorted(found):
        name = each.removeprefix("-")  # "-" denies the dialect
        match = nearest(name, DIALECTS)
        if not _EXTENSION.match(name) or (match is not None and match != name):
            known = match or ", ".join(DIALECTS)
            raise ConfigError(f"unknown extension '{shorten(name)}' ({known}?)")
    return found


def parse_plugins(value: JSON, _: Path) -> frozenset[str]:
    from noetl.adapters.plugins.enabled import normalize  # slow, and rarely needed

    found = parse_names(value)
    for name in sorted(found):
        if not _PACKAGE.match(name):
            raise ConfigError(f"'{shorten(name)}' is not the name of a package")
    return frozenset(map(normalize, found))


def parse_names(value: JSON) -> frozenset[str]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise ValueError
    return frozenset(filter(None, (name.strip() for name in names)))


def parse_number(value: JSON, least: int, most: int) -> int:
    if isinstance(value, str) and _NUMBER.match(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    if not least <= value <= most:
        raise ValueError
    return value


def parse_slots(value: JSON, _: Path) -> int:
    return parse_number(value, 1, 1024)


def parse_rate(value: JSON, _: Path) -> int:
    return parse_number(value, 1, 1_000_000)


def parse_results_url(value: JSON, _: Path) -> str | None:
    """Refuse a credential in the URL: ``noetl config`` prints it, and others log it."""
    if not isinstance(value, str):
        raise ValueError
    from urllib.parse import urlsplit

    found = urlsplit(value.rstrip("/"))
    if found.query or found.fragment or "@" in found.netloc:
        raise ConfigError(
            "it must not contain a credential or options; those are read from the "
            "environment (AWS_…, GOOGLE_…, AZURE_…)"
        )
    needs = {"file": not found.netloc and found.path}
    needs |= dict.fromkeys(("s3", "gs", "az"), found.netloc)
    if not found.scheme or not needs.get(found.scheme, found.netloc or found.path):
        raise ValueError
    return found.geturl()


def in_the_home() -> str | None:
    return None


def parse_text(value: JSON, _: Path) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError
    return value.strip()


def parse_port(value: JSON, _: Path) -> int:
    return parse_number(value, 0, 65535)


def parse_server(value: JSON, folder: Path) -> str | None:
    text = parse_text(value, folder)
    if not text.startswith(("http://", "https://")):
        raise ValueError
    return text.rstrip("/")


def parse_ttl(value: JSON, _: Path) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise ValueError from None
    if isinstance(value, bool) or not 1 <= seconds <= 3600:
        raise ValueError
    return seconds


def parse_database(value: JSON, folder: Path) -> str | None:
    text = parse_text(value, folder)
    if not text.startswith(("postgresql://", "postgres://")):
        raise ValueError
    return text


def parse_hosts(value: JSON, _: Path) -> frozenset[str]:
    from noetl.access.request_guard import Hosts

    found = parse_names(value)
    Hosts(found)  # raises for a name that is not a host
    return found


def parse_networks(value: JSON, _: Path) -> frozenset[str]:
    from ipaddress import ip_network

    return frozenset(str(ip_network(each)) for each in parse_names(value))


def parse_switch(value: JSON, _: Path) -> bool:
    words = {"true": True, "1": True, "false": False, "0": False}
    found = words.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise ValueError
    return found


def parse_proxy(value: JSON, folder: Path) -> str | None:
    text = parse_text(value, folder)
    parts = urlsplit(text)
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
        raise ValueError
    if parts.port == 0 or parts.query or parts.fragment:
        raise ValueError
    return text.rstrip("/")


def parse_token(value: JSON, folder: Path) -> str | None:
    return parse_text(value, folder)


def parse_file(value: JSON, folder: Path) -> Path | None:
    """Parse a path; reading the file later checks that it exists."""
    return parse_home(value, folder)


def parse_roles(value: JSON, _: Path) -> dict[str, str]:
    from noetl.access.permissions import read_grant

    found = value
    if isinstance(value, str):
        pairs = [pair.rpartition("=") for pair in value.split(",") if pair.strip()]
        found = {name.strip(): role.strip() for name, _, role in pairs}
    if not isinstance(found, dict) or not all(found):
        raise ValueError
    for name, role in found.items():
        if not isinstance(role, str):
            raise ValueError
        try:
            read_grant(role)
        except AccessError as error:
            raise ConfigError(f"'{shorten(name)}': {error.message}") from None
    return found
