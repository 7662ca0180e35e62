"""Where requests may go: names are resolved here, and denied addresses dropped."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Literal

from aiohttp.abc import ResolveResult
from aiohttp.resolver import ThreadedResolver

Address = IPv4Address | IPv6Address
Private = Literal["allow", "deny"] | Sequence[str]

# Cloud metadata: whoever reads it has the machine's credentials.
_METADATA = frozenset(
    map(ip_address, ("169.254.169.254", "fd00:ec2::254", "100.100.100.200"))
)
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal"})
_THIS_NETWORK = ip_network("0.0.0.0/8")
_SHARED = ip_network("100.64.0.0/10")
_NAT64 = ip_network("64:ff9b::/96")


class BlockedAddress(OSError):
    """Every address of a name is denied; the message says which rule did it."""


class Policy:
    """``private`` says whether local addresses are allowed, or which networks are."""

    def __init__(self, private: Private = "allow") -> None:
        self._networks: list[IPv4Network | IPv6Network] = []
        if not isinstance(private, str):
            self._networks = [ip_network(text) for text in private]
        self._local = private == "allow"

    def check_host(self, host: str) -> None:
        """Raise ``BlockedAddress`` for a name or literal address that is denied."""
        name = host.rstrip(".").lower()
        if name in _METADATA_NAMES:
            raise BlockedAddress(f"'{name}' is a metadata service")
        try:
            address = ip_address(host.strip("[]").partition("%")[0])
        except ValueError:
            return  # a name: its addresses are checked when it is resolved
        why = self.denied(address)
        if why:
            raise BlockedAddress(f"{address} is {why}")

    def denied(self, address: Address) -> str | None:
        """Why requests must not go there, or None."""
        address = unwrap(address)
        if address in _METADATA:
            return "a metadata service"
        for is_denied, why in (
            (address.is_link_local, "link-local"),
            (address.is_multicast, "multicast"),
            (address.is_unspecified or is_in(address, _THIS_NETWORK), "unspecified"),
            (address == IPv4Address("255.255.255.255"), "broadcast"),
        ):
            if is_denied:
                return why
        if self._local or (address.is_global and not is_in(address, _SHARED)):
            return None
        if any(is_in(address, network) for network in self._networks):
            return None
        return "private, and the settings allow none such"


class Resolver(ThreadedResolver):
    """Resolves names to allowed addresses only.

    The connection goes to what is returned here, so a name that changes between the
    check and the connect changes nothing.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self._policy = policy

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await super().resolve(host, port, family)
        allowed = []
        why = "has no address"
        for each in found:
            address = ip_address(each["host"].partition("%")[0])
            reason = self._policy.denied(address)
            if reason is None:
                allowed.append(each)
            else:
                why = f"is {address}, which is {reason}"
        if not allowed:
            raise BlockedAddress(f"'{host}' {why}")
        return allowed


def plain_host(host: str) -> str:
    """One spelling for each: systems also read ``127.1`` and ``0x7f000001``."""
    name = host.rstrip(".")
    try:
        return socket.inet_ntoa(socket.inet_aton(name))
    except (OSError, ValueError):
        return "localhost" if name.lower() == "localhost" else host


def unwrap(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, as far as any does."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_in(address: Address, network: IPv4Network | IPv6Network) -> bool:
    return address.version == network.version and address in network
