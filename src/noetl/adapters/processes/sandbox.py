"""Bubblewrap: what a program in a sandbox sees of the machine.

The system and the interpreter to read, a scratch of its own, and the folders that the
host's policy names. No network unless an operator allows it, no other process, no
rights, and a filter of system calls.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from noetl.adapters.processes.launcher import ENTRY, written
from noetl.adapters.processes.noetl_child.seccomp import FILTER

SCRATCH = "/tmp"
_PACKAGE = ENTRY.parents[3]  # NoETL itself
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf"),  # and not /etc/ssl/private
)
_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf")
_SIZE = str(1024**3)  # of the scratch, which is in memory
_KERNEL = ("/dev", "/proc", "/sys")  # made anew, or absent
_MEMORY = "/dev/shm"  # folders of files, not of devices
_HIDDEN_VARIABLES = ("HOME", "LOGNAME", "TMPDIR", "USER")


class Sandbox(NamedTuple):
    """Two calls with the same one may share a process. ``hidden`` wins over the
    folders that are ``writable``, and not over what the tool itself needs: what is
    ``readable``, and folders of its ``own`` to write to."""

    program: str  # bubblewrap's
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    network: bool = False
    bounded: bool = True  # whether this bubblewrap can limit the size of a scratch

    def shows(self, path: str) -> bool:
        """Whether the file or folder of the host is seen inside, at its own place."""
        real = os.path.realpath(path)
        if any(is_within(real, os.path.realpath(each)) for each in self.hidden):
            return False
        seen = (*self.readable, *self.writable)
        return any(is_within(real, os.path.realpath(each)) for each in seen)


class Enclosed(NamedTuple):
    """A program to start, and the files that it needs besides the others."""

    program: list[str]
    files: list[int]


def enclose(
    sandbox: Sandbox,
    program: Sequence[str],
    environment: Mapping[str, str],
    folder: str | None,
    first: int | None = None,
) -> Enclosed:
    """The program in its sandbox; ``first`` is the number of its next open file, None
    if it gets the files under their own numbers.

    Options go by a file: the environment may hold secrets, and everybody can read the
    arguments of a process. Bubblewrap itself must get none of these variables, for it
    starts outside.
    """
    options = list(_options(sandbox))
    for name, value in environment.items():
        options += ["--setenv", name, value]
    options += ["--chdir", folder if folder and sandbox.shows(folder) else SCRATCH]
    files = []
    if FILTER is not None:
        files.append(written(FILTER))
        options += ["--seccomp", str(files[0] if first is None else first + 1)]
    files.insert(0, written("".join(f"{each}\0" for each in options).encode()))
    number = str(files[0] if first is None else first)
    return Enclosed([sandbox.program, "--args", number, "--", *program], files)


def clean_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables without those that name places or people of the host."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in _HIDDEN_VARIABLES
    }
    return {**kept, "HOME": SCRATCH}


def _options(sandbox: Sandbox) -> Iterator[str]:
    yield from ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session")
    yield from ("--cap-drop", "ALL", "--hostname", "sandbox")
    if sandbox.network:
        yield "--share-net"
    scratch = (*(("--size", _SIZE) if sandbox.bounded else ()), "--tmpfs")
    mounts: dict[str, tuple[str, ...]] = {"/proc": ("--proc",), "/dev": ("--dev",)}
    mounts |= {SCRATCH: scratch, _MEMORY: scratch}
    frozen = ["/dev", "/"]
    for path, option in _binds(sandbox).items():
        if path == "/":
            frozen.remove("/")
        mounts[path] = (option, path)
    for path, is_folder in _masks(sandbox).items():
        mounts[path] = ("--tmpfs",) if is_folder else ("--ro-bind", os.devnull)
        frozen += [path] if is_folder else []
    for path in sorted(mounts, key=_depth):  # what is inside comes later
        yield from (*mounts[path], path)
    for path in frozen:
        yield from ("--remount-ro", path)


def _binds(sandbox: Sandbox) -> dict[str, str]:
    """Where → how. Writable folders that are hidden are left out."""
    system = [*_SYSTEM, *(_NETWORK if sandbox.network else ())]
    found = dict.fromkeys(system, "--ro-bind-try")
    for path in sandbox.writable:
        for each in {path, os.path.realpath(path)}:
            if sandbox.shows(each) and not _is_kernel(each, _KERNEL):
                found[each] = "--bind-try"
    for path in sandbox.readable:
        if not _is_of(path, sandbox.writable) or _is_of(path, sandbox.hidden):
            found[path] = "--ro-bind-try"
    if _is_of(str(_PACKAGE), sandbox.writable):
        found[str(_PACKAGE)] = "--ro-bind-try"  # what the server itself runs
    found |= dict.fromkeys(_runtime(), "--ro-bind-try")
    return {**found, **dict.fromkeys(sandbox.own, "--bind-try")}


def _masks(sandbox: Sandbox) -> dict[str, bool]:
    """Where something hidden would be seen → whether it is a folder."""
    found = {}
    hidden = {os.path.realpath(path) for path in sandbox.hidden}
    for place in _binds(sandbox):
        real = os.path.realpath(place)
        for path in hidden:
            inside = path != real and is_within(path, real) and os.path.exists(path)
            if inside and not _is_kernel(path, _KERNEL[:2]):
                at = os.path.join(place, os.path.relpath(path, real))
                found[at] = os.path.isdir(path)
    return found


def _runtime() -> tuple[str, ...]:
    """What python code needs to start, wherever it is installed."""
    executable = os.path.realpath(sys.executable)
    return sys.base_prefix, sys.prefix, str(ENTRY.parent), executable


def is_within(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder


def _is_of(path: str, folders: Sequence[str]) -> bool:
    return any(is_within(path, each) for each in folders)


def _is_kernel(path: str, folders: Sequence[str]) -> bool:
    """Whether the path is the kernel's; folders below ``/dev/shm`` are not."""
    is_file = path != _MEMORY and is_within(path, _MEMORY)
    return _is_of(path, folders) and not is_file


def _depth(path: str) -> int:
    return len([part for part in path.split("/") if part])
