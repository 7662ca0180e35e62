"""Where a request comes from, by what proxies say of it."""

from __future__ import annotations

import pytest

from noetl.access.request_guard import Proxies

OURS = ("10.0.0.7/32", "10.1.0.0/16", "fd00::/8")


@pytest.mark.parametrize(
    ("peer", "forwarded", "origin"),
    [
        ("10.0.0.7", ["192.0.2.1"], "192.0.2.1"),
        ("10.0.0.7", ["6.6.6.6, 192.0.2.1"], "192.0.2.1"),
        ("10.0.0.7", ["6.6.6.6", "192.0.2.1, 10.1.2.3"], "192.0.2.1"),
        ("fd00::1", ["2001:db8::1"], "2001:db8::1"),
        ("10.0.0.7", [], "10.0.0.7"),
        ("192.0.2.9", ["127.0.0.1"], "192.0.2.9"),
        ("10.0.0.7", ["nonsense"], "nonsense"),
        ("10.0.0.7", ["x" * 500], "x" * 64),
        ("", ["192.0.2.1"], ""),
    ],
)
def test_the_last_that_is_not_ours(
    peer: str, forwarded: list[str], origin: str
) -> None:
    assert Proxies(OURS).origin(peer, forwarded) == origin


@pytest.mark.parametrize(
    ("forwarded", "origin"),
    [(["6.6.6.6, 192.0.2.1"], "192.0.2.1"), ([], "10.0.0.7"), ([""], "10.0.0.7")],
)
def test_without_a_list_every_peer_counts_as_the_proxy(
    forwarded: list[str], origin: str
) -> None:
    assert Proxies().origin("10.0.0.7", forwarded) == origin
