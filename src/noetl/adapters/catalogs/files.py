"""Playbooks in folders, found by their ``metadata.path``; versions of playbooks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from noetl.adapters.processes.code_inspection import inspect_code
from noetl.adapters.tools import BUILTIN
from noetl.dialects import load, load_validated
from noetl.dsl.canonical import digest
from noetl.dsl.load import Loaded
from noetl.dsl.model import Playbook
from noetl.dsl.tool_kinds import Kinds
from noetl.errors import ConfigError, VersionTaken
from noetl.ports import Blobs, CatalogEntry, Registered
from noetl.types import JSON

_SUFFIXES = frozenset({".yaml", ".yml"})
_MAX_BYTES = 16 * 1024 * 1024


class FileCatalog:
    """Reads its folders once, on the first ``find``."""

    def __init__(
        self,
        folders: Sequence[Path],
        blobs: Blobs,
        extensions: frozenset[str] = frozenset(),
        kinds: Kinds = BUILTIN,
    ) -> None:
        self._kinds = kinds
        self._folders = list(folders)
        self._blobs = blobs
        self._extensions = extensions
        self._found: dict[str, list[tuple[Path, bytes]]] | None = None
        self.place = ", ".join(map(str, folders)) or "no folder (see --playbooks)"

    async def find(self, path: str, version: str | None) -> CatalogEntry | None:
        """Find a playbook: without ``version`` the latest one of the path (S-43)."""
        found = await self._read_folders()
        entries = [
            (
                file,
                source,
                load(source, self._kinds, self._extensions, inspect=inspect_code),
            )
            for file, source in found.get(path, [])
        ]
        fitting = [
            entry
            for entry in entries
            if version is None or _version(entry[2]) == version
        ]
        if not fitting:
            return None
        file, source, loaded = max(fitting, key=lambda entry: version_order(entry[2]))
        about = await pin(loaded, source, str(file.parent), self._blobs)
        error = {} if loaded.playbook else loaded.refusal(str(file))
        return CatalogEntry(loaded.playbook, {"path": path, **about}, error)

    async def paths(self) -> Sequence[str]:
        return list(await self._read_folders())

    async def _read_folders(self) -> dict[str, list[tuple[Path, bytes]]]:
        if self._found is None:
            self._found = await asyncio.to_thread(self._scan)
        return self._found

    async def pinned(self, about: dict[str, JSON]) -> Playbook:
        source = await self._blobs.get(about["source"])
        extensions = frozenset(about.get("extensions", ()))
        loaded = load_validated(source, self._kinds, extensions | self._extensions)
        if loaded.playbook is None:
            first = next(d for d in loaded.diagnostics if d.severity == "error")
            hint = f" ({first.hint})" if first.hint else ""
            message = "the pinned playbook is not valid for this version of NoETL: "
            raise ConfigError(f"{message}line {first.line}: {first.message}{hint}")
        return loaded.playbook

    def _scan(self) -> dict[str, list[tuple[Path, bytes]]]:
        found: dict[str, list[tuple[Path, bytes]]] = {}
        for folder in self._folders:
            for file in sorted(folder.rglob("*")):
                if file.suffix not in _SUFFIXES or not file.is_file():
                    continue
                source = _read(file)
                for path in paths_in(source):
                    found.setdefault(path, []).append((file, source))
        return found


async def pin(
    loaded: Loaded, source: bytes, folder: str | None, blobs: Blobs
) -> dict[str, JSON]:
    """Store the text of a playbook and return the execution's record of it (I-05)."""
    return describe(loaded, await blobs.put(source), folder)


def describe(loaded: Loaded, source: str, folder: str | None) -> dict[str, JSON]:
    """Return the record of a playbook; ``source`` is the key of its stored text."""
    about: dict[str, JSON] = {"source": source, "folder": folder}
    playbook = loaded.playbook
    if playbook is not None:
        about |= {
            "name": playbook.name,
            "path": playbook.path,
            "version": playbook.version,
            "sha256": digest(playbook),
            "extensions": sorted(playbook.extensions),
        }
        if playbook.metadata.get("sensitive") is True:
            about["sensitive"] = True
        if (own := playbook.retention) is not None:
            about["retention"] = own
    return about


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(_MAX_BYTES)
    except OSError:
        return b""  # unreadable by this user: not a playbook of ours


def paths_in(source: bytes) -> list[str]:
    """Return the ``metadata.path`` of a text that may be a playbook, or nothing."""
    if b"noetl.io/" not in source:
        return []
    from noetl.dsl.diagnostics import Report
    from noetl.dsl.source import read_source

    node = read_source(source, Report())
    root = node.plain() if node is not None else None
    metadata = root.get("metadata") if isinstance(root, dict) else None
    path = metadata.get("path") if isinstance(metadata, dict) else None
    return [path] if isinstance(path, str) else []


def _version(loaded: Loaded) -> str | None:
    return loaded.playbook.version if loaded.playbook else None


def version_order(loaded: Loaded) -> str:
    """Return a sort key by numbers: 1.10 comes after 1.9."""
    return rank(_version(loaded) or "")


# -- versions of playbooks: their order, the next number, conflicts ---------------


_WHOLE = re.compile(r"[0-9]{1,18}\Z", re.ASCII)
_DIGITS = 20


def rank(version: str) -> str:
    """Return a text that sorts by version: 1.10 after 1.9, names before numbers."""
    return "\x01".join(_part(part) for part in version.split("."))


def _part(part: str) -> str:
    return f"1{part:0>{_DIGITS}}" if _WHOLE.match(part) else f"0{part}"


def next_number(versions: Iterable[str]) -> str:
    """Return one more than the largest leading whole number of the versions."""
    leads = (version.split(".")[0] for version in versions)
    return str(max((int(lead) for lead in leads if _WHOLE.match(lead)), default=0) + 1)


def same_or_taken(known: Registered, playbook: Registered) -> Registered:
    """Return the known playbook if it is the same. Raises ``VersionTaken``."""
    if known.sha256 == playbook.sha256:
        return known
    raise VersionTaken(
        f"version {known.version} of '{known.path}' is another playbook, registered at "
        f"{known.registered_at}"
    )
