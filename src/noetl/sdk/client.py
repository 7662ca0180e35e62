"""Clients of a server: ``noetl.Client`` and, for event loops, ``noetl.AsyncClient``."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from noetl.client.http import Client as HttpClient
from noetl.commands.remote.choose_server import need_server
from noetl.commands.remote.executions import ID_LENGTH, events_of, follow, logs_of
from noetl.config import CA, HOME, SERVER, TOKEN, read_settings
from noetl.errors import ConfigError
from noetl.ports import Summary
from noetl.sdk.execution import Execution
from noetl.types import JSON

POLL_S = (0.05, 1.0)
"""Seconds between two looks at an execution: the first, and the most."""


class Client:
    """A server as its caller sees it; the token decides what is allowed.

    Without arguments it is the server of the settings (``NOETL_SERVER``), or the one
    that runs under this home. Calls raise ``Unreachable`` and ``Refused``, whose
    ``kind`` and ``problem`` are those of the HTTP API. It may be used by many threads.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        ca: str | os.PathLike[str] | None = None,
        home: str | os.PathLike[str] | None = None,
    ) -> None:
        given = {
            SERVER.variable: url,
            TOKEN.variable: token,
            CA.variable: None if ca is None else os.path.abspath(ca),
            HOME.variable: None if home is None else os.fspath(home),
        }
        stated = {name: text for name, text in given.items() if text is not None}
        self._http = need_server(read_settings({**os.environ, **stated}), None)
        self.url = self._http.url

    def exec(
        self,
        path: str,
        workload: Mapping[str, JSON] | None = None,
        *,
        version: str | None = None,
        key: str | None = None,
        again: str | None = None,
        labels: Mapping[str, str] | None = None,
        concurrency: Mapping[str, JSON] | None = None,
        wait: bool = False,
        timeout: float | None = None,
    ) -> Execution:
        """Start an execution of a registered playbook.

        With an idempotency ``key`` a repeated call starts nothing and returns the
        first execution. With ``wait`` it returns the execution when it has finished.
        """
        body: dict[str, JSON] = {"path": path, "workload": dict(workload or {})}
        more = {
            "version": version,
            "idempotency_key": key,
            "again": again,
            "labels": labels,
            "concurrency": concurrency,
        }
        body |= {name: value for name, value in more.items() if value is not None}
        started = self._http.post("/api/executions", body)["execution_id"]
        return self.wait(started, timeout) if wait else self.get(started)

    def get(self, execution_id: str) -> Execution:
        """Return an execution as it is now."""
        return Execution(self._http.get(_path(execution_id)), RemoteRecords(self._http))

    def list(self, **filters: JSON) -> list[Summary]:
        """Return the newest executions; filters are those of ``GET /api/executions``:
        ``status``, ``path``, ``since``, ``label``, ``limit``, …"""
        found = self._http.call("GET", "/api/executions", query=filters)
        return msgspec.convert(found["executions"], list[Summary])

    def wait(self, execution_id: str, timeout: float | None = None) -> Execution:
        """Return an execution when it has finished, or is set aside.

        Raises ``TimeoutError`` after ``timeout`` seconds; the execution goes on.
        """
        end = None if timeout is None else time.monotonic() + timeout
        pause, most = POLL_S
        while True:
            found = self.get(execution_id)
            if found.finished or found.status == "quarantined":
                return found
            left = most if end is None else end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"execution {execution_id} is {found.status}")
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, most)

    def events(self, execution_id: str, **filters: JSON) -> Iterator[dict[str, JSON]]:
        """Yield the stored events in log order."""
        return events_of(self._http, _whole(execution_id), **filters)

    def follow(self, execution_id: str) -> Iterator[dict[str, JSON]]:
        """Yield all events until the last one, as they are committed."""
        return follow(self._http, _whole(execution_id))

    def logs(self, execution_id: str, **filters: JSON) -> Iterator[dict[str, JSON]]:
        """Yield the stored lines of task logs; filters: ``step``, ``level``, …"""
        pages = logs_of(self._http, _whole(execution_id), **filters)
        return (line for page in pages for line in page)

    def download(
        self, execution_id: str, ref: str, file: str | os.PathLike[str]
    ) -> int:
        """Write a stored result to a file in parts; return the number of bytes."""
        with Path(file).open("wb") as stream:
            path = f"/api/results/{ref}"
            return self._http.download(path, stream, execution_id=_whole(execution_id))

    def signal(self, execution_id: str, name: str, data: JSON = None) -> str:
        """Send a signal to a waiting execution; return its status."""
        return self._order(execution_id, "signal", {"name": name, "data": data})

    def cancel(self, execution_id: str) -> str:
        """Stop an execution and its children; return its status."""
        return self._order(execution_id, "cancel")

    def pause(self, execution_id: str) -> str:
        """Let running tasks finish and start no new ones; return the status."""
        return self._order(execution_id, "pause")

    def resume(self, execution_id: str) -> str:
        """Continue a paused execution, or one that was set aside."""
        return self._order(execution_id, "resume")

    def retry(self, execution_id: str, **changes: JSON) -> Execution:
        """Run again what failed; what is done is kept. Changes: ``step``, ``run``,
        ``workload``, ``ctx``, ``playbook``, ``timeout``."""
        answer = self._http.post(f"{_path(execution_id)}/retry", changes)
        return self.get(answer["execution_id"])

    def fork(self, execution_id: str, at: int, **changes: JSON) -> Execution:
        """Start an execution that begins with the events up to ``at``."""
        answer = self._http.post(f"{_path(execution_id)}/fork", {"at": at, **changes})
        return self.get(answer["execution_id"])

    def plan(self, execution_id: str, **changes: JSON) -> dict[str, JSON]:
        """Return what a retry (or, with ``at``, a fork) would do; nothing is done."""
        what = "fork" if "at" in changes else "retry"
        body = {**changes, "dry_run": True}
        plan: dict[str, JSON] = self._http.post(f"{_path(execution_id)}/{what}", body)
        return plan

    def register(self, playbook: str | os.PathLike[str]) -> dict[str, JSON]:
        """Register a playbook, given as a file or as its text."""
        text = os.fspath(playbook)
        if "\n" not in text:
            text = Path(text).read_text(encoding="utf-8")
        line: dict[str, JSON] = self._http.post("/api/catalog", {"playbook": text})
        return line

    def _order(self, execution_id: str, order: str, body: JSON = None) -> str:
        answer = self._http.post(f"{_path(execution_id)}/{order}", body or {})
        return str(answer["status"])


class RemoteRecords:
    """Events and task logs of an execution of a server."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    def events(self, execution_id: str) -> Iterator[dict[str, JSON]]:
        return events_of(self._client, execution_id)

    def logs(self, execution_id: str) -> Iterator[dict[str, JSON]]:
        for page in logs_of(self._client, execution_id):
            yield from page


class AsyncClient:
    """The same calls for event loops: ``await client.exec(…)``, ``async for event in
    client.follow(…)``.

    The calls of ``Client`` run in threads of the loop's executor.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, **options: Any
    ) -> None:
        self._client = Client(url, token, **options)
        self.url = self._client.url

    async def exec(self, path: str, *args: Any, **options: Any) -> Execution:
        return await asyncio.to_thread(self._client.exec, path, *args, **options)

    async def get(self, execution_id: str) -> Execution:
        return await asyncio.to_thread(self._client.get, execution_id)

    async def list(self, **filters: JSON) -> list[Summary]:
        return await asyncio.to_thread(partial(self._client.list, **filters))

    async def wait(
        self,
        execution_id: str,
        timeout: float | None = None,  # noqa: ASYNC109 - as in ``Client``
    ) -> Execution:
        """Return an execution when it has finished. Raises ``TimeoutError``."""
        async with asyncio.timeout(timeout):
            pause, most = POLL_S
            while True:
                found = await self.get(execution_id)
                if found.finished or found.status == "quarantined":
                    return found
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, most)

    def events(self, execution_id: str, **filters: JSON) -> AsyncIterator[JSON]:
        return _ahead(self._client.events(execution_id, **filters))

    def follow(self, execution_id: str) -> AsyncIterator[JSON]:
        return _ahead(self._client.follow(execution_id))

    def logs(self, execution_id: str, **filters: JSON) -> AsyncIterator[JSON]:
        return _ahead(self._client.logs(execution_id, **filters))

    async def download(
        self, execution_id: str, ref: str, file: str | os.PathLike[str]
    ) -> int:
        return await asyncio.to_thread(self._client.download, execution_id, ref, file)

    async def signal(self, execution_id: str, name: str, data: JSON = None) -> str:
        return await asyncio.to_thread(self._client.signal, execution_id, name, data)

    async def cancel(self, execution_id: str) -> str:
        return await asyncio.to_thread(self._client.cancel, execution_id)

    async def pause(self, execution_id: str) -> str:
        return await asyncio.to_thread(self._client.pause, execution_id)

    async def resume(self, execution_id: str) -> str:
        return await asyncio.to_thread(self._client.resume, execution_id)

    async def retry(self, execution_id: str, **changes: JSON) -> Execution:
        return await asyncio.to_thread(
            partial(self._client.retry, execution_id, **changes)
        )

    async def fork(self, execution_id: str, at: int, **changes: JSON) -> Execution:
        return await asyncio.to_thread(
            partial(self._client.fork, execution_id, at, **changes)
        )

    async def plan(self, execution_id: str, **changes: JSON) -> dict[str, JSON]:
        return await asyncio.to_thread(
            partial(self._client.plan, execution_id, **changes)
        )

    async def register(self, playbook: str | os.PathLike[str]) -> dict[str, JSON]:
        return await asyncio.to_thread(self._client.register, playbook)


async def _ahead(items: Iterator[dict[str, JSON]]) -> AsyncIterator[dict[str, JSON]]:
    """Yield what a blocking iterator has, one thread call for each item."""
    end = object()
    while (item := await asyncio.to_thread(next, items, end)) is not end:
        yield item  # type: ignore[misc]


def _whole(execution_id: str) -> str:
    """Check that an id is whole. Raises ``ConfigError``."""
    if len(execution_id) != ID_LENGTH:
        message = f"'{execution_id}' is not the whole id of an execution"
        raise ConfigError(f"{message}; client.list() has them")
    return execution_id


def _path(execution_id: str) -> str:
    return f"/api/executions/{_whole(execution_id)}"
