"""Playbooks of a folder by their paths, loaded when one is first asked for."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from noetl.adapters.catalogs.files import paths_in, version_order
from noetl.commands.reading import find_playbooks
from noetl.dialects import load
from noetl.dsl.kinds import Kinds
from noetl.dsl.load import Loaded
from noetl.dsl.model import Playbook
from noetl.engine.outcome import Failure


class Library:
    """What a playbook under test may call: its neighbours, and those below them."""

    def __init__(self, folder: Path, kinds: Kinds, extensions: frozenset[str]) -> None:
        self._folder = folder
        self._kinds = kinds
        self._extensions = extensions

    def find(self, path: str, version: str | None) -> Playbook | Failure:
        """Of several with the same path the latest version counts (S-43)."""
        fitting = [
            loaded
            for loaded in self._loaded.get(path, ())
            if version is None
            or (loaded.playbook and loaded.playbook.version == version)
        ]
        if not fitting:
            which = f" in version {version}" if version else ""
            message = f"there is no playbook '{path}'{which}; looked in {self._folder}"
            return Failure("playbook.not_found", message)
        found = max(fitting, key=version_order)
        if found.playbook is None:
            first = next(each for each in found.diagnostics if each.severity == "error")
            message = f"playbook '{path}' is not valid: {first.message}"
            return Failure("playbook.invalid", message)
        return found.playbook

    def latest(self, path: str) -> Playbook | None:
        found = self.find(path, None)
        return found if isinstance(found, Playbook) else None

    @cached_property
    def _loaded(self) -> dict[str, list[Loaded]]:
        found: dict[str, list[Loaded]] = {}
        files, _ = find_playbooks([str(self._folder)])
        for file in files:
            for path in paths_in(file.content):
                loaded = load(file.content, self._kinds, self._extensions)
                found.setdefault(path, []).append(loaded)
        return found
