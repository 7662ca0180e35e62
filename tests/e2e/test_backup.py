"""A home is backed up while it is used, and restored elsewhere."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from noetl.commands.local.backups import restore_backup, write_backup
from noetl.errors import ConfigError
from noetl.local.home import Home

ABOUT = ("1.0", "2026-11-20T00:00:00Z", None)
WAITS = """
- step: start
  tool:
    - ask: {kind: wait, signal: go}
    - large: {kind: python, code: "result = 'row ' * 30000"}
"""
DONE = """
- step: start
  tool: {kind: python, code: "print('hello'); result = 'row ' * 30000"}
"""


def test_an_open_execution_ends_in_the_restored_home(shell, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    shell.run(shell.write("done", DONE))
    shell.noetl("keychain", "set", "api", stdin="tok-3f9a7c21")
    running = shell.start("run", shell.write("waits", WAITS))
    execution_id = shell.await_event(running, "waits", "task.suspended")

    made = shell.noetl("backup", "--with-keys", "home.tar.gz", "--json")
    running.kill()
    running.communicate()
    shutil.rmtree(shell.home)
    restored = shell.noetl("restore", "home.tar.gz", "--json")

    assert made.returncode == restored.returncode == 0, made.stderr + restored.stderr
    assert json.loads(made.stdout)["not_included"] == []
    assert json.loads(restored.stdout)["keys"] is True
    checked = shell.noetl("verify", "--execution", "all")
    assert checked.returncode == 0, checked.stdout
    assert shell.noetl("keychain", "list").stdout.count("api") == 1
    waiting = shell.start("resume", execution_id)
    shell.noetl("signal", execution_id, "go")
    waiting.communicate()
    statuses = {each["playbook"]["name"]: each["status"] for each in shell.executions()}
    assert statuses == {"done": "completed", "waits": "completed"}


def test_an_archive_says_what_it_leaves_out(shell) -> None:  # type: ignore[no-untyped-def]
    shell.run(shell.write("done", DONE))
    shell.noetl("keychain", "set", "api", stdin="tok-3f9a7c21")
    shell.set(NOETL_DATABASE="postgresql://noetl:pass-word@db.example.com/noetl")

    made = shell.noetl("backup", "home.tar")

    assert made.returncode == 0, made.stderr
    assert "PostgreSQL (db.example.com" in made.stderr
    assert "pass-word" not in made.stderr
    assert str(shell.home / "key") in made.stderr
    with tarfile.open(shell.folder / "home.tar") as archive:
        names = archive.getnames()
    assert {"key", "token"} & {*names} == set()
    assert {"log.db", "keychain.json", "manifest.json"} <= {*names}
    assert (shell.folder / "home.tar").stat().st_mode & 0o777 == 0o600
    again = shell.noetl("backup", "home.tar")
    assert (again.returncode, "exists" in again.stderr) == (2, True)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    home = Home(tmp_path / "old")
    (home.folder / "results").mkdir(parents=True)
    (home.folder / "results" / "value").write_bytes(b"value")
    (home.folder / "id").write_text("home\n")
    write_backup(home, tmp_path / "home.tar.gz", keys=False, about=ABOUT)
    return tmp_path / "home.tar.gz"


def repack(archive: Path, change: Callable[[str, bytes], tuple[str, bytes]]) -> None:
    with tarfile.open(archive) as old:
        members = [(each.name, old.extractfile(each)) for each in old]
        changed = [change(name, file.read()) for name, file in members if file]
    with tarfile.open(archive, "w:gz") as new:
        for name, data in changed:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            new.addfile(entry, io.BytesIO(data))


def cut(archive: Path) -> None:
    text = gzip.decompress(archive.read_bytes())
    archive.write_bytes(gzip.compress(text[:1024]))


def link(archive: Path) -> None:
    with tarfile.open(archive, "w:gz") as new:
        entry = tarfile.TarInfo("results")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc"
        new.addfile(entry)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda at: at.write_bytes(b"no archive"), "cannot be restored"),
        (lambda at: at.write_bytes(at.read_bytes()[:-40]), "cannot be restored"),
        (cut, "ends too early"),
        (link, "is not a backup of NoETL: it has 'results'"),
        (
            lambda at: repack(at, lambda n, d: (n, b"other" if d == b"value" else d)),
            "results/value is not what was backed up",
        ),
        (
            lambda at: repack(
                at, lambda name, data: (name.replace("id", "../id"), data)
            ),
            "is not a backup of NoETL: it has '../id'",
        ),
        (
            lambda at: repack(
                at, lambda n, d: (n, d.replace(b'"format":1', b'"format":9'))
            ),
            "use NoETL 1.0 or newer",
        ),
        (
            lambda at: repack(at, lambda n, d: (n, b"{" if "json" in n else d)),
            "not a backup of NoETL",
        ),
    ],
)
def test_a_damaged_or_hostile_archive_changes_nothing(
    archive: Path, damage: Callable[[Path], None], said: str
) -> None:
    damage(archive)
    before = {*archive.parent.rglob("*")}

    with pytest.raises(ConfigError, match=said):
        restore_backup(archive, Home(archive.parent / "new"))

    assert {*archive.parent.rglob("*")} == before


def test_a_home_that_is_not_empty_is_not_replaced(archive: Path) -> None:
    with pytest.raises(ConfigError, match="not empty"):
        restore_backup(archive, Home(archive.parent / "old"))

    home = Home(archive.parent / "new")
    restore_backup(archive, home)
    assert (home.folder / "results" / "value").read_bytes() == b"value"
    assert home.folder.stat().st_mode & 0o777 == 0o700


def test_a_damaged_database_is_not_backed_up(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make()
    home.log(1).write_bytes(b"no database")

    with pytest.raises(ConfigError, match="cannot be copied"):
        write_backup(home, tmp_path / "home.tar", keys=False, about=ABOUT)

    assert [each.name for each in tmp_path.iterdir()] == ["home"]
