"""Stores of large values: the host's own one and the others it can reach."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.nats.permissions import RESULTS
from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.plugins.result_stores import open_blobs
from noetl.config import NATS_REPLICAS, RESULTS_URL, Settings
from noetl.errors import BlobGone, ConfigError
from noetl.extras import install_command
from noetl.local.home import Home
from noetl.ports import Blobs
from noetl.runtime.values.stores import Open, Results, StoreSpec

if TYPE_CHECKING:
    from noetl.adapters.blobs.nats import NatsBlobs

FILE, ROWS, OBJECTS = "file", "postgres", "nats_object"


def make_blobs(home: Home, plugins: Plugins, settings: Settings) -> Blobs:
    """Return the stores in which a process of this home reads and writes values."""
    return make_results(home, plugins, settings).own


def make_own_blobs(home: Home, plugins: Plugins, settings: Settings) -> Blobs:
    """Return the store of ``results_url`` alone, for a worker.

    The worker gets values of other stores, such as NATS, from its server.
    """
    return _Stores(home, plugins, settings, None, None).own


def make_results(
    home: Home,
    plugins: Plugins,
    settings: Settings,
    *,
    rows: Blobs | None = None,
    nats: str | None = None,
) -> Results:
    """Return the stores of a host. Raises ``ConfigError``.

    ``rows`` is the database of a cluster: without a ``results_url`` it also keeps the
    values, so that no folder is shared.
    """
    return _Stores(home, plugins, settings, rows, nats).results()


class _Stores:
    def __init__(
        self,
        home: Home,
        plugins: Plugins,
        settings: Settings,
        rows: Blobs | None,
        nats: str | None,
    ) -> None:
        self._home = home
        self._settings = settings
        self._rows = rows
        self._nats = nats
        self._files = FileBlobs(home.blobs)
        url = settings[RESULTS_URL]
        identity = home.identity() if url is not None else ""
        if url is not None:
            folders = str(home.blobs), str(home.drafts)
            self.own = open_blobs(url, *folders, identity, plugins.results)
            self._kind = url.partition(":")[0]
        elif rows is not None:
            self.own, self._kind = rows, ROWS
        else:
            self.own, self._kind = self._files, FILE

    def results(self) -> Results:
        kinds: dict[str, Open] = {}
        if self._rows is None:
            kinds[FILE] = self._opener(self._files)
        else:
            kinds[ROWS] = self._opener(self._rows)
        kinds[self._kind] = self._opener(self.own)
        kinds[OBJECTS] = self._open_objects
        return Results(self._with_others(self.own), kinds)

    def _with_others(self, first: Blobs) -> Blobs:
        return SeveralBlobs(first, lambda: self._others(first))

    def _others(self, first: Blobs) -> Sequence[Blobs]:
        """List other stores, which may have values from before a settings change."""
        found: list[Blobs] = [self.own]
        if self._rows is not None:
            found.append(self._rows)
        if self._home.blobs.is_dir():
            found.append(self._files)
        address = self._find_nats()
        if address is not None:
            found.append(self._objects(address, None))
        return [each for each in dict.fromkeys(found) if each is not first]

    def _opener(self, blobs: Blobs) -> Open:
        async def open_(spec: StoreSpec) -> Blobs:
            if spec.get("bucket") is not None:
                message = f"a bucket needs the store {OBJECTS}; remove it"
                raise ConfigError(message)
            return self._with_others(blobs)

        return open_

    async def _open_objects(self, spec: StoreSpec) -> Blobs:
        address = self._find_nats()
        if address is None:
            raise ConfigError(f"{OBJECTS} needs the setting nats on this host")
        objects = self._objects(address, spec.get("bucket"))
        await objects.check()
        return self._with_others(objects)

    def _find_nats(self) -> str | None:
        from noetl.local.services.nats import find_nats

        return self._nats or find_nats(self._home, self._settings)

    def _objects(self, address: str, bucket: object) -> NatsBlobs:
        try:
            from noetl.adapters.blobs.nats import NatsBlobs
            from noetl.local.services.nats import nats_tls
        except ModuleNotFoundError:
            message = f"{OBJECTS} needs the package nats-py"
            hint = f"run: {install_command('nats')}"
            raise ConfigError(f"{message}; {hint}") from None
        return NatsBlobs(
            address,
            RESULTS if bucket is None else str(bucket),
            str(self._home.drafts),
            nats_tls(address, self._settings),
            self._settings[NATS_REPLICAS],
        )


class SeveralBlobs:
    """Keys are hashes, so every store that has a key has the same bytes.

    ``others`` is called when the first store lacks a key. Its stores are only read;
    listing and removal affect the first store alone.
    """

    def __init__(self, first: Blobs, others: Callable[[], Sequence[Blobs]]) -> None:
        self.place = first.place
        self.drafts = first.drafts
        self.put = first.put
        self.adopt = first.adopt
        self.each = first.each
        self.remove = first.remove
        self.sweep = first.sweep
        self.others = first.others
        self._first = first
        self._others = others

    async def get(self, key: str) -> bytes:
        try:
            return await self._first.get(key)
        except BlobGone as missing:
            for other in self._others():
                try:
                    return await other.get(key)
                except BlobGone:
                    continue
            raise missing

    @asynccontextmanager
    async def file(self, key: str) -> AsyncIterator[str]:
        async with AsyncExitStack() as stack:
            yield await self._find(key, stack)

    async def _find(self, key: str, stack: AsyncExitStack) -> str:
        try:
            return await stack.enter_async_context(self._first.file(key))
        except BlobGone as missing:
            for other in self._others():
                try:
                    return await stack.enter_async_context(other.file(key))
                except BlobGone:
                    continue
            raise missing
