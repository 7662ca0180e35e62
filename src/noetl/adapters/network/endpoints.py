"""The endpoints that an address of a database, of NATS or of a server names. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, unquote, urlsplit

from noetl.adapters.network.network import Endpoint

_PORTS = {
    "postgresql": 5432,
    "postgres": 5432,
    "nats": 4222,
    "tls": 4222,
    "http": 80,
    "https": 443,
}
# Where a driver looks for a database without a host.
_LOCAL = ("localhost", "/run/postgresql", "/var/run/postgresql", "/tmp")


def endpoints_of(address: str | None) -> list[Endpoint]:
    """Hosts with their ports; the path of a folder stands for a local socket."""
    return [] if address is None else list(_endpoints(address))


def _endpoints(address: str) -> Iterator[Endpoint]:
    """Of ``scheme://user@a:1,b:2/name?host=c&port=3``, or of several such URLs."""
    scheme = "nats"
    for part in _urls(address):
        scheme = part.partition("://")[0] if "://" in part else scheme
        url = urlsplit(part if "://" in part else f"{scheme}://{part}")
        default = _PORTS.get(url.scheme, 0)
        options = parse_qs(url.query)
        port = (options.get("port") or [""])[-1]
        default = int(port) if port.isdecimal() else default
        hosts = [*_hosts(url.netloc), *",".join(options.get("host", [])).split(",")]
        found = [host for host in hosts if host]
        if not found and default == _PORTS["postgresql"]:
            found = [*_LOCAL]
        for host in found:
            yield _endpoint(host, default)


def _urls(address: str) -> list[str]:
    """NATS has URLs with commas between them; PostgreSQL has hosts with commas."""
    many = address.count("://") > 1 or address.startswith("nats://")
    return [part.strip() for part in address.split(",")] if many else [address]


def _hosts(netloc: str) -> list[str]:
    return netloc.rpartition("@")[2].split(",")


def _endpoint(host: str, default: int) -> Endpoint:
    name, colon, port = host.rpartition(":")
    if host.startswith("/") or not colon or port.endswith("]") or not port.isdecimal():
        return unquote(host.strip("[]")), default
    return unquote(name.strip("[]")), int(port)
