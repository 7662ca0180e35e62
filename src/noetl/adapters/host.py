"""Host policy: files, networks and limits of tools."""

from __future__ import annotations

import os
from typing import Literal

import msgspec

Private = Literal["allow", "deny"] | tuple[str, ...]
Isolation = Literal["auto", "none", "required"]

MEMORY = 4 * 1024**3
PROCESSES = 1024


class HostPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The files, networks, isolation and limits of tools, by default of a server.

    ``roots`` are the folders whose files tools may touch, with ``playbook_folder`` also
    the folder of the playbook. Files below ``hidden`` are always denied. Relative paths
    begin in the playbook's folder, else in ``folder``. ``home`` is NOETL_HOME if
    ``duckdb`` may use its files. ``private`` names the local networks that requests may
    reach; code in a sandbox has a network only with ``isolation_network``. ``memory``
    limits each process of code, in bytes, and ``processes`` the processes and threads
    of a sandbox. ``own`` marks the user's own machine, where tools also use its cloud
    credentials and certificates.
    """

    roots: tuple[str, ...] = ()
    playbook_folder: bool = False
    folder: str | None = None
    home: str | None = None
    hidden: tuple[str, ...] = ()
    private: Private = "deny"
    isolation: Isolation = "auto"
    isolation_network: bool = False
    memory: int | None = MEMORY
    processes: int = PROCESSES
    own: bool = False


def own_host(home: str | None = None) -> HostPolicy:
    """Return the policy of ``noetl run``: the user's machine and current folder."""
    here = os.getcwd()
    return HostPolicy(
        roots=(here,),
        playbook_folder=True,
        folder=here,
        home=home,
        private="allow",
        memory=None,
        own=True,
    )
