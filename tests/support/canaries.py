"""Secrets planted in a server's home, and a check that no attacker was told one."""

from __future__ import annotations

import base64
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import servers
from servers import Running

FILE = "canary.txt"
VARIABLE = "CANARY_OF_THE_SERVER"


class Canaries:
    """Records every answer to callers without the admin's token, and every log line."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._answers: list[tuple[str, bytes]] = []
        self._lines: list[str] = []

    def plant(self, name: str, value: str | None = None) -> str:
        """Remember a secret that must not be seen; by default a new one is made."""
        self.values[name] = value or f"canary-{secrets.token_hex(16)}"
        return self.values[name]

    def plant_home(self, home: Path) -> None:
        """Put a canary into a file of the home."""
        (home / FILE).write_text(self.plant("a file of the home") + "\n")

    def learn_server(self, running: Running) -> None:
        """Treat the admin's token and the sealing key as canaries."""
        self.plant("the admin's token", running.token)
        key = running.home.folder / "key"
        if key.is_file():
            self.plant("the sealing key", key.read_bytes().hex())

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record until the block ends."""
        handler = _Lines(self._lines)
        logging.getLogger().addHandler(handler)
        servers.watchers.append(self._note)
        try:
            yield
        finally:
            servers.watchers.remove(self._note)
            logging.getLogger().removeHandler(handler)

    def check(self) -> None:
        """Fail if a canary, in any plain encoding, was answered or logged."""
        forms = [(name, form) for name, v in self.values.items() for form in _forms(v)]
        told = [
            f"{name} was answered to {path}"
            for path, answer in self._answers
            for name, form in forms
            if form in answer
        ]
        log = "\n".join(self._lines).encode("utf-8", "replace")
        told += [f"{name} was logged" for name, form in forms if form in log]
        assert not told, "\n".join(told)

    def _note(self, token: str | None, path: str, answer: bytes) -> None:
        if token != self.values.get("the admin's token"):
            self._answers.append((path, answer))


class _Lines(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        extra = {k: v for k, v in record.__dict__.items() if isinstance(v, str)}
        self._lines.append(f"{self.format(record)} {extra}")


def _forms(value: str) -> set[bytes]:
    """The value as it is, reversed, in hexadecimal and in base64."""
    data = value.encode()
    forms = {data, data[::-1], data.hex().encode()}
    # Base64 has three alignments; the middle of each is the same whatever surrounds it.
    for shift in range(3):
        encoded = base64.b64encode(b"x" * shift + data)
        forms.add(encoded[4:-4] if shift else encoded[:-4])
    return forms
