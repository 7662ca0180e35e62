"""A peer whose effects have no key: it writes down every call, and who came at once."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORK = 0.03
"""Seconds that an effect takes: two owners of one action would meet in it."""


class Ledger:
    """``calls`` by execution and index; ``overlaps`` are calls that met another one of
    the same action."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, int]] = Counter()
        self.overlaps = 0
        self._inside: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()
        ledger = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                ledger.note((said["run"], said["i"]))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "4")
                self.end_headers()
                self.wfile.write(b"true")

            def log_message(self, *_: object) -> None:
                """The counters say it all."""

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """A caller that was killed."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def note(self, action: tuple[str, int]) -> None:
        with self._lock:
            self.calls[action] += 1
            self.overlaps += self._inside[action] > 0
            self._inside[action] += 1
        time.sleep(WORK)
        with self._lock:
            self._inside[action] -= 1

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
