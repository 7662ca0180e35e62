"""Logs of servers and workers: levels, formats, ids, and what is masked in them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.config import read_settings
from noetl.errors import ConfigError
from noetl.local.log_files import open_log

log = logging.getLogger("noetl.test")
IDS = {"execution_id": "e-1", "command_id": "e-1/r1"}


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Give the loggers back as they were."""
    kept = [logging.getLogger(name) for name in ("noetl", "uvicorn")]
    states = [(each.level, each.propagate, list(each.handlers)) for each in kept]
    yield
    for each, (level, propagate, handlers) in zip(kept, states, strict=True):
        for handler in set(each.handlers) - set(handlers):
            each.removeHandler(handler)
            if isinstance(handler, logging.FileHandler):
                handler.close()
        each.setLevel(level)
        each.propagate = propagate


def begin(folder: Path, secrets: list[str] | None = None, **environ: str) -> None:
    settings = read_settings({"NOETL_HOME": str(folder), **environ})
    about = {"role": "worker", "worker": "w-1"}
    open_log(folder, settings, name="worker", secrets=secrets or [], about=about)


def in_file(folder: Path) -> list[dict[str, object]]:
    lines = (folder / "worker.log").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_line_of_text_has_time_level_message_and_ids(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(tmp_path)

    log.warning("gave up step %s", "fetch", extra={**IDS, "why": "lost it"})

    time, rest = capsys.readouterr().err.strip().split(" ", 1)
    assert time.endswith("Z")
    assert rest == (
        "warning gave up step fetch role=worker worker=w-1 "
        'execution_id=e-1 command_id=e-1/r1 why="lost it"'
    )


def test_a_line_of_json_has_the_same_on_standard_error_and_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(tmp_path, NOETL_LOG_FORMAT="json")

    log.info("a pipeline begins", extra={**IDS, "attempt": 2})

    line = json.loads(capsys.readouterr().err)
    del line["time"]
    assert line == {
        "level": "info",
        "logger": "noetl.test",
        "message": "a pipeline begins",
        "role": "worker",
        "worker": "w-1",
        **IDS,
        "attempt": 2,
    }
    assert in_file(tmp_path)[0]["command_id"] == "e-1/r1"


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param("debug", ["debug", "info", "warning", "error"], id="debug"),
        pytest.param("info", ["info", "warning", "error"], id="info"),
        pytest.param("WARNING", ["warning", "error"], id="capital letters"),
        pytest.param("error", ["error"], id="error"),
    ],
)
def test_lines_below_the_level_are_not_written(
    tmp_path: Path, level: str, expected: list[str]
) -> None:
    begin(tmp_path, NOETL_LOG_LEVEL=level)

    for name in ("debug", "info", "warning", "error"):
        log.log(logging.getLevelNamesMapping()[name.upper()], "x")

    assert [each["level"] for each in in_file(tmp_path)] == expected


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    ("message", "secret"),
    [
        pytest.param("no login with %s", "t0ken-of-the-home", id="the token"),
        pytest.param("at postgresql://noetl:%s@db/x", "an0ther-pw", id="any URL"),
        pytest.param("%s was refused", "pa55-of-the-db", id="password of a setting"),
    ],
)
def test_a_secret_is_masked_in_message_field_and_traceback(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    form: str,
    message: str,
    secret: str,
) -> None:
    database = "postgresql://noetl:pa55-of-the-db@db/noetl"
    begin(
        tmp_path,
        ["t0ken-of-the-home"],
        NOETL_LOG_FORMAT=form,
        NOETL_DATABASE=database,
    )

    try:
        raise ValueError(message % secret)
    except ValueError:
        log.exception(message, secret, extra={"detail": message % secret})

    shown = capsys.readouterr().err
    assert "***" in shown
    assert "ValueError" in shown
    assert secret not in shown
    assert secret not in (tmp_path / "worker.log").read_text()


def test_a_message_of_several_lines_cannot_pass_for_several_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(tmp_path)

    log.warning("refused: %s", "x\n2026 error all is lost", extra={"path": "a\nb"})

    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NOETL_LOG_LEVEL", "debug, info, warning or error"),
        ("NOETL_LOG_FORMAT", "text or json"),
    ],
)
def test_another_level_or_format_is_refused(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: expected {words}, found 'loud'"):
        read_settings({name: "loud"})
