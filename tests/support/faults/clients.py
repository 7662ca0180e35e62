"""Clients of a cluster: they start, read, signal and cancel executions, and write down
every call and its answer."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from servers import ASKS, HELLO, playbook

from faults.cluster import HUNG, Cluster
from faults.history import Operation

ANSWER_S = 8.0
"""Seconds that a client waits for an answer."""
SETTLE_S = 45.0
"""Seconds after the last fault within which everything must have ended."""
NAPS = playbook(
    "naps",
    """
    - step: start
      loop: {in: "{{ range(6) }}", iterator: i, spec: {mode: parallel, max_in_flight: 2}}
      tool: [{nap: {kind: wait, for: 300ms}}, {end: {kind: noop, result: 1}}]
    """,  # noqa: E501
)
ENDED = frozenset({"completed", "failed", "cancelled"})
KINDS = ("hello", "asks", "naps")
TEXTS = {"hello": HELLO, "asks": ASKS, "naps": NAPS}


class Unanswered(Exception):
    """No server has answered; ``sent`` if one of them may have got the request."""

    def __init__(self, sent: bool) -> None:
        super().__init__()
        self.sent = sent


class Clients:
    """``count`` clients, each in a thread, from ``start`` until ``settle``.

    ``history`` is what they asked and were told. ``strange`` are answers that no client
    should ever get, ``unanswered`` the calls that no server took.
    """

    def __init__(
        self, urls: Sequence[str], token: str, seed: int, *, count: int = 2
    ) -> None:
        self.history: list[Operation] = []
        self.strange: list[str] = []
        self.unanswered = 0
        self.latencies: list[float] = []
        self._urls = urls
        self._token = token
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(
                target=_Client(self, f"client{seed}.{number}", seed + number).run,
                daemon=True,
            )
            for number in range(count)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def settle(self) -> None:
        """Let each client end what it has begun. Nothing must be wrong by now."""
        self._over.set()
        for thread in self._threads:
            thread.join(2 * SETTLE_S)
            if thread.is_alive():
                self.strange.append("a client does not come to an end")

    @property
    def keys(self) -> set[str]:
        """Return the keys of all starts."""
        starts = (each for each in self.history if each.what == "start")
        return {each.key for each in starts if each.key is not None}

    def is_over(self, seconds: float) -> bool:
        return self._over.wait(seconds)

    def note(self, operation: Operation) -> None:
        with self._lock:
            self.history.append(operation)

    def call(
        self, first: int, method: str, path: str, body: Any = None
    ) -> tuple[int, Any]:
        """Ask the servers, one after the other if there is no connection."""
        for turn in range(len(self._urls)):
            parts = urlsplit(self._urls[(first + turn) % len(self._urls)])
            line = http.client.HTTPConnection(
                parts.hostname or "", parts.port, timeout=ANSWER_S
            )
            try:
                line.connect()
            except OSError:
                continue
            try:
                data = None if body is None else json.dumps(body).encode()
                said = {"Authorization": f"Bearer {self._token}"}
                line.request(
                    method, path, data, {**said, "Content-Type": "application/json"}
                )
                response = line.getresponse()
                answer = json.loads(response.read() or b"null")
            except (OSError, http.client.HTTPException) as error:
                raise Unanswered(sent=True) from error
            finally:
                line.close()
            return response.status, answer
        raise Unanswered(sent=False)


class Probe:
    """Measures how long it takes until a cluster accepts an execution again."""

    def __init__(self, cluster: Cluster) -> None:
        self._clients = Clients(cluster.urls, cluster.token, 0, count=0)
        self._turn = 0

    def wait(self) -> float:
        """Start an execution, and again until a server accepts it; return the time."""
        self._turn += 1
        began = time.monotonic()
        body = {"playbook": HELLO, "idempotency_key": f"probe-{self._turn}"}
        while time.monotonic() < began + HUNG:
            try:
                status, _ = self._clients.call(0, "POST", "/api/executions", body)
            except Unanswered:
                status = 0
            if status == 201:
                break
            time.sleep(0.02)
        return time.monotonic() - began


class _Client:
    def __init__(self, clients: Clients, name: str, seed: int) -> None:
        self._clients = clients
        self._name = name
        self._dice = random.Random(f"{name} {seed}")
        self._keys = 0
        self._open: dict[str, str] = {}

    def run(self) -> None:
        """One action after the other; a start whose answer is lost is repeated."""
        while not self._clients.is_over(self._dice.uniform(0.02, 0.15)):
            if len(self._open) < 4:
                self._begin(self._dice.choice(KINDS))
            else:
                self._act(self._dice.choice([*self._open]))
        deadline = time.monotonic() + SETTLE_S
        while self._open and time.monotonic() < deadline:
            for execution in [*self._open]:
                if self._open[execution] == "asks":
                    self._signal(execution)
                self._read(execution)
            time.sleep(0.1)
        for execution, kind in self._open.items():
            status, answer = self._ask("read", execution)
            shown = {name: answer.get(name) for name in ("status", "events", "steps")}
            told = f"{status} {json.dumps(shown)[:200]}"
            message = f"execution {execution} ({kind}) does not end: {told}"
            self._clients.strange.append(message)

    def _begin(self, kind: str) -> None:
        key = f"{self._name}-{self._keys}"
        self._keys += 1
        body = {"playbook": TEXTS[kind], "idempotency_key": key}
        deadline = time.monotonic() + SETTLE_S
        while True:
            status, answer = self._ask("start", "", body, key=key)
            if status == 201:
                self._open[answer["execution_id"]] = kind
                return
            if time.monotonic() > deadline:
                self._clients.strange.append(f"key {key}: no server starts it")
                return
            time.sleep(self._dice.uniform(0.1, 0.4))

    def _act(self, execution: str) -> None:
        order = self._dice.random()
        if order < 0.1:
            self._ask("cancel", execution)
        elif order < 0.3 and self._open[execution] == "asks":
            self._signal(execution)
        else:
            self._read(execution)

    def _signal(self, execution: str) -> None:
        key = f"{self._name}-signal-{self._keys}"
        self._keys += 1
        body = {"name": "go", "data": key}
        self._ask("signal", execution, body, key=key)

    def _read(self, execution: str) -> None:
        status, answer = self._ask("read", execution)
        if status == 200 and answer["status"] in ENDED:
            del self._open[execution]

    def _ask(
        self, what: Any, execution: str, body: Any = None, key: str | None = None
    ) -> tuple[int, Any]:
        path = "/api/executions" + (f"/{execution}" if execution else "")
        method = "GET" if what == "read" else "POST"
        if what in ("cancel", "signal"):
            path += f"/{what}"
        clients, began = self._clients, time.monotonic()
        try:
            first = self._dice.randrange(8)
            status, answer = clients.call(first, method, path, body)
        except Unanswered as error:
            status, answer = 0, {}
            clients.unanswered += 1
            outcome: Any = "info" if error.sent else "fail"
            if what == "read":
                outcome = "info"
        else:
            outcome = self._judge(what, status, answer)
        ended = time.monotonic()
        if status in (200, 201):
            clients.latencies.append(ended - began)
            if what == "start":
                execution = answer["execution_id"]
        clients.note(
            Operation(
                client=self._name,
                what=what,
                outcome=outcome,
                began=began,
                ended=ended,
                execution=execution or None,
                key=key,
                seq=answer.get("events", 0) if what == "read" else 0,
                status=answer.get("status") if what == "read" else None,
            )
        )
        return status, answer

    def _judge(self, what: str, status: int, answer: Any) -> str:
        if status in (200, 201):
            return "ok"
        if status in (429, 503):  # it may have been stored, or not
            return "info"
        if status in (404, 409) and what != "start":
            return "fail"
        told = json.dumps(answer)[:300]
        self._clients.strange.append(f"{what} was answered with {status}: {told}")
        return "info"
