"""Bubblewrap: no network, and to read only the interpreter and the playbook."""

from __future__ import annotations

import os
import shutil
import sys

from noetl.adapters.processes.launcher import ENTRY, INTERPRETER
from noetl.errors import ToolError

_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/ssl")
_INIT = "1"  # the parent of all in a sandbox


def sandboxed(folder: str | None, environment: dict[str, str]) -> list[str]:
    """The program that serves python calls in a sandbox; refuses if there is none."""
    bubblewrap = shutil.which("bwrap", path=environment.get("PATH"))
    if bubblewrap is None:
        message = "isolation: required needs bubblewrap (bwrap), which is not installed"
        raise ToolError("tool.isolation", message)
    program = [bubblewrap, "--unshare-all", "--die-with-parent", "--new-session"]
    program += ["--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
    program += ["--tmpfs", "/tmp", "--setenv", "HOME", "/tmp"]
    visible = [*_SYSTEM, sys.base_prefix, sys.prefix, str(ENTRY.parent)]
    visible += [os.path.realpath(sys.executable), *([folder] if folder else [])]
    for path in visible:
        program += ["--ro-bind-try", path, path]
    program += ["--chdir", folder or "/tmp"]
    return [*program, *INTERPRETER, "serve", _INIT]
