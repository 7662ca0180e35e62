"""``noetl.run``: run a playbook in this process, durably, as ``noetl run`` does."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from noetl.adapters.processes.code_inspection import inspect_code
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.stores.task_log_files import TaskLogFiles
from noetl.commands.files.playbook_files import SourceFile, folder_of, read_file
from noetl.config import Settings, read_extensions, read_plugins, read_settings
from noetl.dialects import load
from noetl.dsl.labels import find_label_problems
from noetl.embedded import Embedded, open_free_log
from noetl.errors import ConfigError
from noetl.local.home import Home
from noetl.sdk.execution import Execution, PlaybookInvalid
from noetl.service.executions.task_logs import LineFilter, Position, TaskLogQueries
from noetl.types import JSON

T = TypeVar("T")


def run(
    playbook: str | os.PathLike[str],
    workload: Mapping[str, JSON] | None = None,
    *,
    timeout: float | None = None,
    labels: Mapping[str, str] | None = None,
    playbooks: Sequence[str | os.PathLike[str]] = (),
    extensions: Sequence[str] = (),
    home: str | os.PathLike[str] | None = None,
    check: bool = True,
) -> Execution:
    """Run a playbook to its end and return the execution.

    ``playbook`` is a file, or the text of a playbook if it has several lines. Inputs
    are in ``workload``; child playbooks are found in ``playbooks``, or beside the file.
    The execution may take ``timeout`` seconds. Its log is in ``home``, by default that
    of the settings, so ``noetl show``, ``events`` and ``retry`` know it.

    Raises ``PlaybookInvalid``, ``ConfigError``, and ``ExecutionFailed`` if it did not
    complete (not with ``check=False``). It also works where an event loop runs, as in
    a notebook.
    """
    return wait_for(
        arun(
            playbook,
            workload,
            timeout=timeout,
            labels=labels,
            playbooks=playbooks,
            extensions=extensions,
            home=home,
            check=check,
        )
    )


async def arun(
    playbook: str | os.PathLike[str],
    workload: Mapping[str, JSON] | None = None,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 - of the execution
    labels: Mapping[str, str] | None = None,
    playbooks: Sequence[str | os.PathLike[str]] = (),
    extensions: Sequence[str] = (),
    home: str | os.PathLike[str] | None = None,
    check: bool = True,
) -> Execution:
    """Run a playbook in the current event loop; otherwise like ``run``.

    If the task is cancelled, the execution stops where it is: ``noetl resume``
    continues it.
    """
    settings = _settings(home)
    source, folder = _source(playbook)
    inputs = _plain(workload or {})
    for _, problem in find_label_problems(labels or {}):
        raise ConfigError(f"labels: {problem}")
    enabled = read_extensions(",".join(extensions), settings)
    plugins = read_plugins(settings)
    loaded = load(source.content, plugins.kinds, enabled, inspect=inspect_code)
    if loaded.playbook is None:
        found = [msgspec.structs.asdict(each) for each in loaded.diagnostics]
        raise PlaybookInvalid(source.name, found)
    place = Home.of(settings)
    store = open_free_log(place)
    log = store.path
    runtime = Embedded(
        place,
        store,
        folder,
        settings,
        playbooks=[os.fspath(each) for each in playbooks],
        extensions=enabled,
        plugins=plugins,
    )
    try:
        if await runtime.start(
            loaded, source.content, inputs, timeout, dict(labels or {})
        ):
            await _finish(runtime)
        document = runtime.document()
    finally:
        await runtime.close()
    execution = Execution(document, LocalRecords(log, place.task_logs))
    return execution.raise_for_status() if check else execution


async def _finish(runtime: Embedded) -> None:
    """Run the execution to its end, or leave it in order if the task is cancelled."""
    finishing = asyncio.ensure_future(runtime.finish())
    try:
        await asyncio.shield(finishing)
    except asyncio.CancelledError:
        runtime.leave()
        await finishing
        raise


class LocalRecords:
    """Events and task logs of an execution in a home."""

    def __init__(self, log: Path, task_logs: Path) -> None:
        self._log = log
        self._task_logs = task_logs

    def events(self, execution_id: str) -> Iterator[dict[str, JSON]]:
        return iter(wait_for(_collect(self._events(execution_id))))

    def logs(self, execution_id: str) -> Iterator[dict[str, JSON]]:
        return iter(wait_for(_collect(self._lines(execution_id))))

    async def _events(self, execution_id: str) -> AsyncIterator[dict[str, JSON]]:
        store = SqliteStore.open(self._log, readonly=True)
        try:
            async for page in store.pages(execution_id):
                for event in page:
                    yield msgspec.to_builtins(event)
        finally:
            await store.close()

    async def _lines(self, execution_id: str) -> AsyncIterator[dict[str, JSON]]:
        queries = TaskLogQueries(TaskLogFiles(self._task_logs))
        start = Position()
        while True:
            page = await queries.page(execution_id, LineFilter(), start)
            for line, _ in page.lines:
                yield msgspec.to_builtins(line)
            if page.position == start:
                return
            start = page.position


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; in a thread of its own if an event loop runs here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    found: list[T] = []
    errors: list[BaseException] = []

    def run_apart() -> None:
        try:
            found.append(asyncio.run(work))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run_apart, name="noetl")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return found[0]


async def _collect(items: AsyncIterator[T]) -> list[T]:
    return [item async for item in items]


def _settings(home: str | os.PathLike[str] | None) -> Settings:
    if home is None:
        return read_settings()
    return read_settings({**os.environ, "NOETL_HOME": os.fspath(home)})


def _source(playbook: str | os.PathLike[str]) -> tuple[SourceFile, str | None]:
    """Return the playbook and its folder; a text has none."""
    name = os.fspath(playbook)
    if "\n" in name:
        return SourceFile("<playbook>", name.encode()), None
    if name == "-":
        raise ConfigError("noetl.run reads a file or a text, not standard input")
    return read_file(name), folder_of(name)


def _plain(workload: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the inputs as JSON values. Raises ``ConfigError``."""
    try:
        plain: dict[str, JSON] = msgspec.json.decode(msgspec.json.encode(workload))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"workload: it cannot become JSON: {error}") from None
    if not isinstance(plain, dict):
        raise ConfigError("workload: a mapping of names to values is expected")
    return plain
