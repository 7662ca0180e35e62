"""Texts of settings → values; ``ValueError`` where they do not fit."""

from __future__ import annotations

import re
from pathlib import Path

from noetl.dsl.diagnostics import nearest
from noetl.dsl.grammar.dialects import DIALECTS
from noetl.dsl.node import shorten
from noetl.errors import AccessError, ConfigError
from noetl.types import JSON

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
    """A name that is nearly a dialect's is refused: a typing error must not silently
    switch nothing on."""
    found = parse_names(value)
    for each in sorted(found):
        name = each.removeprefix("-")  # that one is denied
        match = nearest(name, DIALECTS)
        if not _EXTENSION.match(name) or (match is not None and match != name):
            known = match or ", ".join(DIALECTS)
            raise ConfigError(f"unknown extension '{shorten(name)}' ({known}?)")
    return found


def parse_plugins(value: JSON, _: Path) -> frozenset[str]:
    from noetl.adapters.plugins.packages import normalize  # slow, and seldom needed

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


def parse_slots(value: JSON, _: Path) -> int:
    if isinstance(value, str) and _NUMBER.match(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1024:
        raise ValueError
    return value


def parse_rate(value: JSON, _: Path) -> int:
    if isinstance(value, str) and _NUMBER.match(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    if not 1 <= value <= 1_000_000:
        raise ValueError
    return value


def parse_results_url(value: JSON, _: Path) -> str | None:
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


def in_the_home() -> str | None:
    return None


def parse_text(value: JSON, _: Path) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError
    return value.strip()


def parse_port(value: JSON, _: Path) -> int:
    if isinstance(value, str) and _NUMBER.match(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 65536:
        raise ValueError
    return value


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
    from noetl.access.browsers import Hosts

    found = parse_names(value)
    Hosts(found)  # raises for what is none
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


def parse_nats(value: JSON, folder: Path) -> str | None:
    text = parse_text(value, folder)
    if not text.startswith(("nats://", "tls://")):
        raise ValueError
    return text


def parse_token(value: JSON, folder: Path) -> str | None:
    return parse_text(value, folder)


def parse_file(value: JSON, folder: Path) -> Path | None:
    """Whether it is there is seen when it is read."""
    return parse_home(value, folder)


def parse_roles(value: JSON, _: Path) -> dict[str, str]:
    from noetl.access.grants import read_grant

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
