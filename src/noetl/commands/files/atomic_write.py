"""Output files that appear only when they are complete."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from noetl.errors import ConfigError


@contextmanager
def writing(file: str) -> Iterator[BinaryIO]:
    """Open a stream to a file that appears at the end, or to standard output for ``-``.

    Raises ``ConfigError`` if the file cannot be written.
    """
    if file == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replacing(file) as part:
        try:
            with open(part, "xb") as stream:
                yield stream
        except OSError as error:
            raise _unwritable(file, error) from None


@contextmanager
def replacing(file: str) -> Iterator[str]:
    """Yield the name of a temporary file, which replaces ``file`` at the end."""
    path = Path(file)
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield str(part)
        try:
            os.replace(part, path)
        except OSError as error:
            raise _unwritable(file, error) from None
    finally:
        with suppress(OSError):
            part.unlink()


def check_target(option: str, file: str) -> None:
    """Check before a long run that the file can be written at its end."""
    if file == "-":
        return
    if not file:
        raise ConfigError(f"{option}: name a file")
    folder = Path(file).resolve().parent
    if Path(file).is_dir():
        raise ConfigError(f"{option} {file}: this is a folder; name a file in it")
    if not folder.is_dir():
        raise ConfigError(f"{option} {file}: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{option} {file}: {folder} cannot be written")


def _unwritable(file: str, error: OSError) -> ConfigError:
    return ConfigError(f"{file}: cannot be written: {error.strerror or error}")
