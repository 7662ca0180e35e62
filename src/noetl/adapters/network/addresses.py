"""Classes of IP addresses, including IPv4 addresses embedded in IPv6. Pure."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

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
