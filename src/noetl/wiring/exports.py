"""Makes the exports that the settings ask for."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

from noetl.adapters.exports.clickhouse import ClickHouseExport
from noetl.adapters.exports.http import Receiver
from noetl.adapters.exports.otlp import OtlpExport
from noetl.client.tls import trusted
from noetl.config import (
    CLICKHOUSE_URL,
    OTLP_ENDPOINT,
    OTLP_HEADERS,
    OTLP_SIGNALS,
    Settings,
)
from noetl.ports import Export


def make_exports(settings: Settings) -> list[Export]:
    """Return the exports; nothing is connected until the first delivery."""
    found: list[Export] = []
    endpoint, clickhouse = settings[OTLP_ENDPOINT], settings[CLICKHOUSE_URL]
    if endpoint is not None:
        headers, signals = settings[OTLP_HEADERS], settings[OTLP_SIGNALS]
        found.append(OtlpExport(_receiver(endpoint, headers or {}), signals))
    if clickhouse is not None:
        found.append(_make_clickhouse(clickhouse))
    return found


def _make_clickhouse(text: str) -> ClickHouseExport:
    parts = urlsplit(text)
    headers = {}
    if parts.username:
        headers["X-ClickHouse-User"] = unquote(parts.username)
        headers["X-ClickHouse-Key"] = unquote(parts.password or "")
    place = parts.netloc.rpartition("@")[2]
    receiver = _receiver(f"{parts.scheme}://{place}", headers)
    table = dict(parse_qsl(parts.query)).get("table", "noetl_events")
    return ClickHouseExport(receiver, table)


def _receiver(url: str, headers: dict[str, str]) -> Receiver:
    return Receiver(url, headers, trusted() if url.startswith("https://") else None)
