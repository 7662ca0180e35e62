"""The token of a home: whoever can read it is its owner."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from noetl.access.tokens import API, digest, mint
from noetl.adapters.secrets.private import write_private
from noetl.errors import ConfigError


def make_token(file: Path) -> str:
    """The token; made when it is first needed."""
    token = mint(API, secrets.token_bytes(32))
    with suppress(FileExistsError):
        write_private(file, f"{token}\n".encode(), replace=False)
    return read_token(file)


def read_token(file: Path) -> str:
    """Raises ``ConfigError`` if there is none, or others could read it."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor) as stream:
            mode, token = os.fstat(descriptor).st_mode, stream.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: the token cannot be read: {error}") from None
    if mode & 0o077:
        raise ConfigError(f"{file}: others can read it; run: chmod 600 {file}")
    if digest(token, API) is None:
        raise ConfigError(f"{file} holds no token; delete it, and start the server")
    return token
