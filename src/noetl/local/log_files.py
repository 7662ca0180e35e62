"""Logs of servers and workers: a file of JSON lines, and standard error."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from logging.handlers import RotatingFileHandler
from pathlib import Path

import msgspec

from noetl.config import LOG_FORMAT, LOG_LEVEL, MASK, Settings
from noetl.engine.times import rfc3339
from noetl.types import JSON

MAX_BYTES = 10 * 1024 * 1024
BACKUPS = 5
MIN_SECRET = 6
"""Characters of the shortest setting that is masked: shorter ones are in any text."""
_OURS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_PASSWORD = re.compile(r"(?<=://)([^\s/@:]{0,400}):[^\s/@]{1,400}@")
_PASSWORD_OF = re.compile(r"://[^\s/@:]*:([^\s/@]+)@")
_BARE = re.compile(r"[!#-<>-\[\]-~]+")
"""A value that needs no quotes: printable, without spaces, '"', '=' and '\\'."""


class Redaction:
    """Masks secrets of the process: the values of secret settings, and passwords in
    URLs."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {each for each in secrets if len(each) >= MIN_SECRET}
        ordered = sorted(known, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered))) if known else None

    def __call__(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(MASK, text)
        return _PASSWORD.sub(rf"\1:{MASK}@", text) if "://" in text else text


def secret_texts(settings: Settings) -> list[str]:
    """Return the values of the secret settings that are set, and passwords in them."""
    found = [each.value for each in settings if each.setting.secret]
    texts = [each for each in found if isinstance(each, str)]
    for each in found:
        texts += each.values() if isinstance(each, dict) else ()
    return texts + [each for text in texts for each in _PASSWORD_OF.findall(text)]


class _Formatter(logging.Formatter):
    """Collects the fields of a record: those of the process, and its own."""

    def __init__(self, about: Mapping[str, str], redact: Redaction) -> None:
        super().__init__()
        self._about = about
        self._redact = redact

    def fields_of(self, record: logging.LogRecord) -> dict[str, JSON]:
        own = {k: v for k, v in vars(record).items() if k not in _OURS}
        return {**self._about, **own}

    def traceback_of(self, record: logging.LogRecord) -> str | None:
        return self.formatException(record.exc_info) if record.exc_info else None


class JsonLines(_Formatter):
    """Formats time, level, logger, message and fields as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, JSON] = {
            "time": rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redact(record.getMessage()),
        }
        for name, value in self.fields_of(record).items():
            is_text = not isinstance(value, int | float | None)
            line[name] = self._redact(str(value)) if is_text else value
        if traceback := self.traceback_of(record):
            line["traceback"] = self._redact(traceback)
        return msgspec.json.encode(line).decode()


class TextLines(_Formatter):
    """Formats a record as one line, fields as ``name=value``; a traceback follows."""

    def format(self, record: logging.LogRecord) -> str:
        words = [rfc3339(record.created), f"{record.levelname.lower():<7}"]
        words += [_one_line(record.getMessage())]
        words += [f"{k}={_word(v)}" for k, v in self.fields_of(record).items()]
        text = " ".join(words)
        if traceback := self.traceback_of(record):
            text += "\n" + traceback
        return self._redact(text)


def _one_line(text: str) -> str:
    """Escape line breaks and control characters: a line must not pass for several."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _word(value: JSON) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) else msgspec.json.encode(text).decode()


def open_log(
    folder: Path,
    settings: Settings,
    *,
    name: str = "server",
    secrets: Sequence[str] = (),
    about: Mapping[str, str] | None = None,
) -> None:
    """Log to the file ``<name>.log`` as JSON, and to standard error in the format of
    ``NOETL_LOG_FORMAT``.

    ``about`` are fields of every line; ``secrets`` are masked besides those of the
    settings.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = Redaction([*secret_texts(settings), *secrets])
    about = about or {}
    file = RotatingFileHandler(
        folder / f"{name}.log",
        maxBytes=MAX_BYTES,
        backupCount=BACKUPS,
        encoding="utf-8",
    )
    screen = logging.StreamHandler(sys.stderr)
    form = JsonLines if settings[LOG_FORMAT] == "json" else TextLines
    file.setFormatter(JsonLines(about, known))
    screen.setFormatter(form(about, known))
    level = settings[LOG_LEVEL].upper()
    for logger_name in ("noetl", "uvicorn"):
        logger = logging.getLogger(logger_name)
        logger.propagate = False
        for handler in (file, screen):
            logger.addHandler(handler)
    logging.getLogger("noetl").setLevel(level)
    quiet = max(logging.WARNING, logging.getLevelNamesMapping()[level])
    logging.getLogger("uvicorn").setLevel(quiet)
