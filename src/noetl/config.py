"""Settings: what the environment and the command line say."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from noetl.dsl.diagnostics import nearest
from noetl.dsl.grammar.retired import DIALECTS
from noetl.errors import ConfigError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


def read_extensions(
    flag: str | None, environ: Mapping[str, str] = os.environ
) -> frozenset[str]:
    """The extensions of ``--extensions`` and ``NOETL_EXTENSIONS`` together.

    A name that is nearly a dialect's is refused: a typing error must not silently
    switch nothing on.
    """
    names: set[str] = set()
    for origin, text in (
        ("--extensions", flag),
        ("NOETL_EXTENSIONS", environ.get("NOETL_EXTENSIONS")),
    ):
        for name in (part.strip() for part in (text or "").split(",")):
            if not name:
                continue
            match = nearest(name, DIALECTS)
            if not _NAME.match(name) or (match is not None and match != name):
                known = match or ", ".join(DIALECTS)
                raise ConfigError(f"{origin}: unknown extension '{name}' ({known}?)")
            names.add(name)
    return frozenset(names)
