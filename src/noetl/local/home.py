"""``NOETL_HOME``: the folder of logs, results, secrets and the catalog."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from noetl.adapters.secrets.private_files import make_folder
from noetl.config import HOME, Settings
from noetl.errors import ConfigError


class Home:
    """The paths in the home folder, which is created by the first write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, settings: Settings) -> Home:
        return cls(settings[HOME])

    def make(self) -> None:
        """Create the folder. Raises ``ConfigError``."""
        try:
            make_folder(self.folder)
        except OSError as error:
            message = f"the home {self.folder} cannot be created: {error.strerror}"
            raise ConfigError(message) from error

    @property
    def has_cluster(self) -> bool:
        """Return whether ``noetl up`` has created a PostgreSQL here."""
        return (self.folder / "postgres").is_dir()

    @property
    def blobs(self) -> Path:
        return self.folder / "results"

    @property
    def drafts(self) -> Path:
        """Temporary files of results that are sent to or read from a remote store."""
        return self.folder / "tmp" / "results"

    def identity(self) -> str:
        """Return the id of this home in a shared store; created on first use."""
        file = self.folder / "id"
        self.make()
        with suppress(FileExistsError), file.open("x") as made:
            made.write(f"{secrets.token_hex(16)}\n")
        return file.read_text().strip()

    @property
    def key(self) -> Path:
        """The encryption key of the keychain and of secrets of executions."""
        return self.folder / "key"

    @property
    def keychain(self) -> Path:
        return self.folder / "keychain.json"

    @property
    def sealed(self) -> Path:
        return self.folder / "sealed"

    @property
    def catalog(self) -> Path:
        """The database of registered playbooks."""
        return self.folder / "catalog.db"

    @property
    def accounts(self) -> Path:
        """The database of accounts, tokens and sessions."""
        return self.folder / "accounts.db"

    @property
    def triggers(self) -> Path:
        """The database of triggers."""
        return self.folder / "triggers.db"

    @property
    def token(self) -> Path:
        """The token of the server of this home."""
        return self.folder / "token"

    @property
    def logins(self) -> Path:
        """The tokens that ``noetl login`` has got, by server."""
        return self.folder / "logins.json"

    @property
    def server(self) -> Path:
        """The locked file with process and address of the server."""
        return self.folder / "server.json"

    @property
    def database_mark(self) -> Path:
        """Notes of the server about its database, to notice that it was restored."""
        return self.folder / "database.json"

    @property
    def workers(self) -> Path:
        """The folder of the locked files of workers."""
        return self.folder / "workers"

    @property
    def server_log(self) -> Path:
        """The server's event log, separate from those of ``noetl run``."""
        return self.folder / "log-server.db"

    @property
    def task_logs(self) -> Path:
        """The folder of what tasks print, one file per execution."""
        return self.folder / "task-logs"

    @property
    def journal(self) -> Path:
        """The folder of the servers' log files."""
        return self.folder / "logs"

    def log(self, number: int) -> Path:
        """Return a log by number; a run uses the first free one (``log-2.db``, …)."""
        return self.folder / ("log.db" if number == 1 else f"log-{number}.db")

    def logs(self) -> list[Path]:
        """List the logs that exist."""
        return sorted(self.folder.glob("log*.db"))
