"""Stores of large values: the host's own, and what else is within its reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.blobs.several import SeveralBlobs
from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.plugins.stores import open_blobs
from noetl.config import NATS, RESULTS_URL, read_settings
from noetl.errors import ConfigError
from noetl.home import Home
from noetl.ports import Blobs
from noetl.runtime.results import Open, Results, Wish

if TYPE_CHECKING:
    from noetl.adapters.blobs.nats import NatsBlobs

FILE, ROWS, OBJECTS = "file", "postgres", "nats_object"


def make_blobs(home: Home, plugins: Plugins) -> Blobs:
    """Where a process of this home finds large values, and puts them."""
    return make_results(home, plugins).own


def make_results(
    home: Home, plugins: Plugins, *, rows: Blobs | None = None, nats: str | None = None
) -> Results:
    """``rows`` is the database of a cluster: without a ``results_url`` the values are
    there, too, and no folder need be shared. Raises ``ConfigError``."""
    return _Stores(home, plugins, rows, nats).results()


class _Stores:
    def __init__(
        self, home: Home, plugins: Plugins, rows: Blobs | None, nats: str | None
    ) -> None:
        self._home = home
        self._rows = rows
        self._nats = nats
        self._files = FileBlobs(home.blobs)
        url = read_settings()[RESULTS_URL]
        identity = home.identity() if url is not None else ""
        if url is not None:
            folders = str(home.blobs), str(home.drafts)
            self._own = open_blobs(url, *folders, identity, plugins.results)
            self._kind = url.partition(":")[0]
        elif rows is not None:
            self._own, self._kind = rows, ROWS
        else:
            self._own, self._kind = self._files, FILE

    def results(self) -> Results:
        kinds: dict[str, Open] = {}
        if self._rows is None:
            kinds[FILE] = self._opener(self._files)
        else:
            kinds[ROWS] = self._opener(self._rows)
        kinds[self._kind] = self._opener(self._own)
        kinds[OBJECTS] = self._open_objects
        return Results(self._with_others(self._own), kinds)

    def _with_others(self, first: Blobs) -> Blobs:
        return SeveralBlobs(first, lambda: self._others(first))

    def _others(self, first: Blobs) -> Sequence[Blobs]:
        """Also what was put before a setting was changed."""
        found: list[Blobs] = [self._own]
        if self._rows is not None:
            found.append(self._rows)
        if self._home.blobs.is_dir():
            found.append(self._files)
        address = self._find_nats()
        if address is not None:
            found.append(_objects(address, None, self._home))
        return [each for each in dict.fromkeys(found) if each is not first]

    def _opener(self, blobs: Blobs) -> Open:
        async def open_(wish: Wish) -> Blobs:
            if wish.get("bucket") is not None:
                message = f"a bucket can be chosen with {OBJECTS} only; leave it out"
                raise ConfigError(message)
            return self._with_others(blobs)

        return open_

    async def _open_objects(self, wish: Wish) -> Blobs:
        address = self._find_nats()
        if address is None:
            raise ConfigError(f"for {OBJECTS} this host needs the setting nats")
        objects = _objects(address, wish.get("bucket"), self._home)
        await objects.check()
        return self._with_others(objects)

    def _find_nats(self) -> str | None:
        if self._nats is not None:
            return self._nats
        from noetl.cluster.nats import Nats

        found: str | None = read_settings()[NATS]
        return found or Nats(self._home).address()


def _objects(address: str, bucket: object, home: Home) -> NatsBlobs:
    try:
        from noetl.adapters.blobs.nats import BUCKET, NatsBlobs
    except ModuleNotFoundError:
        message = f"{OBJECTS} needs the package nats-py; run: pip install '.[nats]'"
        raise ConfigError(f"{message} in a checkout of NoETL") from None
    return NatsBlobs(
        address, BUCKET if bucket is None else str(bucket), str(home.drafts)
    )
