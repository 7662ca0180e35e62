"""``noetl doctor``: real machines, homes and logs, some of them broken."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from servers import Running

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.stores.sqlite.schema import newest_version
from noetl.commands.doctor_checks.home import check_schedules, judge_service
from noetl.local.home import Home

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
HELLO = HEAD + "workflow:\n  - step: start\n    tool: {kind: noop}\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def noetl(home: Path, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "noetl", *args]
    given = {"PATH": os.environ["PATH"], "NOETL_HOME": str(home), **environ}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=given
    )


def examined(home: Path, **environ: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code and the worst finding of each check."""
    done = noetl(home, "doctor", "--json", **environ)
    assert done.stderr == ""
    document = json.loads(done.stdout)
    found: dict[str, dict[str, Any]] = {}
    for each in document["checks"]:
        if each["check"] not in found or each["status"] != "ok":
            found[each["check"]] = each
    problems = any(each["status"] == "problem" for each in document["checks"])
    assert problems == (document["status"] == "problem")
    return done.returncode, found


def test_a_fresh_machine_has_no_problem(home: Path) -> None:
    code, found = examined(home)
    assert code == 0
    assert {
        *("settings", "python", "sqlite", "clock", "loopback", "home", "file system"),
        *("disk", "logs", "python child", "sandbox"),
    } <= found.keys()
    assert found["home"]["message"] == f"{home} (created by the first run)"
    assert found["python child"]["message"] == "starts and answers"
    assert not home.exists()  # looking changes nothing


def test_a_home_in_use_is_reported_with_its_logs(home: Path, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(HELLO)
    assert noetl(home, "run", str(tmp_path / "p.yaml")).returncode == 0
    lock = (home / "log.db.lock").read_text()

    code, found = examined(home)

    assert (code, lock) == (0, "")
    assert found["access"]["message"] == "0700"
    version = newest_version()
    assert found["log.db"]["message"] == f"version {version}, 1 execution"


def test_a_log_in_use_names_its_process(home: Path) -> None:
    store = SqliteStore.open(home / "log.db")
    _, found = examined(home)
    asyncio.run(store.close())
    assert found["log.db"]["message"].endswith(f"in use by process {os.getpid()}")


def test_a_home_that_others_can_read_is_a_warning(home: Path) -> None:
    home.mkdir(mode=0o755)
    code, found = examined(home)
    assert code == 0
    assert found["access"]["status"] == "warning"
    assert found["access"]["cure"] == f"chmod 700 {home}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"not a database" * 100, "not a database", id="no database"),
        pytest.param(b"SQLite format 3\0" + b"\0" * 84, "", id="a damaged one"),
    ],
)
def test_a_log_that_cannot_be_read_is_a_problem(
    home: Path, content: bytes, said: str
) -> None:
    home.mkdir(mode=0o700)
    (home / "log.db").write_bytes(content)
    code, found = examined(home)
    assert code == 1
    assert found["log.db"]["status"] == "problem"
    assert said in found["log.db"]["message"]
    assert found["log.db"]["cure"] == "move the file away, or restore it from a backup"
    assert found["python child"]["status"] == "ok"  # the others are checked, too


def test_a_home_that_is_a_file_is_a_problem(home: Path) -> None:
    home.write_text("")
    code, found = examined(home)
    assert code == 1
    assert found["home"]["message"] == f"{home} is not a folder"


def test_a_broken_setting_is_a_problem_and_not_the_end(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("slot = 1\n")
    code, found = examined(home, NOETL_SLOT="1")
    assert code == 1
    assert (
        "unknown setting 'slot'; did you mean"
        in (noetl(home, "doctor").stdout.splitlines()[0])
    )
    assert found["settings"]["message"].startswith("NOETL_SLOT sets nothing")
    assert "home" not in found
    assert found["loopback"]["status"] == "ok"


def test_a_log_from_the_future_says_that_the_clock_is_wrong(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "log.db").touch()
    os.utime(home / "log.db", (4e9, 4e9))
    _, found = examined(home)
    assert found["clock"]["status"] == "warning"
    assert "is in the future" in found["clock"]["message"]


def test_text_output_has_a_line_per_check_and_its_remedy(home: Path) -> None:
    home.mkdir(mode=0o755)
    done = noetl(home, "doctor")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    [index] = [n for n, line in enumerate(lines) if "0755" in line]
    assert lines[index].startswith("warning  access ")
    assert lines[index + 1].strip() == f"→ chmod 700 {home}"


def test_a_database_role_that_may_do_too_much_is_a_warning(
    home: Path, postgres: str
) -> None:
    """Row 84."""
    code, found = examined(home, NOETL_DATABASE=postgres)

    assert code == 0
    assert found["database"]["status"] == "warning"
    assert "'postgres' is a superuser" in found["database"]["message"]
    assert "database_owner" in found["database"]["cure"]


def test_a_database_that_does_not_answer_is_a_problem(home: Path) -> None:
    address = "postgresql://noetl:hidden@127.0.0.1:1/noetl"
    code, found = examined(home, NOETL_DATABASE=address)

    assert code == 1
    assert found["database"]["status"] == "problem"
    assert "hidden" not in json.dumps(found)


def test_a_home_with_a_cluster_shows_its_services(home: Path) -> None:
    (home / "postgres").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    _, stopped = examined(home)
    assert stopped["services"]["message"].endswith("to start it: noetl up")
    assert stopped["logs"]["message"] == "in the database of the cluster"

    server = Running(home)
    try:
        _, found = examined(home)
    finally:
        server.stop()

    assert (found["server"]["status"], found["schedules"]["status"]) == ("ok", "ok")
    assert server.url in found["server"]["message"]
    for name in ("PostgreSQL", "NATS", "worker"):
        assert (found[name]["status"], found[name]["cure"]) == (
            "warning",
            "start it: noetl up",
        )


def test_schedules_without_their_package_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl.commands.doctor_checks.home.find_spec", lambda _: None)
    home = Home(tmp_path)
    assert list(check_schedules(home)) == [], "it has no server"
    home.triggers.touch()

    [finding] = check_schedules(home)

    assert finding.status == "warning"
    assert "[server]" in (finding.cure or "")


def test_a_worker_that_was_killed_is_a_problem() -> None:
    part = {"name": "worker", "state": "killed", "place": "pool default", "pid": 7}

    finding = judge_service(part)

    assert (finding.status, finding.cure) == ("problem", "start it: noetl up")
    assert finding.message == "killed: pool default (process 7)"
