"""Settings of retention: how long executions are kept, and their archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from noetl.config.setting import Setting, parse_results_url
from noetl.dsl.times import parse_retention
from noetl.errors import ConfigError
from noetl.types import JSON

_OFF = "off"
_LEAST_AUDIT_S = 30 * 86_400.0
_SCHEMES = ("file", "s3", "gs", "az")


def parse_age(value: JSON, _: Path) -> float | None:
    if value == _OFF:
        return None
    if isinstance(value, str) and value.strip().replace(".", "").isdigit():
        raise ConfigError(f"'{value}' has no unit; write {value.strip()}d")
    if not isinstance(value, str):
        raise ValueError
    return parse_retention(value)


def parse_audit_age(value: JSON, folder: Path) -> float | None:
    seconds = parse_age(value, folder)
    if seconds is not None and seconds < _LEAST_AUDIT_S:
        raise ValueError
    return seconds


def parse_archive(value: JSON, folder: Path) -> str | None:
    url = parse_results_url(value, folder)
    if url is None or urlsplit(url).scheme not in _SCHEMES:
        raise ValueError
    return url


def _none() -> None:
    return None


RETENTION: Setting[float | None] = Setting(
    name="retention",
    words="a duration from 1m on with a unit (90d, 12h), or off",
    doc="The time after its end at which a server removes an execution, with its "
    "events, task logs and values. Families go together; what runs, waits or was "
    "forked stays. `executor.spec.retention` of a playbook replaces it for its "
    "executions. See [Retention](../how-to/retention.md).",
    parse=parse_age,
    default=_none,
    default_words="off: executions are kept",
)
ARCHIVE_URL: Setting[str | None] = Setting(
    name="archive_url",
    words="file:///folder, s3://bucket/folder, gs://bucket/folder or "
    "az://container/folder, without credentials and options",
    doc="The place to which a server copies executions as Parquet before it removes "
    "them. Needs the extra `duckdb`. Credentials come from the cloud's own variables, "
    "as for `results_url`.",
    parse=parse_archive,
    default=_none,
    default_words="none: what is removed is not copied",
)
RETENTION_AUDIT: Setting[float | None] = Setting(
    name="retention_audit",
    words="a duration from 30d on (365d), or off",
    doc="The time after which a server removes an entry of the audit. They are not "
    "archived: `noetl audit --json` exports them.",
    parse=parse_audit_age,
    default=_none,
    default_words="off: the audit is kept",
)
RETENTION_SETTINGS: tuple[Setting[Any], ...] = (RETENTION, ARCHIVE_URL, RETENTION_AUDIT)
