"""Which addresses clients may connect to, in every spelling of them."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from noetl.adapters.network import BlockedAddress, Endpoint, Network
from noetl.adapters.network.network import endpoints_of

METADATA = (
    "169.254.169.254",
    "169.254.169.254.",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "::ffff:169.254.169.254",
    "[::ffff:a9fe:a9fe]",
    "::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::",
    "2001:0:a9fe:a9fe::",
    "2001:0:808:808:0:0:5601:5601",
    "2001:db8::5efe:a9fe:a9fe",
    "2001:db8::200:5efe:a9fe:a9fe",
    "fe80::a9fe:a9fe%eth0",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd20:ce::254",
    "metadata.google.internal",
    "METADATA.google.internal.",
    "instance-data",
)
NEVER = (
    *METADATA,
    "169.254.1.1",
    "fe80::1",
    "fe80::1%lo",
    "224.0.0.1",
    "ff02::1",
    "0.0.0.0",
    "0",
    "0.1.2.3",
    "::",
    "::ffff:0.0.0.0",
    "255.255.255.255",
)
PRIVATE = (
    "127.0.0.1",
    "127.1",
    "127.0.0.1.",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "localhost",
    "LOCALHOST.",
    "::1",
    "[::1]",
    "0:0:0:0:0:0:0:1",
    "::1%lo",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::127.0.0.1",
    "::ffff:0:7f00:1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::7f00:1",
    "2002:7f00:1::",
    "2001:0:808:808:0:0:80ff:fffe",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "198.18.0.1",
    "240.0.0.1",
    "fc00::1",
    "fd00::1",
    "fec0::1",
    "5f00::1",
    "100::1",
)
PUBLIC = ("8.8.8.8", "1.1.1.1", "2606:4700::1111", "2002:808:808::", "64:ff9b::808:808")


def resolve(network: Network, host: str, port: int = 80) -> list[str]:
    return asyncio.run(network.resolve(host, port))


@pytest.mark.parametrize("host", NEVER)
@pytest.mark.parametrize("private", ["allow", "deny", ("0.0.0.0/0", "::/0")])
def test_some_addresses_are_denied_under_every_setting(host: str, private: Any) -> None:
    with pytest.raises(BlockedAddress):
        resolve(Network(private), host)
    with pytest.raises(BlockedAddress):
        asyncio.run(Network(private).check_remote(host, 80))


@pytest.mark.parametrize("host", PRIVATE)
def test_private_addresses_are_denied_unless_they_are_allowed(host: str) -> None:
    for network in (Network("deny"), Network(("192.0.2.0/24",))):
        with pytest.raises(BlockedAddress, match=r"network\.private"):
            resolve(network, host)
        with pytest.raises(BlockedAddress, match=r"network\.private"):
            asyncio.run(network.check_remote(host, 80))
    assert resolve(Network("allow"), host)


@pytest.mark.parametrize("host", PUBLIC)
def test_public_addresses_are_allowed(host: str) -> None:
    for private in ("allow", "deny", ("10.0.0.0/8",)):
        assert resolve(Network(private), host) == [host]  # type: ignore[arg-type]


def test_a_list_allows_its_networks_alone() -> None:
    network = Network(("10.0.0.0/8", "fd00:1::/32"))

    assert resolve(network, "10.1.2.3") == ["10.1.2.3"]
    assert resolve(network, "::ffff:10.1.2.3") == ["::ffff:a01:203"]
    assert resolve(network, "fd00:1::5") == ["fd00:1::5"]
    for host in ("127.0.0.1", "192.168.0.1", "fd00:2::5"):
        with pytest.raises(BlockedAddress):
            resolve(network, host)


OWN: list[Endpoint] = [("localhost", 5432), ("127.0.0.1", 4222), ("0.0.0.0", 8082)]


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("127.0.0.1", 5432),
        ("localhost", 5432),
        ("::ffff:127.0.0.1", 5432),
        ("0x7f.1", 4222),
        ("127.0.0.1", 8082),
        ("127.8.8.8", 8082),
        ("::1", 8082),
    ],
)
def test_endpoints_of_noetl_itself_are_never_reached(host: str, port: int) -> None:
    for private in ("allow", "deny", ("127.0.0.0/8", "::1/128")):
        with pytest.raises(BlockedAddress):
            resolve(Network(private, OWN), host, port)  # type: ignore[arg-type]
    assert resolve(Network("allow", OWN), host, port + 1)


def test_a_listener_on_all_addresses_is_known_by_each_of_them() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing; the system chooses an address
        here = probe.getsockname()[0]

    with pytest.raises(BlockedAddress):
        resolve(Network("allow", OWN), here, 8082)


def test_a_socket_of_this_machine_is_private() -> None:
    own: list[Endpoint] = [("/run/postgresql", 5432)]

    Network("allow", own).check_socket("/elsewhere/.s.PGSQL.5432")
    for network in (Network("deny"), Network(("127.0.0.0/8",)), Network("allow", own)):
        with pytest.raises(BlockedAddress):
            network.check_socket("/run/postgresql/.s.PGSQL.5432")


@pytest.mark.parametrize(
    ("address", "endpoints"),
    [
        (None, []),
        ("postgresql://u:p@h/d", [("h", 5432)]),
        ("postgresql://u:p@a:1,b:2/d", [("a", 1), ("b", 2)]),
        ("postgresql://u@[::1]:7/d", [("::1", 7)]),
        ("postgresql://u@/d?host=/run/pg&port=5433", [("/run/pg", 5433)]),
        ("postgresql://u@%2Frun%2Fpg/d", [("/run/pg", 5432)]),
        (
            "postgresql:///d",
            [(each, 5432) for each in ("localhost", "/run/postgresql")]
            + [("/var/run/postgresql", 5432), ("/tmp", 5432)],
        ),
        ("nats://token@h:4222", [("h", 4222)]),
        ("nats://a:1,b:2", [("a", 1), ("b", 2)]),
        ("nats://a,tls://t@b:2", [("a", 4222), ("b", 2)]),
        ("https://noetl.example.com", [("noetl.example.com", 443)]),
        ("http://127.0.0.1:8082", [("127.0.0.1", 8082)]),
    ],
)
def test_endpoints_of_an_address(
    address: str | None, endpoints: list[Endpoint]
) -> None:
    assert endpoints_of(address) == endpoints
