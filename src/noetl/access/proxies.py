"""Whose word counts on where a request comes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address, ip_network

_LONGEST = 64


class Proxies:
    """Networks of proxies that are ours; with none, whoever reaches us is one."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks = [ip_network(each) for each in networks]

    def origin(self, peer: str, forwarded: Sequence[str]) -> str:
        """By all values of ``X-Forwarded-For``: each proxy adds whom it heard it from,
        so the last that is not ours is the client. What stands before it, they may
        have written themselves."""
        chain = [each.strip() for text in forwarded for each in text.split(",")]
        if not self._networks:
            return (chain[-1] if chain else "")[:_LONGEST] or peer
        found = peer
        while chain and self._is_ours(found):
            found = chain.pop()[:_LONGEST]
        return found

    def is_shared(self, peer: str) -> bool:
        """Whether requests of many clients come from there."""
        return not self._networks or self._is_ours(peer)

    def _is_ours(self, address: str) -> bool:
        try:
            known = ip_address(address)
        except ValueError:
            return False
        return any(known in network for network in self._networks)
