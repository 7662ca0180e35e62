"""What a server has to say: a line of JSON each, in files that do not grow for ever."""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

import msgspec

from noetl.engine.times import rfc3339

LARGEST = 10 * 1024 * 1024
KEPT = 5
_OURS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class Lines(logging.Formatter):
    """Time, level, logger, message, and the fields that were given beside it."""

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
    """Write to ``server.log``; what matters also to whoever looks on."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = RotatingFileHandler(
        folder / f"{name}.log", maxBytes=LARGEST, backupCount=KEPT, encoding="utf-8"
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
