"""Settings of the tools' access: files, networks, and the isolation of code."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from noetl.adapters.host import PROCESSES, HostPolicy, Isolation, Private, own_host
from noetl.adapters.processes.limits import parse_size, size_words
from noetl.config.broker import NATS_KEY
from noetl.config.security import TLS_KEY
from noetl.config.setting import (
    Setting,
    expand,
    parse_names,
    parse_number,
    parse_switch,
)
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.config.reading import Settings

Role = Literal["embedded", "personal", "server"]
"""The host of the tools: ``noetl run``, the cluster of ``noetl up``, or a server."""


def parse_roots(value: JSON, folder: Path) -> tuple[str, ...] | None:
    """Parse folders; relative ones start at the configuration file's folder."""
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


def parse_memory(value: JSON, _: Path) -> str | None:
    """Parse a size or ``none``; the value None stands for the role's default."""
    if value != "none" and parse_size(value) < MIN_MEMORY_BYTES:
        raise ValueError
    return str(value).strip()


def parse_processes(value: JSON, _: Path) -> int:
    return parse_number(value, 16, 1_000_000)


def _none() -> None:
    return None


def _auto() -> Isolation:
    return "auto"


FILES_ROOTS: Setting[tuple[str, ...] | None] = Setting(
    name="files_roots",
    words="folders separated by commas (/data/in, /data/out)",
    doc="Folders of the host whose files tools may read and write. On a server and "
    "under `noetl up`, files of NOETL_HOME are never accessible, even below such a "
    "folder. In a configuration file: `files.roots`, a list.",
    parse=parse_roots,
    default=_none,
    default_words="`noetl run`: the playbook's folder, the current one and the home; "
    "`noetl up`: the current folder; a server: none",
)
NETWORK_PRIVATE: Setting[Private | None] = Setting(
    name="network_private",
    words="allow, deny, or networks separated by commas (10.1.0.0/16)",
    doc="The access of tools to private and loopback addresses: all, none, or only the "
    "listed networks. Metadata services of clouds are never reachable. In a "
    "configuration file: `network.private`.",
    parse=parse_private,
    default=_none,
    default_words="`noetl run` and `noetl up`: allow; a server: deny",
)
ISOLATION: Setting[Isolation] = Setting(
    name="isolation",
    words="auto, none or required",
    doc="The sandbox (bubblewrap) of `python`, `script`, `shell` and `duckdb`. `auto` "
    "uses it as soon as a server has accounts, `required` always, `none` never.",
    parse=parse_isolation,
    default=_auto,
    default_words="auto",
)
ISOLATION_NETWORK = Setting(
    name="isolation_network",
    words="true or false",
    doc="Gives `python`, `script` and `shell` a network in their sandbox: that of the "
    "host, with its loopback and private addresses. `duckdb` never has one.",
    parse=parse_switch,
    default=lambda: False,
    default_words="false",
)
MIN_MEMORY_BYTES = 256 * 1024**2
LIMITS_MEMORY: Setting[str | None] = Setting(
    name="limits_memory",
    words="a size of at least 256MiB, such as 4GiB, or none",
    doc="The memory limit of each process of `python`, `script` and `shell` without "
    "`spec.memory`, and the maximum of `spec.memory`. `duckdb` and local `quantum` may "
    "use half of it. In a configuration file: `limits.memory`.",
    parse=parse_memory,
    default=_none,
    default_words="`noetl run`: none; servers and workers, also of `noetl up`: 4GiB",
)
LIMITS_PROCESSES = Setting(
    name="limits_processes",
    words="a whole number from 16 to 1000000",
    doc="The maximum number of processes and threads of the code in one sandbox, "
    "unless it runs as root. Without a sandbox the limit is 8192 per user. In a "
    "configuration file: `limits.processes`.",
    parse=parse_processes,
    default=lambda: PROCESSES,
    default_words=str(PROCESSES),
)
HOST_SETTINGS: tuple[Setting[Any], ...] = (
    FILES_ROOTS,
    NETWORK_PRIVATE,
    ISOLATION,
    ISOLATION_NETWORK,
    LIMITS_MEMORY,
    LIMITS_PROCESSES,
)


_SYSTEM = ("/dev", "/proc", "/sys")


def host_policy(
    settings: Settings, home: Path, role: Role, folder: str | None = None
) -> HostPolicy:
    """Combine the settings with the defaults of a role.

    ``folder`` is the folder in which ``noetl up`` was called.
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
        memory=_memory(settings[LIMITS_MEMORY], policy.memory),
        processes=settings[LIMITS_PROCESSES],
        roots=roots,
        private=policy.private if private is None else private,
        isolation=settings[ISOLATION],
        isolation_network=settings[ISOLATION_NETWORK],
    )


def memory_words(memory: int | None) -> str:
    return "none" if memory is None else size_words(memory)


def _memory(stated: str | None, default: int | None) -> int | None:
    if stated is None:
        return default
    return None if stated == "none" else parse_size(stated)


def _hidden_system(roots: Sequence[str]) -> list[str]:
    """Return the system folders to hide.

    A folder that contains a root stays visible: ``/dev`` for the root ``/dev/shm``. A
    root above it, such as ``/``, does not make ``/dev`` visible.
    """
    return [
        each
        for each in _SYSTEM
        if not any(Path(root).is_relative_to(each) for root in roots)
        or any(Path(each).is_relative_to(root) for root in roots)
    ]


def _secret_files(settings: Settings) -> list[str]:
    """List files outside of the home that hold secrets of the operator."""
    files = (settings.file, settings[TLS_KEY], settings[NATS_KEY])
    return [str(file) for file in files if file is not None]
