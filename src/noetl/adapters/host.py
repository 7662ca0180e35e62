"""What tools may reach of the machine and the network that they run on."""

from __future__ import annotations

import os
from typing import Literal

import msgspec

Private = Literal["allow", "deny"] | tuple[str, ...]
Isolation = Literal["auto", "none", "required"]


class HostPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The files, networks and isolation of tools; the default is that of a server.

    ``roots`` are the folders whose files tools may touch, with ``playbook_folder`` also
    the folder of the playbook. Nothing below ``hidden`` is reached, whatever the roots
    say. Relative paths begin in the playbook's folder, else in ``folder``. ``home`` is
    NOETL_HOME where ``duckdb`` may use its files. ``private`` says which local networks
    requests may go to; code in a sandbox has a network only with
    ``isolation_network``. On a machine that is the user's ``own``, tools also use its
    cloud credentials and its certificates.
    """

    roots: tuple[str, ...] = ()
    playbook_folder: bool = False
    folder: str | None = None
    home: str | None = None
    hidden: tuple[str, ...] = ()
    private: Private = "deny"
    isolation: Isolation = "auto"
    isolation_network: bool = False
    own: bool = False


def own_host(home: str | None = None) -> HostPolicy:
    """The policy of ``noetl run``: a user's own machine, in the current folder."""
    here = os.getcwd()
    return HostPolicy(
        roots=(here,),
        playbook_folder=True,
        folder=here,
        home=home,
        private="allow",
        own=True,
    )
