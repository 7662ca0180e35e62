"""Task logs of files, memory and PostgreSQL keep the promises of the port."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from memory_task_logs import MemoryTaskLogs

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores import task_log_files
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.stores.postgres.task_logs import TRIES, PostgresTaskLogs
from noetl.adapters.stores.task_log_files import TaskLogFiles
from noetl.errors import StoreError
from noetl.ports.task_logs import LogChunk, LogFilter, LogSource, LogText, TaskLogs

EXECUTIONS = ("0192a-1", "0192a-2")


def source(execution: str = "0192a-1", **changes: Any) -> LogSource:
    known: dict[str, Any] = {
        "step": "talk",
        "command_id": f"{execution}-1",
        "task": "say",
        "attempt": 1,
        "epoch": 1,
    }
    known.update(changes)
    command_id, task = known["command_id"], known["task"]
    return LogSource(
        execution,
        known["step"],
        command_id,
        task,
        f"{command_id}:{task}.1",
        known["attempt"],
        known["epoch"],
    )


def chunk(text: str, part: int = 1, **changes: Any) -> LogChunk:
    return LogChunk(source(**changes), part, [LogText(1.5, "stdout", None, text)])


@pytest.fixture
def pool(postgres: str, run: Callable[..., Any]) -> Iterator[Postgres]:
    opened = Postgres(postgres)
    yield opened
    run(opened.close())


@pytest.fixture(params=["files", "memory", "postgres"])
def logs(
    request: pytest.FixtureRequest, tmp_path: Path, facts: Any, run: Callable[..., Any]
) -> Iterator[TaskLogs]:
    if request.param == "memory":
        yield MemoryTaskLogs()
    elif request.param == "files":
        files = TaskLogFiles(tmp_path / "task-logs")
        yield files
        files.close()
    else:
        postgres: Postgres = request.getfixturevalue("pool")
        store = run(PostgresStore.open(postgres))
        for name in EXECUTIONS:
            run(store.commit([facts.transition(name, status="completed")]))
        yield PostgresTaskLogs(postgres)


async def texts(logs: TaskLogs, execution: str = "0192a-1", **only: Any) -> list[str]:
    """Read the whole log in pages of two chunks."""
    found, start = [], 0
    while True:
        page, following = await logs.read(
            execution, start=start, limit=2, only=LogFilter(**only)
        )
        assert len(page) <= 2
        found += [text.text for each in page for text in each.chunk.texts]
        if following == start:
            return found
        start = following


async def test_chunks_are_read_in_the_order_in_which_they_were_appended(
    logs: TaskLogs,
) -> None:
    await logs.append([chunk("a"), chunk("b", 2)])
    await logs.append([chunk("c", 3), chunk("other", execution="0192a-2")])
    assert await texts(logs) == ["a", "b", "c"]
    assert await texts(logs, "0192a-2") == ["other"]
    assert await texts(logs, "0192a-3") == []


async def test_a_chunk_comes_back_as_it_was_appended(logs: TaskLogs) -> None:
    told = [
        LogText(1.25, "stdout", None, "a\nb\n\nc"),
        LogText(2.5, "log", "warning", "nul \0, 😀 and é"),
        LogText(2.5, "stderr", None, ""),
    ]
    whole = LogChunk(source(command_id="0192a-1-7/3", attempt=2, epoch=4), 9, told)
    await logs.append([whole])
    [found], following = await logs.read("0192a-1")
    assert found.chunk == whole
    assert (found.position, found.following) == (0, following)


async def test_a_part_that_is_appended_again_is_stored_once(logs: TaskLogs) -> None:
    await logs.append([chunk("a"), chunk("b", 2)])
    await logs.append([chunk("b", 2), chunk("c", 3)])
    await logs.append([chunk("a")])
    assert await texts(logs) == ["a", "b", "c"]


async def test_attempts_and_epochs_have_separate_logs(logs: TaskLogs) -> None:
    await logs.append([chunk("first")])
    await logs.append([chunk("in doubt", epoch=2)])
    await logs.append([chunk("retried", epoch=2, attempt=2)])
    assert await texts(logs) == ["first", "in doubt", "retried"]
    found, _ = await logs.read("0192a-1")
    assert [each.chunk.source.epoch for each in found] == [1, 2, 2]


@pytest.mark.parametrize(
    ("only", "wanted"),
    [
        ({}, ["0", "1", "12", "1/2", "load", "again"]),
        ({"step": "load"}, ["load"]),
        ({"task": "say"}, ["0", "1", "12", "1/2", "again"]),
        ({"iteration": "1"}, ["1", "1/2"]),
        ({"iteration": "1/2"}, ["1/2"]),
        ({"iteration": "2"}, []),
        ({"attempt": 2}, ["again"]),
        ({"task_run_id": "0192a-1-1/12:say.1"}, ["12"]),
        ({"step": "talk", "iteration": "0"}, ["0", "again"]),
    ],
)
async def test_a_filter_selects_attempts(
    logs: TaskLogs, only: dict[str, Any], wanted: list[str]
) -> None:
    paths = ("0", "1", "12", "1/2")
    await logs.append([chunk(p, command_id=f"0192a-1-1/{p}") for p in paths])
    await logs.append([chunk("load", step="load", task="copy", command_id="0192a-1-2")])
    await logs.append([chunk("again", attempt=2, command_id="0192a-1-1/0")])
    assert await texts(logs, **only) == wanted


async def test_reading_continues_where_it_stopped(logs: TaskLogs) -> None:
    await logs.append([chunk("a")])
    _, end = await logs.read("0192a-1")
    assert await logs.read("0192a-1", start=end) == ([], end)
    await logs.append([chunk("b", 2)])
    [found], _ = await logs.read("0192a-1", start=end)
    assert found.chunk.texts[0].text == "b"


async def test_two_writers_of_one_execution_lose_nothing(logs: TaskLogs) -> None:
    if isinstance(logs, TaskLogFiles):
        pytest.skip("one process at a time writes the files of a home")
    others = [logs, logs]
    if isinstance(logs, PostgresTaskLogs):
        others = [PostgresTaskLogs(logs._postgres) for _ in range(4)]
    await asyncio.gather(
        *(
            others[n % len(others)].append([chunk(str(n), command_id=f"0192a-1-{n}")])
            for n in range(40)
        )
    )
    assert sorted(await texts(logs), key=int) == [str(n) for n in range(40)]


async def test_removed_logs_are_gone(logs: TaskLogs, facts: Any) -> None:
    await logs.append([chunk("a"), chunk("kept", execution="0192a-2")])
    if isinstance(logs, PostgresTaskLogs):
        await logs._postgres.fetch("SELECT remove_executions($1)", ["0192a-1"])
    await logs.remove(["0192a-1"])
    assert await texts(logs) == []
    assert await texts(logs, "0192a-2") == ["kept"]


async def test_a_line_that_a_killed_process_left_unfinished_is_skipped(
    tmp_path: Path,
) -> None:
    files = TaskLogFiles(tmp_path)
    await files.append([chunk("a")])
    files.close()
    path = tmp_path / "0192a-1.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    assert await texts(files) == ["a"]  # also before anybody repairs it
    again = TaskLogFiles(tmp_path)
    await again.append([chunk("a"), chunk("b", 2)])
    again.close()
    assert await texts(files) == ["a", "b"]


async def test_files_are_private_and_names_cannot_leave_their_folder(
    tmp_path: Path,
) -> None:
    files = TaskLogFiles(tmp_path / "task-logs")
    await files.append([chunk("a")])
    assert (tmp_path / "task-logs").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "task-logs/0192a-1.jsonl").stat().st_mode & 0o777 == 0o600
    with pytest.raises(StoreError):
        await files.append([chunk("b", execution="../escaped")])
    with pytest.raises(StoreError):
        await files.read("../../etc/passwd")
    files.close()


async def test_rows_of_postgresql_are_never_changed(pool: Postgres, facts: Any) -> None:
    store = await PostgresStore.open(pool)
    await store.commit([facts.transition("0192a-1", status="completed")])
    await PostgresTaskLogs(pool).append([chunk("a")])
    for query in (
        "UPDATE task_log SET part = 2",
        "DELETE FROM task_log",
        "TRUNCATE task_log",
    ):
        with pytest.raises(StoreError, match="append-only"):
            await pool.fetch(query)


async def test_a_log_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    files = TaskLogFiles(taken)

    with pytest.raises(StoreError) as error:
        await files.append([chunk("a")])

    assert (error.value.kind, str(taken) in str(error.value)) == ("store.io", True)


async def test_a_full_disk_is_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = TaskLogFiles(tmp_path)
    await files.append([chunk("a")])

    def fail(descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(task_log_files.os, "write", fail)
        with pytest.raises(StoreError) as error:
            await files.append([chunk("b", 2)])
    files.close()

    assert error.value.kind == "store.full"


async def test_few_files_are_open_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_log_files, "MAX_OPEN", 1)
    files = TaskLogFiles(tmp_path)
    for number in range(6):
        await files.append([chunk("a", execution="0192a-1", attempt=number + 1)])
    await files.append([chunk("b", execution="0192a-2")])

    assert list(files._files) == ["0192a-2"]
    await files.remove(["0192a-1", "0192a-2"])
    assert await texts(files, "0192a-2") == []


@pytest.mark.parametrize(("failures", "stored"), [(1, True), (TRIES, False)])
async def test_rows_whose_number_another_writer_took_are_stored_again(
    failures: int, *, stored: bool
) -> None:
    asked: list[int] = []

    class Database:
        async def fetch(self, statement: str, *values: Any) -> None:
            asked.append(1)
            if len(asked) <= failures:
                raise StoreError("taken") from asyncpg.UniqueViolationError()

    database: Any = Database()
    logs = PostgresTaskLogs(database)
    if stored:
        await logs.append([chunk("a")])
    else:
        with pytest.raises(StoreError, match="taken"):
            await logs.append([chunk("a")])

    assert len(asked) == min(failures + 1, TRIES)
