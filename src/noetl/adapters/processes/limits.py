"""Limits of a call: time, memory and disk.

The setting ``limits.memory`` is the ``ceiling`` of ``spec.memory``, and its default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from noetl.dsl.times import parse_duration
from noetl.errors import ToolError
from noetl.types import JSON

_SIZE = re.compile(r"\s*+([0-9]+(?:\.[0-9]+)?)\s*+([KMGT]?)(i?)B?\s*+\Z", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_MAX_BYTES = 2**50
_UNITS = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


def read_timeout(spec: Mapping[str, JSON]) -> float | None:
    """Return seconds, or None for no limit. In a mapping, ``total`` counts."""
    value = spec.get("timeout")
    if isinstance(value, Mapping):
        value = value.get("total")
    if value is None:
        return None
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ToolError("tool.contract", f"spec.timeout: {error}") from None


ISOLATIONS = ("warm", "fresh", "required")


def read_isolation(spec: Mapping[str, JSON]) -> str:
    """Return ``warm``, ``fresh`` or ``required``. Raises ``ToolError``."""
    isolation = spec.get("isolation", "warm")
    if isolation not in ISOLATIONS:
        message = f"spec.isolation: {isolation!r:.40} is not warm, fresh or required"
        raise ToolError("tool.contract", message)
    return str(isolation)


def read_memory(spec: Mapping[str, JSON], ceiling: int | None = None) -> int | None:
    """Return bytes, or None for no limit."""
    asked = read_size(spec, "memory")
    if asked is None or ceiling is None:
        return ceiling if asked is None else asked
    return min(asked, ceiling)


def tell_memory(spec: Mapping[str, JSON], ceiling: int | None = None) -> str:
    """Return a message about code that ran out of memory, with a remedy."""
    asked = read_size(spec, "memory")
    if asked is not None and (ceiling is None or asked < ceiling):
        more = "" if ceiling is None else f", up to {size_words(ceiling)}"
        return (
            f"the code needed more memory than the {size_words(asked)} of spec.memory: "
            f"raise spec.memory{more}, or work in smaller parts"
        )
    if ceiling is None:
        return (
            "the code needed more memory than this machine has: work in smaller parts "
            "(neither spec.memory nor the setting limits.memory limits it)"
        )
    return (
        f"the code needed more memory than the {size_words(ceiling)} of the setting "
        "limits.memory (NOETL_LIMITS_MEMORY), which is the maximum of spec.memory: "
        "work in smaller parts, or raise the setting"
    )


def size_words(size: int) -> str:
    """Format a size: ``4 GiB`` or ``1.5 GiB``."""
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:,.1f}".removesuffix(".0") + f" {name}"
    return f"{size:,} bytes"


def read_disk(spec: Mapping[str, JSON]) -> int | None:
    """Return the maximum bytes of one file, or None for no limit."""
    return read_size(spec, "disk")


def read_size(spec: Mapping[str, JSON], name: str) -> int | None:
    """Return bytes, or None if not given; ``MiB`` is binary, ``MB`` decimal."""
    value = spec.get(name)
    if value is None:
        return None
    try:
        return parse_size(value)
    except ValueError:
        message = f"spec.{name}: {value!r:.40} is not a size such as 512MiB"
        raise ToolError("tool.contract", message) from None


def parse_size(value: JSON) -> int:
    """Return the bytes of a number or a text. Raises ``ValueError``."""
    found = _SIZE.match(str(value)) if not isinstance(value, bool) else None
    if found is None:
        raise ValueError
    number, unit, binary = found.groups()
    size = int(float(number) * (1024 if binary else 1000) ** _POWERS[unit.upper()])
    return min(max(size, 1), _MAX_BYTES)


# An allow-list: a worker's environment has credentials under arbitrary names.
_PASSED = {"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TZ", "USER"} | {
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
}
_PATH = "/usr/local/bin:/usr/bin:/bin"


def clean_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that programs need, and none that are meant for NoETL."""
    environ = os.environ if environ is None else environ
    passed = {
        name: value
        for name, value in environ.items()
        if name in _PASSED or name.startswith("LC_")
    }
    passed.setdefault("PATH", _PATH)
    return passed
