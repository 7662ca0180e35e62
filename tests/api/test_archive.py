"""The archive of a server: written before a removal, proved, queried, restored."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from servers import HEAD, Api, Running

from noetl.clictl import noetl
from noetl.errors import ConfigError

LARGE = f"""{HEAD}metadata: {{name: large, path: tests/large}}
workflow:
  - step: start
    tool:
      kind: python
      code: |
        def main():
            print("hello")
            return {{"text": "x" * 300_000}}
"""
ROWS = "SELECT last_seq, hash, events, dictionary, body FROM batch ORDER BY key"


class World:
    """A server that has archived and removed two executions; ``rows`` are what its log
    held before."""

    def __init__(self, folder: Path) -> None:
        self.archive = folder / "archive"
        self.url = f"file://{self.archive}"
        self.running = Running(folder / "home", archive=self.url)
        self.api = Api(self.running.url, self.running.token)
        self.names = [
            self.api.post("/api/executions?wait=30", {"playbook": LARGE}).body[
                "execution_id"
            ]
            for _ in range(2)
        ]
        self.rows = self.log(self.running.home.server_log)
        self.removed = self.api.post("/api/retention/clean", {"older_than": 0}).body
        self.elsewhere = folder / "elsewhere"

    def log(self, path: Path) -> dict[str, list[Any]]:
        with sqlite3.connect(path) as db:
            rows = db.execute(
                "SELECT x.execution_id, b.key & 4294967295, hash, events, dictionary, "
                "body FROM batch AS b JOIN execution AS x ON x.number = b.key >> 32 "
                "ORDER BY b.key"
            ).fetchall()
        found: dict[str, list[Any]] = {}
        for name, *row in rows:
            found.setdefault(name, []).append(row)
        return found

    def noetl(self, *words: str) -> Any:
        env = {"NOETL_HOME": str(self.elsewhere), "NOETL_ARCHIVE_URL": self.url}
        return CliRunner().invoke(noetl, list(words), env=env)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("archived"))
    yield found
    found.running.stop()


def test_what_is_removed_is_in_the_archive_and_proved(world):
    verdict = json.loads(world.noetl("verify", "--archive", "--json").stdout)
    listed = json.loads(world.noetl("archive", "list", "--json").stdout)

    assert world.removed["executions"] == 2
    assert world.api.get("/api/executions").body["executions"] == []
    assert verdict["intact"]
    assert (verdict["batches"], verdict["executions"]) == (1, 2)
    assert verdict["incomplete"] == []
    assert verdict["events"] == world.removed["events"]
    assert verdict["values"] >= 2  # the playbook and the result
    assert [each["execution_id"] for each in listed["executions"]] == world.names


def test_the_archive_is_queried_in_sql(world):
    query = (
        "select count(*) as n, count(distinct execution_id) as m from events "
        "union all select count(*), count(*) from executions"
    )

    done = world.noetl("sql", "--archive", "--json", query)

    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"n": world.removed["events"], "m": 2},
        {"n": 2, "m": 2},
    ]


def test_a_restored_log_is_equal_byte_by_byte(world):
    name = world.names[1]

    done = world.noetl("archive", "restore", name)
    again = world.noetl("archive", "restore", name)
    missing = world.noetl("archive", "restore", "nothing-of-it")
    logs = world.noetl("logs", name)
    check = world.noetl("verify", "--execution", name)
    value = world.noetl("result", "ls", name)

    assert done.stdout.startswith(f"restored {name} with ")
    restored = world.log(world.elsewhere / "log-restored.db")
    assert restored == {name: world.rows[name]}
    assert "already" in str(again.exception)
    assert "no execution 'nothing-of-it'" in str(missing.exception)
    assert "hello" in logs.stdout
    assert check.exit_code == 0, check.output
    assert "300" in value.stdout


DAMAGES: dict[str, Callable[[Path], None]] = {
    "changed": lambda file: file.write_bytes(file.read_bytes()[:-1] + b"!"),
    "missing": lambda file: file.unlink(),
}


@pytest.mark.parametrize("how", [*DAMAGES])
@pytest.mark.parametrize(
    "what", ["log/**/*", "events/**/*", "manifests/*", "values/*/*"]
)
def test_damage_of_an_archive_is_found(world, what, how):
    [file, *_] = [each for each in world.archive.glob(what) if each.is_file()]
    content = file.read_bytes()
    try:
        DAMAGES[how](file)
        done = world.noetl("verify", "--archive")
    finally:
        file.write_bytes(content)

    assert done.exit_code == 1, done.output
    assert str(file.relative_to(world.archive)) in done.stdout
    assert str(world.archive / "log") not in done.stdout
    assert world.noetl("verify", "--archive").exit_code == 0


def test_without_an_archive_the_commands_say_what_is_missing(world):
    for words in (["archive", "list"], ["verify", "--archive"]):
        env = {"NOETL_HOME": str(world.elsewhere)}
        done = CliRunner().invoke(noetl, words, env=env)
        assert isinstance(done.exception, ConfigError)
        assert "NOETL_ARCHIVE_URL" in str(done.exception)
