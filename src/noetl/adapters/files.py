"""Which files of the host a tool may touch: one check for all inputs that name one."""

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
    """The files of a host policy."""

    def __init__(self, host: HostPolicy) -> None:
        self._host = host
        self._roots = _real(host.roots)
        self._hidden = _real(host.hidden)

    def folder(self, of_playbook: str | None) -> str | None:
        """The playbook's folder, where tools may use it."""
        if of_playbook is None or not self._host.playbook_folder:
            return None
        folder = os.path.realpath(of_playbook)
        return None if is_under(folder, self._hidden) else folder

    def roots(self, of_playbook: str | None, *, home: bool = False) -> Roots:
        """The folders of one call, with NOETL_HOME if the policy has one for it."""
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
        """The call of a program with the folders that it may be started in.

        On the user's own machine any folder will do.
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
    """What a program may see that knows allowed folders and no hidden ones."""

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
        """The real path. Raises ``ToolError`` of this kind if it is not allowed."""
        if not path or "\0" in path:
            raise ToolError("tool.contract", f"{where} is not the path of a file")
        if not os.path.isabs(path) and self.base is None:
            message = f"{where}: '{path}' is relative, and no folder is known here"
            raise ToolError(kind, f"{message}; the setting files.roots names one")
        file = os.path.realpath(os.path.join(self.base or "/", path))
        if not self.allows(file):
            raise ToolError(kind, f"{where}: '{path}' {OUTSIDE}")
        return file

    def allows(self, file: str) -> bool:
        """Whether a real path is below a folder and not hidden."""
        return is_under(file, self.folders) and not is_under(file, self.hidden)

    def open_file(self, path: str, where: str, kind: str = "tool.contract") -> BinaryIO:
        """Open a regular file for reading. Raises ``ToolError``."""
        file = self.locate(path, where, kind)
        try:
            # Not blocking: a pipe without a writer must not hold the worker.
            opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            message = f"{where}: '{path}' cannot be read: {error.strerror}"
            raise ToolError(kind, message) from None
        why = None
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            why = f"{where} is not a regular file"
        elif not self.allows(_opened_path(opened, file)):  # a folder was exchanged
            why = f"{where}: '{path}' {OUTSIDE}"
        if why is not None:
            os.close(opened)
            raise ToolError(kind, why)
        return os.fdopen(opened, "rb")

    def resolve_folder(self, path: str, where: str) -> str:
        """An existing folder, itself an allowed one or below it."""
        folder = self.locate(path, where)
        if not os.path.isdir(folder):
            raise ToolError("tool.contract", f"{where}: there is no folder '{path}'")
        return folder

    def visible(self) -> Visible:
        """The same as a list of allowed folders and files.

        A folder that holds a hidden one is replaced by what is in it at this moment.
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
    """Whether a real path is one of these folders, or below one."""
    return any(os.path.commonpath((folder, file)) == folder for folder in folders)


def _real(folders: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(os.path.realpath, folders)))


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as found:
        yield from sorted(found, key=lambda entry: entry.name)


def _opened_path(opened: int, file: str) -> str:
    """Where the opened file really is; as it was asked for, if the system is silent."""
    with suppress(OSError):
        return os.readlink(f"/proc/self/fd/{opened}")
    return file
