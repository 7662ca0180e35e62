"""Settings of logs, traces and exports: what leaves servers and workers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from noetl.config.setting import Setting, parse_names, parse_text
from noetl.errors import ConfigError
from noetl.types import JSON

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
SIGNALS = ("traces", "logs")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")


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


def _none() -> None:
    return None


def _parse_endpoint(value: JSON, folder: Path) -> str | None:
    """Refuse a credential in the address: ``noetl config`` prints it."""
    text = parse_text(value, folder).rstrip("/")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError
    if "@" in parts.netloc or parts.query or parts.fragment:
        message = "it must not contain a credential or options; see otlp_headers"
        raise ConfigError(message)
    return text


def _parse_headers(value: JSON, _: Path) -> dict[str, str] | None:
    found = value
    if isinstance(value, str):
        pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
        if not all(equals for _, equals, _ in pairs):
            raise ValueError
        found = {name.strip(): text.strip() for name, _, text in pairs}
    if not isinstance(found, dict) or not found:
        raise ValueError
    for name, text in found.items():
        if not _TOKEN.fullmatch(name) or not isinstance(text, str):
            raise ValueError
        if not text.isascii() or not text.isprintable():
            raise ValueError
    return found


def _parse_signals(value: JSON, _: Path) -> frozenset[str]:
    found = parse_names(value)
    if not found or not found <= set(SIGNALS):
        raise ValueError
    return found


def _parse_clickhouse(value: JSON, folder: Path) -> str | None:
    text = parse_text(value, folder)
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment:
        raise ValueError
    options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    if not options.keys() <= {"table"} or parts.path.strip("/"):
        raise ValueError
    if not _TABLE.fullmatch(options.get("table", "noetl_events")):
        raise ValueError
    return text


OTLP_ENDPOINT = Setting(
    name="otlp_endpoint",
    words="the address of an OTLP collector: https://collector.example.com:4318",
    doc="The OpenTelemetry collector to which servers send the traces and task logs of "
    "executions that have ended, by OTLP over HTTP in JSON (`/v1/traces`, `/v1/logs`).",
    parse=_parse_endpoint,
    default=_none,
    default_words="none",
)
OTLP_HEADERS = Setting(
    name="otlp_headers",
    words="headers separated by commas: Authorization=Bearer …",
    doc="Headers of the requests to `otlp_endpoint`. A configuration file may have a "
    "table.",
    parse=_parse_headers,
    default=_none,
    default_words="none",
    secret=True,
)
OTLP_SIGNALS = Setting(
    name="otlp_signals",
    words="traces, logs, or both",
    doc="What is sent to `otlp_endpoint`: `logs` are the lines that tasks print. "
    "Playbooks with `metadata.sensitive: true` send no logs.",
    parse=_parse_signals,
    default=lambda: frozenset(SIGNALS),
    default_words="traces,logs",
)
CLICKHOUSE_URL = Setting(
    name="clickhouse_url",
    words="the address of ClickHouse: https://user:password@host:8443/?table=name",
    doc="The ClickHouse to which servers send the events of executions that have "
    "ended. `table` is `noetl_events` by default, and may name a database, too: "
    "`analytics.noetl_events`.",
    parse=_parse_clickhouse,
    default=_none,
    default_words="none",
    secret=True,
)
TELEMETRY: tuple[Setting[Any], ...] = (
    LOG_LEVEL,
    LOG_FORMAT,
    OTLP_ENDPOINT,
    OTLP_HEADERS,
    OTLP_SIGNALS,
    CLICKHOUSE_URL,
)
