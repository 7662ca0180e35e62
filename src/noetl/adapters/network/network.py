"""The network that tools and keychains may reach: names are resolved and checked here.

A client connects to an address that ``resolve`` returned, never to a name, so that a
name which changes between the check and the connection changes nothing.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from ipaddress import ip_network

from noetl.adapters.host import Private
from noetl.adapters.network.addresses import (
    METADATA_NAMES,
    Address,
    AnyNetwork,
    always_denied,
    is_public,
    is_within,
    plain_host,
    read_address,
    stands_for,
)

Endpoint = tuple[str, int]
"""A host and a port; the host of a local socket is the path of its folder."""

_ANY = frozenset({"", "0.0.0.0", "::"})
_ALLOW = "an operator allows it by the setting network.private"


class BlockedAddress(OSError):
    """Every address of a host is denied; the message says by which rule."""


class Network:
    """``private`` says whether local addresses may be reached, or which networks.

    ``own`` are the endpoints of NoETL itself, which are never reached; an endpoint
    that becomes known later is appended.
    """

    def __init__(self, private: Private = "deny", own: Iterable[Endpoint] = ()) -> None:
        self._networks: list[AnyNetwork] = []
        if not isinstance(private, str):
            self._networks = [ip_network(text) for text in private]
        self._local = private == "allow"
        self.own = list(own)

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses that a client may connect to.

        Raises ``BlockedAddress`` if there are only others, ``OSError`` if none.
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
        """Check a host that a proxy will resolve: no address of it may be denied.

        A name that this machine does not know is left to the proxy.
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
    """All addresses of a name, in the order of the system. Raises ``OSError``."""
    literal = read_address(host)
    if literal is not None:
        return [literal]
    import asyncio  # making tools loads no event loop

    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(plain_host(host), port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise OSError(f"'{host}' is not the name of a host") from None
    addresses = (read_address(str(each[4][0])) for each in found)
    return [*dict.fromkeys(each for each in addresses if each is not None)]


def is_here(address: Address) -> bool:
    """Whether it is an address of this machine: the system binds to no other."""
    if address.is_loopback:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
