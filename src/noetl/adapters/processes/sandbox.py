"""Sandbox by bubblewrap.

A program in it can read the system and the interpreter, and use a scratch folder and
the folders of the host's policy. It has no network unless an operator allows it, sees
no other process, has no capabilities, and its system calls are filtered.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from noetl.adapters.host import PROCESSES
from noetl.adapters.processes.launcher import ENTRY, INTERPRETER, written
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
_KERNEL = ("/dev", "/proc", "/sys")  # created in the sandbox, or absent
_MEMORY = "/dev/shm"  # folders of files, not of devices
# Set inside: outside, the processes of all sandboxes of the user would be counted.
_LIMITED = 'ulimit -u {0} 2>/dev/null || ulimit -p {0} 2>/dev/null; exec "$@"'
_HIDDEN_VARIABLES = ("HOME", "LOGNAME", "TMPDIR", "USER")


class Sandbox(NamedTuple):
    """Options of a sandbox; calls with equal ones may share a process.

    ``hidden`` overrides ``writable``, but not ``readable`` and the tool's ``own``
    folders, which it may write to.
    """

    program: str  # bubblewrap's
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    network: bool = False
    bounded: bool = True  # whether this bubblewrap can limit the size of a scratch
    processes: int = PROCESSES  # and threads, that there may be at once

    def shows(self, path: str) -> bool:
        """Return whether a path of the host is visible inside, at the same path."""
        real = os.path.realpath(path)
        if any(is_within(real, os.path.realpath(each)) for each in self.hidden):
            return False
        seen = (*self.readable, *self.writable)
        return any(is_within(real, os.path.realpath(each)) for each in seen)


class Enclosed(NamedTuple):
    """Command to start, and its additional open files."""

    program: list[str]
    files: list[int]


def enclose(
    sandbox: Sandbox,
    program: Sequence[str],
    environment: Mapping[str, str],
    folder: str | None,
    first: int | None = None,
) -> Enclosed:
    """Return the command that runs the program in the sandbox.

    ``first`` is the number of its next open file, None if it inherits our numbers.
    Options are passed by a file: the environment may contain secrets, and all users can
    read the arguments of a process. Bubblewrap itself, which starts outside, must not
    get these variables.
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


def limited(sandbox: Sandbox, program: Sequence[str]) -> list[str]:
    """Return the command with a shell that sets the limit of processes.

    A program that calls ``setrlimit`` itself does not need it.
    """
    script = _LIMITED.format(sandbox.processes)
    return ["/bin/sh", "-c", script, "sh", *program]


def clean_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those that name folders or users of the host."""
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
    for path in sorted(mounts, key=_depth):  # parents before children
        yield from (*mounts[path], path)
    for path in frozen:
        yield from ("--remount-ro", path)


def _binds(sandbox: Sandbox) -> dict[str, str]:
    """Map paths to bind options; hidden writable folders are left out."""
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
        found[str(_PACKAGE)] = "--ro-bind-try"  # the server runs this code
    found |= dict.fromkeys(_runtime(), "--ro-bind-try")
    return {**found, **dict.fromkeys(sandbox.own, "--bind-try")}


def _masks(sandbox: Sandbox) -> dict[str, bool]:
    """Map visible paths of hidden files to whether they are folders."""
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
    """Return the paths that Python needs to start."""
    executable = os.path.realpath(sys.executable)
    return sys.base_prefix, sys.prefix, str(ENTRY.parent), executable


def is_within(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder


def _is_of(path: str, folders: Sequence[str]) -> bool:
    return any(is_within(path, each) for each in folders)


def _is_kernel(path: str, folders: Sequence[str]) -> bool:
    """Return whether a path belongs to the kernel; below ``/dev/shm`` none does."""
    is_file = path != _MEMORY and is_within(path, _MEMORY)
    return _is_of(path, folders) and not is_file


def _depth(path: str) -> int:
    return len([part for part in path.split("/") if part])


INSTALL = "install bubblewrap (Debian, Ubuntu: apt install bubblewrap)"
ALLOW = "allow unprivileged user namespaces on this machine"
_TIMEOUT_S = 20.0


class Probe(msgspec.Struct, frozen=True):
    """Result of the probe; with a ``problem``, bubblewrap cannot be used."""

    program: str | None
    problem: str | None = None
    cure: str | None = None
    bounded: bool = True


def look(path: str) -> Probe:
    """Start the interpreter in a sandbox once; blocks for some milliseconds."""
    program = shutil.which("bwrap", path=path)
    if program is None:
        return Probe(None, "bubblewrap (bwrap) is not installed", INSTALL)
    try:
        options = _run([program, "--help"], {}).stdout
        bounded = b"--size" in options
        done = _try(program, bounded)
    except (OSError, subprocess.SubprocessError) as error:
        return Probe(program, f"{program} does not work: {error}", ALLOW)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1][:200] if said else f"exit code {done.returncode}"
        return Probe(program, f"{program} does not work: {reason}", ALLOW)
    return Probe(program, bounded=bounded)


def _try(program: str, bounded: bool) -> subprocess.CompletedProcess[bytes]:
    sandbox = Sandbox(program, bounded=bounded)
    nothing = [*INTERPRETER[:2], "-c", "import json"]
    enclosed = enclose(sandbox, nothing, {}, None)
    try:
        return _run(enclosed.program, {}, enclosed.files)
    finally:
        for file in enclosed.files:
            os.close(file)


def _run(
    command: list[str], environment: Mapping[str, str], files: Iterable[int] = ()
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
        pass_fds=tuple(files),
    )


def describe(probe: Probe) -> str:
    """Describe the sandbox of this machine."""
    filtered = "" if FILTER else ", without a filter of system calls on this processor"
    return f"{probe.program}{filtered}"
