"""Hostile SQL: it stays below its folders, keeps its settings, and ends when told."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from ducks import Duck

from noetl.engine.tasks.outcome import Outcome

pytestmark = pytest.mark.spec("PIPE-14")

SECRET = "the-secret-of-somebody-else"


@pytest.fixture
def outside(duck: Duck, tmp_path: Path) -> Path:
    """A folder with a secret, and links to it from inside."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.csv").write_text(f"a\n{SECRET}\n")
    (duck.folder / "link").symlink_to(folder)
    (duck.folder / "link.csv").symlink_to(folder / "secret.csv")
    (duck.folder / "new.csv").symlink_to(folder / "new.csv")
    (duck.folder / "link.duckdb").symlink_to(folder / "new.duckdb")
    (duck.folder / "log.duckdb.wal").symlink_to(folder / "new.wal")
    return folder


def refused(outcome: Outcome, *kinds: str) -> None:
    assert outcome.error is not None
    assert outcome.error.kind in kinds, outcome.error
    assert SECRET not in repr(outcome)


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_csv('/etc/passwd')",
        "FROM read_text('/etc/passwd')",
        "FROM read_blob('/dev/zero')",
        "FROM read_text('/proc/self/environ')",
        "FROM read_text('/proc/self/root/etc/passwd')",
        "FROM read_csv('{outside}/secret.csv')",
        "FROM read_csv('../outside/secret.csv')",
        "FROM read_csv('file://{outside}/secret.csv')",
        "FROM read_csv(['ok.csv', '{outside}/secret.csv'])",
        "FROM 'link/secret.csv'",
        "FROM 'link.csv'",
        "FROM read_text('link.csv')",
        "FROM read_csv('*/secret.csv')",
        "FROM read_csv('link/*')",
        "FROM glob('/etc/*')",
        "FROM glob('../outside/*')",
        "FROM sniff_csv('/etc/passwd')",
        "FROM parquet_metadata('{outside}/secret.csv')",
        "FROM query('FROM read_text(''/etc/passwd'')')",
        "CREATE VIEW v AS FROM read_text('/etc/passwd')",
        "CREATE MACRO m() AS TABLE FROM read_text('/etc/passwd')",
        "CREATE TABLE t (a VARCHAR); COPY t FROM '{outside}/secret.csv'",
        "COPY (SELECT 1) TO '{outside}/written.csv'",
        "COPY (SELECT 1) TO '../outside/written.csv'",
        "COPY (SELECT 1) TO 'link/written.csv'",
        "COPY (SELECT 1 AS a, 2 AS b) TO 'link' (PARTITION_BY a, OVERWRITE)",
        "EXPORT DATABASE '{outside}/written'",
        "IMPORT DATABASE '{outside}'",
        "ATTACH '{outside}/new.duckdb'",
        "ATTACH 'link.duckdb' AS x",
        "ATTACH /* so */ IF NOT EXISTS 'link.duckdb' (READ_ONLY false)",
        "ATTACH DATABASE 'link.duckdb'",
        "ATTACH 'log.duckdb'",
        "FROM read_csv('http://127.0.0.1:9/x.csv')",
        "FROM read_csv('s3://bucket/x.csv')",
        "FROM 'https://127.0.0.1:9/x.parquet'",
    ],
)
def test_no_file_outside_of_the_folders(duck: Duck, outside: Path, sql: str) -> None:
    (duck.folder / "ok.csv").write_text("a\n1\n")

    outcome = duck.run(sql.format(outside=outside))

    refused(outcome, "duckdb.external_access")
    assert [file.name for file in outside.iterdir()] == ["secret.csv"]


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO 'new.csv'",
        "COPY (SELECT 1) TO 'new.csv' (USE_TMP_FILE false)",
        "COPY (SELECT 1) TO 'new.csv' (PER_THREAD_OUTPUT true)",
        "ATTACH 'http://127.0.0.1:9/x.duckdb'",
        "ATTACH 'file:link.duckdb'",
        "ATTACH ('link' || '.duckdb')",
        "ATTACH 'link' || '.duckdb'",
        "ATTACH $$link.duckdb$$",
        "PREPARE p AS ATTACH 'link.duckdb'; EXECUTE p",
    ],
)
def test_nor_by_other_ways(duck: Duck, outside: Path, sql: str) -> None:
    outcome = duck.run(sql)

    assert outcome.status == "error"
    assert [file.name for file in outside.iterdir()] == ["secret.csv"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("database", "{outside}/new.duckdb"),
        ("database", "link.duckdb"),
        ("database", "../outside/new.duckdb"),
        ("database", "log.duckdb"),
        ("attach", {"x": "{outside}/new.duckdb"}),
        ("export", "{outside}/new.csv"),
        ("export", "new.csv"),
        ("export", "link/new.csv"),
        ("tables", {"t": {"path": "link.csv"}}),
        ("tables", {"t": {"path": "{outside}/secret.csv"}}),
    ],
)
def test_nor_by_an_input(
    duck: Duck, outside: Path, name: str, value: str | dict[str, object]
) -> None:
    text = str(value).replace("{outside}", str(outside))
    given = text if isinstance(value, str) else eval(text)

    outcome = duck.run("SELECT 1", **{name: given})

    refused(outcome, "duckdb.external_access")
    assert outcome.error is not None
    assert name in outcome.error.message
    assert [file.name for file in outside.iterdir()] == ["secret.csv"]


@pytest.mark.parametrize("sub", ["", "sub/"])
def test_files_inside_are_read_and_written(duck: Duck, sub: str) -> None:
    (duck.folder / "sub").mkdir()
    (duck.folder / "sub" / "in.csv").write_text("a\n1\n")
    (duck.folder / "there.csv").symlink_to(duck.folder / "sub" / "in.csv")
    os.chdir("/")

    assert duck.rows("FROM 'sub/in.csv'") == [[1]]
    assert duck.rows("FROM 'there.csv'") == [[1]], "a link that stays inside"
    assert duck.rows(f"FROM '{duck.folder}/sub/*.csv'") == [[1]]
    duck.run(f"COPY (SELECT 2 AS a) TO '{sub}out.csv'")
    assert (duck.folder / f"{sub}out.csv").read_text() == "a\n2\n"


def test_the_current_folder_and_the_home_are_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = tmp_path / "current"
    current.mkdir()
    monkeypatch.chdir(current)
    home, own = tmp_path / "home", tmp_path / "playbook"
    home.mkdir()
    own.mkdir()
    duck = Duck(home)
    duck.folder = own
    try:
        for folder in (current, home):
            (folder / "a.csv").write_text("a\n1\n")
            assert duck.rows(f"FROM '{folder}/a.csv'") == [[1]]
        beside = duck.run("FROM 'a.csv'")
    finally:
        duck.close()

    refused(beside, "duckdb.io")  # relative paths begin in the playbook's folder


@pytest.mark.parametrize(
    "sql",
    [
        "SET memory_limit = '100GB'",
        "SET GLOBAL threads = 64",
        "RESET memory_limit",
        "SET enable_external_access = true",
        "SET allowed_directories = ['/']",
        "SET lock_configuration = false",
        "SET temp_directory = '/tmp'",
        "SET TimeZone = 'Europe/Oslo'",
        "PRAGMA memory_limit = '100GB'",
        "PRAGMA enable_profiling",
        "SET profiling_output = '/tmp/x'",
        "SET log_query_path = '/tmp/x'",
        "CALL enable_logging(storage_path = '/tmp/x')",
        "SET extension_directories = ['.']",
        "INSTALL httpfs",
        "FORCE INSTALL httpfs FROM community",
        "LOAD httpfs",
        "LOAD './evil.duckdb_extension'",
        "UPDATE EXTENSIONS",
        "ATTACH 'x.sqlite' (TYPE sqlite)",
        "ATTACH 'host=127.0.0.1' AS p (TYPE postgres)",
    ],
)
def test_settings_and_extensions_stay(duck: Duck, sql: str) -> None:
    refused(duck.run(sql), "duckdb.forbidden")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT length(repeat('x', 4_000_000_000))",
        "SELECT list(repeat('x', 100_000_000)) FROM range(100)",
        "SELECT length(string_agg(i::VARCHAR, '')) FROM range(1_000_000_000) t(i)",
        "SELECT len(list(i)) FROM range(1_000_000_000) t(i)",
        "SELECT range(2_000_000_000)",
        "SELECT list_reduce(range(12)::VARCHAR[], "
        "lambda a, b: a || a || a || a || a || a || a || a || a || a || b)",
    ],
)
def test_a_memory_bomb_is_an_error_of_its_call(duck: Duck, sql: str) -> None:
    outcome = duck.run(sql, {"memory": "64MiB", "threads": 1})

    refused(outcome, "duckdb.out_of_memory")
    assert outcome.error is not None
    assert "64 MiB" in outcome.error.message
    assert "spec.memory" in outcome.error.message
    assert duck.rows("SELECT 1") == [[1]]


def test_temporary_disk_space_is_bounded(duck: Duck) -> None:
    sql = "CREATE TABLE t AS SELECT * FROM range(10_000_000_000) ORDER BY hash(range)"

    refused(duck.run(sql, {"memory": "8MiB", "threads": 1}), "duckdb.out_of_memory")


def test_what_does_not_fit_into_memory_goes_to_the_disk(duck: Duck) -> None:
    sql = "CREATE TABLE t AS SELECT i FROM range(3_000_000) r(i) ORDER BY hash(i)"

    outcome = duck.run(sql, {"memory": "32MiB", "threads": 1})

    assert outcome.result["rowcount"] == 3_000_000
    (bench,) = (duck.home / "tmp").iterdir()
    assert [file.name for file in bench.iterdir()] == ["lock"]


ENDLESS = [
    "SELECT count(*) FROM range(10_000_000_000_000) t(i) WHERE i % 7 = 3",
    "SELECT count(*) FROM range(10_000_000) a, range(10_000_000) b "
    "WHERE a.range * b.range % 7 = 3",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) "
    "SELECT max(n) FROM t",
    "SELECT length(lpad('a', 800_000_000, 'b'))",  # hears no interrupt
]


@pytest.mark.parametrize("sql", ENDLESS)
def test_after_its_time_a_call_ends_and_leaves_the_file(duck: Duck, sql: str) -> None:
    file = {"database": "a.duckdb"}
    duck.run("CREATE TABLE t AS SELECT 1 AS a", **file)

    outcome = duck.run(f"INSERT INTO t VALUES (2); {sql}", {"timeout": "400ms"}, **file)

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("timeout", True)
    assert "not done after 0.4 s" in outcome.error.message
    # The process is gone: it would hold a lock on the file.
    assert duck.rows("INSERT INTO t VALUES (3); FROM t", **file) == [[1], [3]]


async def begun(duck: Duck, **inputs: str) -> asyncio.Task[Outcome]:
    """An endless call that is known to run."""
    sign = duck.folder / "begun.csv"
    sql = f"CREATE TABLE t (a INTEGER); COPY (SELECT 1) TO 'begun.csv'; {ENDLESS[0]}"
    running = asyncio.create_task(duck.go(sql, **inputs))
    while not sign.exists():  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    return running


def test_a_cancelled_call_ends_too(duck: Duck) -> None:
    file = {"database": "a.duckdb"}

    async def work() -> None:
        running = await begun(duck, **file)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    duck.together(work)

    assert duck.run("CREATE TABLE t (a INTEGER)", **file).status == "ok"


def test_time_spent_waiting_for_a_turn_counts(duck: Duck) -> None:
    file = {"database": "a.duckdb"}

    async def work() -> Outcome:
        first = await begun(duck, **file)
        second = await duck.go("CREATE TABLE u (a INTEGER)", {"timeout": 0.2}, **file)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return second

    outcome: Outcome = duck.together(work)

    assert outcome.error is not None
    assert outcome.error.kind == "timeout"


def test_the_loop_goes_on_while_duckdb_works(duck: Duck) -> None:
    async def work() -> int:
        running = asyncio.create_task(
            duck.go("SELECT count(*) FROM range(3e8::BIGINT)")
        )
        turns = 0
        while not running.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert duck.together(work) > 100


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "SELECT " + " + ".join(["1"] * 20_000),
        "SELECT '" + "x" * 1_000_000,
        ";" * 100_000,
        "\0",
        "SELECT 1 \0 2",
        "SELECT " + "[" * 300 + "]" * 300,
    ],
    ids=["deep", "long", "open", "semicolons", "NUL", "NUL inside", "lists"],
)
def test_odd_sql_is_an_outcome_too(duck: Duck, sql: str) -> None:
    outcome = duck.run(sql)

    assert outcome.error is None or len(outcome.error.message) < 2000
    assert duck.rows("SELECT 1") == [[1]]
