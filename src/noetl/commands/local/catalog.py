"""The catalog of this home behind the interface of the HTTP client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import msgspec

from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.catalogs.sqlite import SqliteShelf
from noetl.client.http import Refused
from noetl.config import EXTENSIONS, Settings
from noetl.local.home import Home
from noetl.ports import Registered
from noetl.runtime.event_loop import SystemClock
from noetl.service.catalog import CatalogService
from noetl.service.errors import RequestRefused
from noetl.types import JSON
from noetl.wiring.identifiers import new_execution_id

PREFIX = "/api/catalog"


class LocalCatalog:
    """Answers the calls of the API's catalog from the home, without a server."""

    def __init__(self, settings: Settings) -> None:
        home = Home.of(settings)
        self._playbooks = CatalogService(
            SqliteShelf(home.catalog),
            FileBlobs(home.blobs),
            SystemClock(),
            new_execution_id,
            extensions=settings[EXTENSIONS],
        )

    def get(self, path: str, **query: JSON) -> JSON:
        name, _, what = path.removeprefix(PREFIX).strip("/").partition("/-/")
        if not name:
            return _run(self._list(query))
        if what == "versions":
            return _run(self._versions(name))
        if what == "diff":
            return _run(self._diff(name, query))
        return _run(self._show(name, query.get("version")))

    def post(self, path: str, body: dict[str, JSON]) -> JSON:
        return _run(self._register(body["playbook"]))

    async def _register(self, text: str) -> JSON:
        loaded = await self._playbooks.validate(text)
        found, created = await self._playbooks.register(loaded, text, None)
        diagnostics = msgspec.to_builtins(loaded.diagnostics)
        return {**_line(found), "created": created, "diagnostics": diagnostics}

    async def _list(self, query: dict[str, JSON]) -> JSON:
        prefix, cursor = query.get("prefix") or "", query.get("cursor") or ""
        found, cursor = await self._playbooks.latest(
            prefix, cursor, query["limit"], lambda path: True
        )
        return {"playbooks": [_line(each) for each in found], "cursor": cursor}

    async def _versions(self, path: str) -> JSON:
        found = await self._playbooks.versions(path)
        return {"versions": [_line(each) for each in found]}

    async def _diff(self, path: str, query: dict[str, JSON]) -> JSON:
        diff = await self._playbooks.diff(path, query.get("from"), query.get("to"))
        return {"path": path, "diff": diff}

    async def _show(self, path: str, version: str | None) -> JSON:
        found = await self._playbooks.show(path, version)
        return {**_line(found.registered), "source": found.source}


def _run(work: Awaitable[JSON]) -> JSON:
    async def done() -> JSON:
        return await work

    try:
        return asyncio.run(done())
    except RequestRefused as error:
        problem = {"kind": error.kind, "message": error.message, "hint": error.hint}
        raise Refused({**problem, **error.more}, 422) from None


def _line(found: Registered) -> dict[str, JSON]:
    line: dict[str, JSON] = msgspec.to_builtins(found)
    del line["source"]
    return line
