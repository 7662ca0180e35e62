"""Reading an archive: a listing, the proof that it is whole, and restoring."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import msgspec

from noetl.adapters.archive.manifest import FOLDER as MANIFESTS
from noetl.adapters.archive.manifest import (
    HEAD,
    ArchivedExecution,
    ArchivedFile,
    Link,
    Manifest,
    decode_manifest,
    each_manifest,
    path_of,
    read_head,
    value_path,
)
from noetl.adapters.archive.parts import TABLES, read_chunks, read_rows
from noetl.adapters.archive.places import Place
from noetl.adapters.stores.batches import Check, Row
from noetl.errors import ConfigError, StoreError
from noetl.ports import LogChunk
from noetl.service.retention.archive import digest_of


class Fault(msgspec.Struct, frozen=True):
    """A defect of a part of an archive."""

    path: str
    message: str
    execution_id: str | None = None


class Verdict(msgspec.Struct):
    """Counts of checked parts, and their defects.

    ``incomplete`` are files that no manifest names: a server was killed before it had
    written all of a batch, which it then writes again under the same name.
    """

    batches: int = 0
    executions: int = 0
    events: int = 0
    values: int = 0
    faults: list[Fault] = []
    incomplete: list[str] = []


class Archived(msgspec.Struct, frozen=True):
    """An execution with the batch that has it."""

    execution: ArchivedExecution
    manifest: Manifest


class ArchiveReader:
    """Reads an archive; ``folder`` is for temporary files."""

    def __init__(self, place: Place, folder: str) -> None:
        self._place = place
        self._folder = folder

    async def each(self) -> AsyncIterator[Archived]:
        async for manifest in each_manifest(self._place):
            for execution in manifest.executions:
                yield Archived(execution, manifest)

    async def find(self, wanted: str) -> Archived:
        """Find an execution by its id, or a unique beginning or end of it. Raises
        ``ConfigError``."""
        found = []
        async for each in self.each():
            name = each.execution.execution_id
            if name == wanted:
                return each
            if name.startswith(wanted) or name.endswith(wanted):
                found.append(each)
        if not found or not wanted:
            raise ConfigError(f"no execution '{wanted}' in {self._place.url}")
        if len(found) > 1:
            some = ", ".join(each.execution.execution_id for each in found[:3])
            raise ConfigError(f"'{wanted}' is not unique: {some}, …")
        return found[0]

    async def rows(self, found: Archived) -> list[Row]:
        """Return the rows of a log, checked against its hash. Raises ``StoreError``."""
        name = found.execution.execution_id
        async with self._local(found.manifest.files["log"]) as file:
            rows = [row for _, row in read_rows(self._folder, file, name)]
        check = _check_of(found.execution)
        check.take(rows)
        damage = check.end()
        if damage is not None:
            raise StoreError(f"{name}: {damage.message}", damage.kind)
        return rows

    async def task_log(self, found: Archived) -> list[LogChunk]:
        name = found.execution.execution_id
        async with self._local(found.manifest.files["task_logs"]) as file:
            return [
                msgspec.json.decode(text, type=LogChunk)
                for text in read_chunks(self._folder, file, name)
            ]

    async def value(self, key: str, file: str) -> bool:
        """Copy a value to a local file; return False if the archive lacks it. Raises
        ``StoreError`` if its content is not that of its key."""
        if not await self._place.fetch(value_path(key), file):
            return False
        if digest_of(file) != key:
            raise StoreError(f"{value_path(key)} is damaged", "store.corrupt")
        return True

    async def tables(self, name: str) -> AsyncIterator[str]:
        """Copy the files of a table to this machine, one after another."""
        async for manifest in each_manifest(self._place):
            async with self._local(manifest.files[name]) as file:
                yield file

    # -- the proof ---------------------------------------------------------------

    async def verify(self) -> Verdict:
        """Check every batch: its manifest, its files, the chain of hashes of each log,
        its values, and that no execution is there twice."""
        done, where = Verdict(), dict[str, str]()
        known: set[str] = set()
        links: dict[Link, Link | None] = {}
        async for path in self._place.list_files(MANIFESTS):
            text = await self._place.get(path)
            try:
                manifest = decode_manifest(text or b"", path)
            except StoreError as error:
                done.faults.append(Fault(path, str(error)))
                continue
            done.batches += 1
            links[manifest.link] = manifest.previous
            known.update(file.path for file in manifest.files.values())
            for each in manifest.executions:
                earlier = where.setdefault(each.execution_id, path)
                if earlier != path:
                    message = f"the execution is in {earlier}, too"
                    done.faults.append(Fault(path, message, each.execution_id))
            await self._verify(manifest, done)
        await self._verify_links(done, links)
        await self._verify_values(done, where)
        for name in TABLES:
            async for path in self._place.list_files(name):
                if path not in known:
                    done.incomplete.append(path)
        return done

    async def _verify(self, manifest: Manifest, done: Verdict) -> None:
        for name in TABLES:
            described = manifest.files.get(name)
            if described is None:
                message = f"the file of {name} is not named"
                done.faults.append(Fault(manifest.path, message))
                continue
            try:
                async with self._local(described) as file:
                    if name == "log":
                        done.faults += _damages(self._folder, file, manifest)
            except StoreError as error:
                done.faults.append(Fault(described.path, str(error)))
        done.executions += len(manifest.executions)
        done.events += sum(each.events for each in manifest.executions)

    async def _verify_links(
        self, done: Verdict, links: dict[Link, Link | None]
    ) -> None:
        """Check that no manifest is missing: each names the one before it."""
        try:
            head = await read_head(self._place)
        except StoreError as error:
            done.faults.append(Fault(HEAD, str(error)))
            return
        if head is None and links:
            done.faults.append(Fault(HEAD, "the file is missing"))
        named = [*links.values(), *([head.last] if head is not None else [])]
        done.faults += [
            Fault(path_of(each.name), "the manifest is missing, or is another one")
            for each in named
            if each is not None and each not in links
        ]

    async def _verify_values(self, done: Verdict, known: dict[str, str]) -> None:
        """Check the values that the archive has, and that it has those it names."""
        have: set[str] = set()
        file = os.path.join(self._folder, "value")
        async for path in self._place.list_files("values"):
            key = path.removeprefix("values/").replace("/", "")
            try:
                await self.value(key, file)
            except StoreError as error:
                done.faults.append(Fault(path, str(error)))
            have.add(key)
        done.values = len(have)
        if not known:
            return
        async for path in self._place.list_files(MANIFESTS):
            try:
                manifest = decode_manifest(await self._place.get(path) or b"", path)
            except StoreError:
                continue  # reported above
            for each in manifest.executions:
                lost = set(each.values) - set(each.missing) - have
                done.faults += [
                    Fault(value_path(key), "the value is missing", each.execution_id)
                    for key in sorted(lost)
                ]

    def _local(self, described: ArchivedFile) -> _Local:
        return _Local(self._place, described, os.path.join(self._folder, "part"))


class _Local:
    """A copy of a file on this machine while entered, checked. Raises
    ``StoreError``."""

    def __init__(self, place: Place, described: ArchivedFile, file: str) -> None:
        self._place, self._described, self._file = place, described, file

    async def __aenter__(self) -> str:
        path = self._described.path
        if not await self._place.fetch(path, self._file):
            raise StoreError(f"{path} is missing", "store.missing")
        if digest_of(self._file) != self._described.sha256:
            os.unlink(self._file)
            raise StoreError(
                f"{path} was changed after it was written", "store.corrupt"
            )
        return self._file

    async def __aexit__(self, *_: object) -> None:
        os.unlink(self._file)


def _damages(folder: str, file: str, manifest: Manifest) -> Iterator[Fault]:
    """Yield the executions whose log is not the one that the manifest describes."""
    checks = {each.execution_id: _check_of(each) for each in manifest.executions}
    path = manifest.files["log"].path
    for name, row in read_rows(folder, file):
        check = checks.get(name)
        if check is None:
            yield Fault(path, "the manifest does not name the execution", name)
        elif check.damage is None:
            check.take([row])
    for name, check in checks.items():
        damage = check.end()
        if damage is not None:
            yield Fault(path, damage.message, name)


def _check_of(execution: ArchivedExecution) -> Check:
    end = bytes.fromhex(execution.last_hash)
    return Check(execution.events, end, execution.execution_id)
