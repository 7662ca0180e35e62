"""What tools may reach of the machine and the network that they run on."""

from __future__ import annotations

from typing import Literal

import msgspec

Private = Literal["allow", "deny"] | tuple[str, ...]
Isolation = Literal["auto", "none", "required"]


class HostPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The files, networks and isolation of tools; the default is that of a server.

    ``roots`` are the folders whose files tools may touch, with ``playbook_folder`` also
    the folder of the playbook. Nothing below ``hidden`` is reached, whatever the roots
    say. ``private`` says which local networks requests may go to.
    """

    roots: tuple[str, ...] = ()
    playbook_folder: bool = False
    hidden: tuple[str, ...] = ()
    private: Private = "deny"
    isolation: Isolation = "auto"
