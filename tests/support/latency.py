"""How long a server keeps others waiting while it is attacked."""

from __future__ import annotations

import http.client
import threading
import time
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

LIMIT = 0.25
"""Seconds that ``/healthz`` may take during any request (I-38, I-43)."""
PATIENCE = 30.0
"""Seconds after which a poll is given up and counted as this long."""


class Latency:
    """Polls ``/healthz`` from a thread, and records the worst answer.

    Use it around the hostile request::

        with Latency(running.url) as latency:
            api.post("/api/validate", hostile)
        latency.check()
    """

    def __init__(self, url: str, pause: float = 0.005) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._pause = pause
        self._over, self._polled = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self.samples: list[float] = []
        self.failures: list[str] = []

    def __enter__(self) -> Latency:
        self._thread.start()
        assert self._polled.wait(PATIENCE), "/healthz does not answer"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join(2 * PATIENCE)

    @property
    def worst(self) -> float:
        """The longest that an answer took, in seconds."""
        return max(self.samples)

    def check(self, limit: float = LIMIT) -> None:
        """Fail if an answer took longer than ``limit`` seconds, or did not come."""
        assert not self.failures, self.failures
        assert self.worst < limit, f"/healthz took {self.worst:.3f} s"

    def _poll(self) -> None:
        connection = http.client.HTTPConnection(
            self._host, self._port, timeout=PATIENCE
        )
        try:
            while True:  # at least once after the attack is over
                last = self._over.is_set()
                self._ask(connection)
                self._polled.set()
                if last:
                    return
                self._over.wait(self._pause)
        finally:
            connection.close()

    def _ask(self, connection: http.client.HTTPConnection) -> None:
        began, queued = time.perf_counter(), queued_seconds()
        try:
            connection.request("GET", "/healthz")
            response = connection.getresponse()
            response.read()
            if response.status != 200:
                self.failures.append(f"/healthz answered {response.status}")
        except (OSError, http.client.HTTPException) as error:
            self.failures.append(f"/healthz: {type(error).__name__}: {error}")
            connection.close()
        took = time.perf_counter() - began
        later = queued_seconds()
        waits = (later[each] - queued.get(each, 0.0) for each in later)
        self.samples.append(took - min(took, max(waits, default=0.0)))


def queued_seconds() -> dict[str, float]:
    """Return how long each thread of this process has waited for a processor.

    Other processes of the machine cause that wait, not the server: it is not counted.
    """
    found: dict[str, float] = {}
    for file in Path("/proc/self/task").glob("*/schedstat"):
        try:
            found[file.parent.name] = int(file.read_text().split()[1]) / 1e9
        except (OSError, IndexError):  # the thread has ended
            continue
    return found
