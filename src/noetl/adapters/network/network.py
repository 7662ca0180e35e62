"""Network that tools and keychains may reach: classes of addresses, checks of names.

A client connects to an address that ``resolve`` returned, never to a name: a name that
changes between the check and the connection has no effect.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from noetl.adapters.host import Private

Endpoint = tuple[str, int]
"""Host and port; the host of a local socket is the path of its folder."""

_ANY = frozenset({"", "0.0.0.0", "::"})
_ALLOW = "an operator allows it by the setting network.private"
Address = IPv4Address | IPv6Address
AnyNetwork = IPv4Network | IPv6Network

# Cloud metadata: a client that reads it gets the machine's credentials.
METADATA = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fd00:42::42",
        ),
    )
)
METADATA_NAMES = frozenset(
    {
        "instance-data",
        "instance-data.ec2.internal",
        "metadata",
        "metadata.azure.internal",
        "metadata.google.internal",
        "metadata.goog",
        "metadata.tencentyun.com",
    }
)
_THIS_NETWORK = ip_network("0.0.0.0/8")
_SHARED = ip_network("100.64.0.0/10")
_GLOBAL = ip_network("2000::/3")
# IPv6 networks whose last 32 bits are an IPv4 address.
_EMBEDDING = tuple(
    map(ip_network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
)
_ISATAP = (0x5EFE, 0x200_5EFE)
_LAST = 0xFFFF_FFFF


def always_denied(address: Address) -> str | None:
    """Return why no client may ever connect to the address, or None."""
    for each in stands_for(address):
        for is_denied, why in (
            (each in METADATA, "a metadata service"),
            (each.is_link_local, "link-local"),
            (each.is_multicast, "multicast"),
            (each.is_unspecified or is_in(each, _THIS_NETWORK), "unspecified"),
            (each == IPv4Address("255.255.255.255"), "broadcast"),
        ):
            if is_denied:
                return why
    return None


def is_public(address: Address) -> bool:
    """Return whether the address is public in each of its readings."""
    for each in stands_for(address):
        if not each.is_global or is_in(each, _SHARED):
            return False
        if isinstance(each, IPv6Address) and each not in _GLOBAL:
            return False
    return True


def is_within(address: Address, networks: Sequence[AnyNetwork]) -> bool:
    """Return whether each reading of the address is in a network, or public."""
    return all(
        any(is_in(each, network) for network in networks) or is_public(each)
        for each in stands_for(address)
    )


def stands_for(address: Address) -> tuple[Address, ...]:
    """Return the IPv4 addresses embedded in an address, or the address itself."""
    if isinstance(address, IPv4Address) or address == IPv6Address("::1"):
        return (address,)
    return tuple(_embedded(address)) or (address,)


def _embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    number = int(address)
    if any(address in network for network in _EMBEDDING) and number > 0:
        yield IPv4Address(number & _LAST)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if number >> 32 & _LAST in _ISATAP:
        yield IPv4Address(number & _LAST)


def read_address(host: str) -> Address | None:
    """Read a literal address in any spelling that systems accept; None for a name."""
    text = plain_host(host.strip("[]").partition("%")[0])
    try:
        return ip_address(text)
    except ValueError:
        return None


def plain_host(host: str) -> str:
    """Normalize a host: systems also accept ``127.1`` and ``0x7f000001``."""
    name = host.rstrip(".")
    try:
        return socket.inet_ntoa(socket.inet_aton(name))
    except (OSError, ValueError):
        return "localhost" if name.lower() == "localhost" else host


def is_in(address: Address, network: AnyNetwork) -> bool:
    return address.version == network.version and address in network


class BlockedAddress(OSError):
    """Every address of a host is denied; the message names the rule."""


class Network:
    """``private`` allows all local addresses, none, or those of some networks.

    ``own`` are the endpoints of NoETL itself, which are always denied; an endpoint that
    becomes known later is appended.
    """

    def __init__(self, private: Private = "deny", own: Iterable[Endpoint] = ()) -> None:
        self._networks: list[AnyNetwork] = []
        if not isinstance(private, str):
            self._networks = [ip_network(text) for text in private]
        self._local = private == "allow"
        self.own = list(own)

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses that a client may connect to.

        Raises ``BlockedAddress`` if all are denied, ``OSError`` if there are none.
        """
        check_name(host)
        literal = read_address(host)
        found = [literal] if literal is not None else await look_up(host, port)
        allowed, why = [], "has no address"
        for address in found:
            reason = await self._denied(address, port)
            if reason is None:
                allowed.append(str(address))
            else:
                why = f"is {reason}" if literal else f"is {address}, which is {reason}"
        if not allowed:
            raise BlockedAddress(f"'{host}' {why}")
        return allowed

    async def check_remote(self, host: str, port: int) -> None:
        """Check a host that a proxy will resolve.

        Raises ``BlockedAddress`` if any address is denied. A name that this machine
        cannot resolve is left to the proxy.
        """
        check_name(host)
        literal = read_address(host)
        try:
            found = [literal] if literal is not None else await look_up(host, port)
        except OSError:
            return
        for address in found:
            reason = await self._denied(address, port)
            if reason is not None:
                raise BlockedAddress(f"'{host}' is {address}, which is {reason}")

    def check_socket(self, path: str) -> None:
        """Check a socket of this machine. Raises ``BlockedAddress``."""
        if not self._local:
            message = f"a socket of this machine is private: {_ALLOW}: allow"
            raise BlockedAddress(message)
        for folder, port in self.own:
            own = os.path.join(folder, f".s.PGSQL.{port}")
            if folder.startswith("/") and os.path.realpath(own) == os.path.realpath(
                path
            ):
                raise BlockedAddress("the socket is NoETL's own database")

    async def _denied(self, address: Address, port: int) -> str | None:
        reason = always_denied(address)
        if reason is not None:
            return reason
        if await self._is_own(address, port):
            return "an endpoint of NoETL itself, which tools never reach"
        if self._local or is_public(address) or is_within(address, self._networks):
            return None
        return f"private: {_ALLOW}"

    async def _is_own(self, address: Address, port: int) -> bool:
        readings = stands_for(address)
        for host in [host for host, its_port in self.own if its_port == port]:
            if host in _ANY:
                if any(map(is_here, readings)):
                    return True
                continue
            try:
                own = await look_up(host, port)
            except OSError:
                continue
            if any(each in own for each in readings):
                return True
        return False


def check_name(host: str) -> None:
    name = host.rstrip(".").lower()
    if name in METADATA_NAMES:
        raise BlockedAddress(f"'{name}' is a metadata service")


async def look_up(host: str, port: int) -> list[Address]:
    """Return all addresses of a name, in the system's order. Raises ``OSError``."""
    literal = read_address(host)
    if literal is not None:
        return [literal]
    import asyncio  # not needed to create tools

    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(plain_host(host), port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise OSError(f"'{host}' is not the name of a host") from None
    addresses = (read_address(str(each[4][0])) for each in found)
    return [*dict.fromkeys(each for each in addresses if each is not None)]


def is_here(address: Address) -> bool:
    """Return whether this machine has the address, that is, can bind to it."""
    if address.is_loopback:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


class PinnedLoop:
    """The running loop, except for its two methods that connect."""

    def __init__(self, network: Network) -> None:
        import asyncio  # not needed to create tools

        self._network = network
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(
        self, factory: Any, host: str, port: int, **options: Any
    ) -> Any:
        if options.get("ssl"):
            options.setdefault("server_hostname", host)
        failed: OSError | None = None
        for address in await self._network.resolve(host, port):
            try:
                return await self._loop.create_connection(
                    factory, address, port, **options
                )
            except OSError as error:
                failed = error
        assert failed is not None
        raise failed

    async def create_unix_connection(
        self, factory: Any, path: str, **options: Any
    ) -> Any:
        self._network.check_socket(path)
        return await self._loop.create_unix_connection(factory, path, **options)


_PORTS = {
    "postgresql": 5432,
    "postgres": 5432,
    "nats": 4222,
    "tls": 4222,
    "http": 80,
    "https": 443,
}
# Places in which a driver looks for a database without a host.
_LOCAL = ("localhost", "/run/postgresql", "/var/run/postgresql", "/tmp")


def endpoints_of(address: str | None) -> list[Endpoint]:
    """Return hosts with ports; the host of a local socket is its folder."""
    return [] if address is None else list(_endpoints(address))


def _endpoints(address: str) -> Iterator[Endpoint]:
    """Parse ``scheme://user@a:1,b:2/name?host=c&port=3``, or several such URLs."""
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
    """Split NATS URLs at commas; in PostgreSQL URLs, commas separate hosts."""
    many = address.count("://") > 1 or address.startswith("nats://")
    return [part.strip() for part in address.split(",")] if many else [address]


def _hosts(netloc: str) -> list[str]:
    return netloc.rpartition("@")[2].split(",")


def _endpoint(host: str, default: int) -> Endpoint:
    name, colon, port = host.rpartition(":")
    if host.startswith("/") or not colon or port.endswith("]") or not port.isdecimal():
        return unquote(host.strip("[]")), default
    return unquote(name.strip("[]")), int(port)
