"""Settings of what tools may reach: files, networks, and the isolation of code."""

from __future__ import annotations

import os
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from noetl.adapters.host import HostPolicy, Isolation, Private
from noetl.config.parsing import expand, parse_names
from noetl.config.setting import Setting
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.config.reading import Settings

Role = Literal["embedded", "personal", "server"]
"""Who runs the tools: ``noetl run``, the cluster of ``noetl up``, or a server."""


def parse_roots(value: JSON, folder: Path) -> tuple[str, ...] | None:
    """Folders; relative ones start at the configuration file's folder."""
    names = parse_names(value)
    if any("\0" in name for name in names):
        raise ValueError
    found = {str((folder / expand(Path(name))).absolute()) for name in names}
    return tuple(sorted(found))


def parse_private(value: JSON, _: Path) -> Private | None:
    words: dict[JSON, Private] = {"allow": "allow", "deny": "deny"}
    if isinstance(value, str) and value in words:
        return words[value]
    return tuple(sorted(str(ip_network(name)) for name in parse_names(value)))


def parse_isolation(value: JSON, _: Path) -> Isolation:
    words: dict[str, Isolation] = {
        "auto": "auto",
        "none": "none",
        "required": "required",
    }
    if not isinstance(value, str) or value not in words:
        raise ValueError
    return words[value]


def _none() -> None:
    return None


def _auto() -> Isolation:
    return "auto"


FILES_ROOTS: Setting[tuple[str, ...] | None] = Setting(
    name="files_roots",
    words="folders with commas between them (/data/in, /data/out)",
    doc="Folders of the host whose files tools may read and write. NOETL_HOME is never "
    "one of them on a server. In a configuration file: `files.roots`, a list.",
    parse=parse_roots,
    default=_none,
    default_words="`noetl run`: the playbook's folder, the current one and the home; "
    "`noetl up`: the current folder; a server: none",
)
NETWORK_PRIVATE: Setting[Private | None] = Setting(
    name="network_private",
    words="allow, deny, or networks with commas between them (10.1.0.0/16)",
    doc="Whether tools may reach private and loopback addresses, or which networks of "
    "them. Metadata services of clouds are never reached. In a configuration file: "
    "`network.private`.",
    parse=parse_private,
    default=_none,
    default_words="`noetl run` and `noetl up`: allow; a server: deny",
)
ISOLATION: Setting[Isolation] = Setting(
    name="isolation",
    words="auto, none or required",
    doc="Whether `python`, `script`, `shell` and `duckdb` run in a sandbox "
    "(bubblewrap). `auto` does it as soon as a server has accounts, `required` always, "
    "`none` never.",
    parse=parse_isolation,
    default=_auto,
    default_words="auto",
)
HOST_SETTINGS: tuple[Setting[Any], ...] = (FILES_ROOTS, NETWORK_PRIVATE, ISOLATION)


def host_policy(settings: Settings, home: Path, role: Role) -> HostPolicy:
    """Combine the settings with the defaults of a role."""
    roots = settings[FILES_ROOTS]
    if roots is None:
        roots = _default_roots(home, role)
    private = settings[NETWORK_PRIVATE]
    if private is None:
        private = "deny" if role == "server" else "allow"
    return HostPolicy(
        roots=tuple(roots),
        playbook_folder=role != "server",
        hidden=() if role == "embedded" else (str(home),),
        private=private,
        isolation=settings[ISOLATION],
    )


def _default_roots(home: Path, role: Role) -> tuple[str, ...]:
    if role == "server":
        return ()
    here = os.getcwd()
    return (here, str(home)) if role == "embedded" else (here,)
