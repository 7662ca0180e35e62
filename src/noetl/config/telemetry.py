"""Settings of logs, traces and exports: what leaves servers and workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noetl.config.setting import Setting
from noetl.types import JSON

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")


def _parse_level(value: JSON, _: Path) -> str:
    return _one_of(LEVELS, value)


def _parse_format(value: JSON, _: Path) -> str:
    return _one_of(FORMATS, value)


def _one_of(words: tuple[str, ...], value: JSON) -> str:
    if not isinstance(value, str) or value.lower() not in words:
        raise ValueError
    return value.lower()


LOG_LEVEL = Setting(
    name="log_level",
    words="debug, info, warning or error",
    doc="The lowest level that servers and workers log, to standard error and to their "
    "files below `logs` of the home. `debug` has a line for each execution that starts "
    "or ends, and for each pipeline that a worker begins.",
    parse=_parse_level,
    default=lambda: "info",
    default_words="info",
)
LOG_FORMAT = Setting(
    name="log_format",
    words="text or json",
    doc="The format in which servers and workers log to standard error: lines for "
    "people, with fields as `name=value`, or a JSON object a line. The files below "
    "`logs` of the home are always JSON.",
    parse=_parse_format,
    default=lambda: "text",
    default_words="text",
)
TELEMETRY: tuple[Setting[Any], ...] = (LOG_LEVEL, LOG_FORMAT)
