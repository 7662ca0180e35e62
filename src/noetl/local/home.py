"""``NOETL_HOME``: where logs, results, secrets and the catalog live."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from noetl.config import HOME, read_settings


class Home:
    """The folder and the names of what is in it; made when something is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Home:
        return cls(read_settings(environ)[HOME])

    def make(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def blobs(self) -> Path:
        return self.folder / "results"

    @property
    def drafts(self) -> Path:
        """Results on their way to a store elsewhere, and from there."""
        return self.folder / "tmp" / "results"

    def identity(self) -> str:
        """A name for this home, made once: a store elsewhere knows it by that."""
        file = self.folder / "id"
        self.make()
        with suppress(FileExistsError), file.open("x") as made:
            made.write(f"{secrets.token_hex(16)}\n")
        return file.read_text().strip()

    @property
    def key(self) -> Path:
        """What seals the keychain and the secrets of executions."""
        return self.folder / "key"

    @property
    def keychain(self) -> Path:
        return self.folder / "keychain.json"

    @property
    def sealed(self) -> Path:
        return self.folder / "sealed"

    @property
    def catalog(self) -> Path:
        """Registered playbooks."""
        return self.folder / "catalog.db"

    @property
    def accounts(self) -> Path:
        """Who may call the server, and who is signed in."""
        return self.folder / "accounts.db"

    @property
    def triggers(self) -> Path:
        """What starts executions by itself."""
        return self.folder / "triggers.db"

    @property
    def token(self) -> Path:
        """What opens the server of this home."""
        return self.folder / "token"

    @property
    def server(self) -> Path:
        """Who is the server of this home, and where."""
        return self.folder / "server.json"

    @property
    def workers(self) -> Path:
        """Which workers live."""
        return self.folder / "workers"

    @property
    def server_log(self) -> Path:
        """A log of its own: runs come and go beside it."""
        return self.folder / "log-server.db"

    @property
    def journal(self) -> Path:
        """What servers have to say."""
        return self.folder / "logs"

    def log(self, number: int) -> Path:
        """The log; a run that finds it taken uses the next one (``log-2.db``, …)."""
        return self.folder / ("log.db" if number == 1 else f"log-{number}.db")

    def logs(self) -> list[Path]:
        """All logs that exist."""
        return sorted(self.folder.glob("log*.db"))
