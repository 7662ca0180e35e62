"""What the doctor says about what it finds; the finding itself is done elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from noetl.adapters.stores.sqlite.connection import Lock, find_holder
from noetl.adapters.stores.sqlite.schema import newest_version
from noetl.commands.doctor_checks import Finding, worst
from noetl.commands.doctor_checks.home import judge_access, judge_log, judge_space
from noetl.commands.doctor_checks.machine import (
    by_extra,
    check_loopback,
    judge_clock,
    judge_extra,
    judge_python,
    judge_sqlite,
)
from noetl.extras import install_command

HERE = Path("/srv/noetl")
GIB = 1024**3
NEWEST = newest_version()


@pytest.mark.parametrize(
    ("finding", "status", "said"),
    [
        (judge_python((3, 10, 9)), "problem", "3.10.9 (CPython); NoETL needs 3.11"),
        (judge_python((3, 11, 0)), "ok", "3.11.0"),
        (judge_sqlite((3, 22, 0)), "problem", "the log needs 3.24"),
        (judge_sqlite((3, 40, 1)), "ok", "versions below 3.51.3 have a bug"),
        (judge_sqlite((3, 51, 3)), "ok", "3.51.3"),
        (judge_clock(0.0), "problem", "1970-01-01 00:00:00 UTC cannot be correct"),
        (judge_clock(1.8e9), "ok", "2027-01-15 08:00:00 UTC"),
        (judge_clock(5e9), "problem", "cannot be correct"),
        (judge_access(HERE, 0o40700, 7, 7), "ok", "0700"),
        (judge_access(HERE, 0o40750, 7, 7), "warning", "0750: other users"),
        (judge_access(HERE, 0o40700, 8, 7), "warning", "belongs to user 8"),
        (judge_space(HERE, 2 * GIB), "ok", "2.0 GiB free at /srv/noetl"),
        (judge_space(HERE, GIB // 2), "warning", "0.5 GiB free"),
        (judge_space(HERE, 1024), "problem", "0.0 GiB free"),
        (judge_log("log.db", NEWEST, 1, None), "ok", f"version {NEWEST}, 1 execution"),
        (
            judge_log("log.db", NEWEST, 2000, "process 7"),
            "ok",
            f"version {NEWEST}, 2,000 executions, in use by process 7",
        ),
        (judge_log("log.db", 0, 0, None), "warning", "version 0"),
    ],
    ids=str,
)
def test_a_finding_says_how_bad_it_is(finding: Finding, status: str, said: str) -> None:
    assert finding.status == status
    assert said in finding.message
    assert (finding.cure is None) == (status == "ok")


def test_loopback_works_here() -> None:
    assert check_loopback() == Finding("loopback", "ok", "127.0.0.1 answers")


def test_the_worst_counts() -> None:
    ok, bad = Finding("a", "ok", ""), Finding("b", "problem", "")
    warning = Finding("c", "warning", "")
    assert worst([]) == "ok"
    assert worst([ok, warning]) == "warning"
    assert worst([warning, bad, ok]) == "problem"


DECLARED = [
    "click>=8.2",
    'duckdb>=1.4; extra == "duckdb"',
    "nats-py>=2; python_version > '3' and extra == 'nats'",
    'nkeys>=0.2; extra == "nats"',
    'pytest; extra == "dev"',
    'duckdb>=1.4; extra == "all"',
]


def test_extras_are_those_that_the_package_declares() -> None:
    assert by_extra(DECLARED) == {
        "duckdb": ["duckdb>=1.4"],
        "nats": ["nats-py>=2", "nkeys>=0.2"],
    }


@pytest.mark.parametrize(
    ("installed", "message"),
    [
        ({"nats-py", "nkeys"}, "installed"),
        (
            {"nats-py"},
            f"not installed; to use it: {install_command('nats')}",
        ),
    ],
)
def test_a_missing_extra_comes_with_the_command(
    installed: set[str], message: str
) -> None:
    wanted = by_extra(DECLARED)["nats"]

    found = judge_extra("nats", wanted, installed.__contains__)

    assert found == Finding("extra nats", "ok", message)


def test_the_holder_of_a_log_is_who_has_it_locked(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    assert find_holder(log) is None
    lock = Lock(log)
    assert str(find_holder(log)) == f"process {os.getpid()}"
    lock.release()
    assert find_holder(log) is None


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "log.db.lock").write_text("1\n")
    assert find_holder(tmp_path / "log.db") is None
