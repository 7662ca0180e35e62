"""Seeds of random tests: new ones for each state of the source."""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
from pathlib import Path

from campaign import FULL

import noetl


def seed_of(variable: str) -> str:
    """Return the seed that the environment names, else one made of the source.

    A change of the package chooses other inputs, so they vary over time; a second run
    of the same source repeats them, so that a failure is still there when it is looked
    at. A full campaign takes a new seed each time.
    """
    if given := os.environ.get(variable):
        return given
    if FULL:
        return str(secrets.randbelow(1_000_000))
    digest = hashlib.sha256(_source_digest() + variable.encode())
    return str(int.from_bytes(digest.digest()[:4]) % 1_000_000)


@functools.cache
def _source_digest() -> bytes:
    found = hashlib.sha256()
    for path in sorted(Path(noetl.__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.digest()
