"""Log files of servers and workers: lines of JSON, rotated by size."""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

import msgspec

from noetl.engine.times import rfc3339

MAX_BYTES = 10 * 1024 * 1024
BACKUPS = 5
_OURS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class Lines(logging.Formatter):
    """Formats time, level, logger, message and extra fields as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {k: v for k, v in vars(record).items() if k not in _OURS}
        line = {
            "time": rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields,
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def open_journal(folder: Path, *, foreground: bool, name: str = "server") -> None:
    """Log to ``<name>.log``; in the foreground, NoETL also logs to standard error."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = RotatingFileHandler(
        folder / f"{name}.log",
        maxBytes=MAX_BYTES,
        backupCount=BACKUPS,
        encoding="utf-8",
    )
    file.setFormatter(Lines())
    logger = logging.getLogger("noetl")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(file)
    if foreground:
        screen = logging.StreamHandler(sys.stderr)
        screen.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(screen)
    warnings = logging.getLogger("uvicorn")
    warnings.setLevel(logging.WARNING)
    warnings.propagate = False
    warnings.addHandler(file)
