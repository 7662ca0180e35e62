"""Tokens that ``noetl login`` has got: one for each server, in a file of the home."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from noetl.adapters.secrets.private_files import make_folder, write_private
from noetl.errors import ConfigError

_MAX_BYTES = 1024 * 1024
_PORTS = {"http": 80, "https": 443}


class KeptLogin(msgspec.Struct, frozen=True):
    """A token of an account at a server, until ``expires_at``."""

    token: str
    token_id: str
    user: str
    expires_at: str

    def __repr__(self) -> str:
        return f"KeptLogin({self.token_id!r})"


def origin_of(url: str) -> str:
    """Return scheme, host and port: a token is sent to no other server."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        raise ConfigError(f"{url:.200}: not a valid server address") from None
    return f"{parts.scheme}://{parts.hostname}:{port}"


def read_logins(file: Path) -> dict[str, KeptLogin]:
    """Return the logins by origin. Raises ``ConfigError`` if others can read them."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        message = f"{file}: the logins cannot be read: {error.strerror}"
        raise ConfigError(message) from None
    with os.fdopen(descriptor, "rb") as stream:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
            message = f"{file}: other users can read it; run: chmod 600 {file}"
            raise ConfigError(message)
        text = stream.read(_MAX_BYTES)
    try:
        return msgspec.json.decode(text, type=dict[str, KeptLogin])
    except msgspec.DecodeError:
        message = f"{file} has no logins; delete it, and run: noetl login"
        raise ConfigError(message) from None


def find_login(file: Path, url: str) -> KeptLogin | None:
    return read_logins(file).get(origin_of(url)) if file.exists() else None


def keep_login(file: Path, url: str, login: KeptLogin) -> None:
    make_folder(file.parent)
    found = {**read_logins(file), origin_of(url): login}
    write_private(file, msgspec.json.encode(found))


def forget_login(file: Path, url: str) -> None:
    found = read_logins(file)
    del found[origin_of(url)]
    if found:
        write_private(file, msgspec.json.encode(found))
    else:
        file.unlink()
