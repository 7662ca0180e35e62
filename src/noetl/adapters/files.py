"""Access of tools to files of the host: one check for all inputs that name a file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO, NamedTuple

from msgspec.structs import replace

from noetl.adapters.host import HostPolicy
from noetl.errors import ToolError
from noetl.ports import ToolCall

OUTSIDE = (
    "is outside of the allowed folders; an operator names others "
    "with the setting files.roots"
)


class Files:
    """Files that a host policy allows."""

    def __init__(self, host: HostPolicy) -> None:
        self._host = host
        self._roots = _real(host.roots)
        self._hidden = _real(host.hidden)

    def folder(self, of_playbook: str | None) -> str | None:
        """Return the playbook's folder if tools may use it."""
        if of_playbook is None or not self._host.playbook_folder:
            return None
        folder = os.path.realpath(of_playbook)
        return None if is_under(folder, self._hidden) else folder

    def roots(self, of_playbook: str | None, *, home: bool = False) -> Roots:
        """Return the folders of one call; ``home`` adds the policy's NOETL_HOME."""
        own = self.folder(of_playbook)
        base = own or self._host.folder
        if base is None and len(self._roots) == 1:
            base = self._roots[0]
        folders = [*([own] if own else []), *self._roots]
        if home and self._host.home is not None:
            folders.append(os.path.realpath(self._host.home))
        folders = list(dict.fromkeys(folders))
        return Roots(base, folders, self._hidden, own=self._host.own)

    def placed(self, call: ToolCall) -> ToolCall:
        """Return the call with a checked folder to start its program in.

        On the user's own machine every folder is allowed.
        """
        cwd = call.inputs.get("cwd")
        if self._host.own or (cwd is None and call.folder is None):
            return call
        folder = self.folder(call.folder)
        if cwd is not None:
            folder = self.roots(call.folder).resolve_folder(str(cwd), "cwd")
        inputs = {name: each for name, each in call.inputs.items() if name != "cwd"}
        return replace(call, folder=folder, inputs=inputs)


class Visible(NamedTuple):
    """Allowed folders and files, for a program that cannot exclude hidden ones."""

    folders: list[str]
    files: list[str]


class Roots:
    """Allowed folders; links are resolved before a path is compared with them."""

    def __init__(
        self,
        base: str | None,
        folders: Sequence[str],
        hidden: Sequence[str] = (),
        *,
        own: bool = False,
    ) -> None:
        self.base = None if base is None else os.path.realpath(base)
        self.folders = folders
        self.hidden = hidden
        self.own = own

    def locate(self, path: str, where: str, kind: str = "tool.contract") -> str:
        """Return the real path. Raises ``ToolError`` of this kind if it is denied."""
        if not path or "\0" in path:
            raise ToolError("tool.contract", f"{where} is not the path of a file")
        if not os.path.isabs(path) and self.base is None:
            message = f"{where}: '{path}' is relative, but there is no folder for it"
            raise ToolError(kind, f"{message}; name one in the setting files.roots")
        file = os.path.realpath(os.path.join(self.base or "/", path))
        if not self.allows(file):
            raise ToolError(kind, f"{where}: '{path}' {OUTSIDE}")
        return file

    def allows(self, file: str) -> bool:
        """Return whether a real path is below a folder and not hidden."""
        return is_under(file, self.folders) and not is_under(file, self.hidden)

    def open_file(self, path: str, where: str, kind: str = "tool.contract") -> BinaryIO:
        """Open a regular file for reading. Raises ``ToolError``."""
        file = self.locate(path, where, kind)
        try:
            # Without blocking: a pipe without a writer must not stop the worker.
            opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            message = f"{where}: '{path}' cannot be read: {error.strerror}"
            raise ToolError(kind, message) from None
        why = None
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            why = f"{where} is not a regular file"
        elif not self.allows(_opened_path(opened, file)):  # a folder was replaced
            why = f"{where}: '{path}' {OUTSIDE}"
        if why is not None:
            os.close(opened)
            raise ToolError(kind, why)
        return os.fdopen(opened, "rb")

    def resolve_folder(self, path: str, where: str) -> str:
        """Return the real path of an existing allowed folder. Raises ``ToolError``."""
        folder = self.locate(path, where)
        if not os.path.isdir(folder):
            message = f"{where}: the folder '{path}' does not exist"
            raise ToolError("tool.contract", message)
        return folder

    def visible(self) -> Visible:
        """Return the allowed folders and files as a list.

        A folder that contains a hidden one is replaced by its present entries.
        """
        seen = Visible([], [])
        for folder in self.folders:
            self._look(folder, seen)
        return seen

    def _look(self, folder: str, seen: Visible) -> None:
        if is_under(folder, self.hidden):
            return
        if not any(is_under(each, [folder]) for each in self.hidden):
            seen.folders.append(folder)
            return
        for entry in _entries(folder):
            if entry.is_dir(follow_symlinks=False):
                self._look(entry.path, seen)
            elif entry.is_file(follow_symlinks=False) and self.allows(entry.path):
                seen.files.append(entry.path)


def is_under(file: str, folders: Iterable[str]) -> bool:
    """Return whether a real path is one of these folders or below one."""
    return any(os.path.commonpath((folder, file)) == folder for folder in folders)


def _real(folders: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(os.path.realpath, folders)))


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as found:
        yield from sorted(found, key=lambda entry: entry.name)


def _opened_path(opened: int, file: str) -> str:
    """Return the real path of an open file; ``file`` if there is no ``/proc``."""
    with suppress(OSError):
        return os.readlink(f"/proc/self/fd/{opened}")
    return file
