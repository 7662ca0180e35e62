"""Settings of what tools may reach: files, networks, and the isolation of code."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from noetl.adapters.host import HostPolicy, Isolation, Private, own_host
from noetl.config.parsing import expand, parse_names, parse_switch
from noetl.config.security import TLS_KEY
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
    doc="Folders of the host whose files tools may read and write. Files of NOETL_HOME "
    "are out of reach on a server and under `noetl up`, also below such a folder. "
    "In a configuration file: `files.roots`, a list.",
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
ISOLATION_NETWORK = Setting(
    name="isolation_network",
    words="true or false",
    doc="Whether `python`, `script` and `shell` have a network in their sandbox: that "
    "of the host, with its loopback and private addresses. `duckdb` never has one.",
    parse=parse_switch,
    default=lambda: False,
    default_words="false",
)
HOST_SETTINGS: tuple[Setting[Any], ...] = (
    FILES_ROOTS,
    NETWORK_PRIVATE,
    ISOLATION,
    ISOLATION_NETWORK,
)


_SYSTEM = ("/dev", "/proc", "/sys")


def host_policy(
    settings: Settings, home: Path, role: Role, folder: str | None = None
) -> HostPolicy:
    """Combine the settings with the defaults of a role.

    ``folder`` is the one in which ``noetl up`` was called.
    """
    roots, private = settings[FILES_ROOTS], settings[NETWORK_PRIVATE]
    if role == "embedded":
        policy = own_host(str(home))
        if roots is not None:
            policy = replace(policy, home=None)
    else:
        policy = HostPolicy(hidden=(str(home), *_secret_files(settings)))
    if role == "personal":
        here = () if folder is None else (folder,)
        policy = replace(policy, own=True, private="allow", roots=here)
    roots = policy.roots if roots is None else roots
    if role != "embedded":
        policy = replace(policy, hidden=(*policy.hidden, *_hidden_system(roots)))
    return replace(
        policy,
        roots=roots,
        private=policy.private if private is None else private,
        isolation=settings[ISOLATION],
        isolation_network=settings[ISOLATION_NETWORK],
    )


def _hidden_system(roots: Sequence[str]) -> list[str]:
    """Folders of the kernel, except one that holds a root and is in none.

    An operator may name a folder of ``/dev/shm``; what else is in ``/dev`` is not below
    that root. A root such as ``/`` does not open ``/dev``.
    """
    return [
        each
        for each in _SYSTEM
        if not any(Path(root).is_relative_to(each) for root in roots)
        or any(Path(each).is_relative_to(root) for root in roots)
    ]


def _secret_files(settings: Settings) -> list[str]:
    """Files outside of the home that hold secrets of the operator."""
    files = (settings.file, settings[TLS_KEY])
    return [str(file) for file in files if file is not None]
