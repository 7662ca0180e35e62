"""Files that commands write: whole under their name, or not there."""

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
    """A stream to a file that appears at the end, or to standard output for ``-``.

    Raises ``ConfigError`` where it cannot be written.
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
    """The name of a part beside the file; it takes the file's place at the end."""
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


def _unwritable(file: str, error: OSError) -> ConfigError:
    return ConfigError(f"{file}: cannot be written: {error.strerror or error}")
