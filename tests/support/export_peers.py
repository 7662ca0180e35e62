"""Receivers of exports on loopback: an OTLP collector, and ClickHouse's HTTP port.

The collector keeps spans by their ids and log records by their uid. ClickHouse keeps
rows by the key of their table, as its engine does in the end, and drops an insert
whose token it has seen.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

HUNG = 60.0
"""Seconds after which what does not arrive is declared lost."""


class Peer:
    """What has arrived. ``status`` is the answer to each request while it is set;
    ``refuses`` is a text that no body may contain."""

    def __init__(self) -> None:
        self.url = ""
        self.status: int | None = None
        self.answer = b"{}"
        self.refuses: str | None = None
        self.requests: list[tuple[str, Mapping[str, str]]] = []
        self.received = 0
        self.spans: dict[tuple[str, str], dict[str, Any]] = {}
        self.logs: dict[str, dict[str, Any]] = {}
        self.rows: dict[tuple[str, int], dict[str, Any]] = {}
        self.tokens: set[str] = set()
        self.changed = threading.Condition()
        self.keep: Callable[[bytes], object] = len
        """Called with the body of each insert."""

    def until(self, is_true: Callable[[], bool]) -> None:
        """Wait until this is true of what has arrived."""
        with self.changed:
            assert self.changed.wait_for(is_true, HUNG), "it does not arrive"

    def take(self, path: str, body: bytes) -> int:
        """Take a request; return the status of the answer."""
        with self.changed:
            status = self._take(path, body)
            self.changed.notify_all()
            return status

    def _take(self, path: str, body: bytes) -> int:
        if self.status is not None:
            return self.status
        if self.refuses is not None and self.refuses.encode() in body:
            return 400
        parts = urlsplit(path)
        if parts.path == "/":
            self._insert(parse_qs(parts.query), body)
        elif parts.path == "/v1/traces":
            for record in _records(body, "resourceSpans", "scopeSpans", "spans"):
                self.received += 1
                self.spans[record["traceId"], record["spanId"]] = record
        elif parts.path == "/v1/logs":
            for record in _records(body, "resourceLogs", "scopeLogs", "logRecords"):
                self.received += 1
                self.logs[_attributes(record)["log.record.uid"]] = record
        else:
            return 404
        return 200

    def _insert(self, query: Mapping[str, list[str]], body: bytes) -> None:
        self.keep(body)
        [token] = query["insert_deduplication_token"]
        if token in self.tokens:
            return
        self.tokens.add(token)
        for line in body.splitlines():
            row = json.loads(line)
            self.received += 1
            self.rows[row["execution_id"], row["seq"]] = row


def _records(body: bytes, resources: str, scopes: str, records: str) -> Iterator[Any]:
    for resource in json.loads(body)[resources]:
        for scope in resource[scopes]:
            yield from scope[records]


def _attributes(record: Mapping[str, Any]) -> dict[str, Any]:
    return {a["key"]: next(iter(a["value"].values())) for a in record["attributes"]}


@contextmanager
def receiving(port: int = 0) -> Iterator[Peer]:
    """Run a receiver until the block ends."""
    peer = Peer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            peer.requests.append((self.path, dict(self.headers)))
            status = peer.take(self.path, body)
            answer = peer.answer if status == 200 else b"no\n"
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    peer.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield peer
    finally:
        server.shutdown()
        server.server_close()
