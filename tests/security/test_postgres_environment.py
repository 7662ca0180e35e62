"""A connection of a playbook uses nothing of the process's environment or home."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from databases import PASSWORD
from msgspec.structs import replace
from pg_proxy import proxy

from noetl.adapters.network import Network
from noetl.adapters.tools.postgres.connections import Dialer
from noetl.adapters.tools.postgres.dsn import Address, read_address

EVERY_MODE = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
IN_TLS = ["prefer", "require", "verify-ca", "verify-full"]
MISLEADING = {
    "PGHOST": "192.0.2.1",
    "PGPORT": "1",
    "PGUSER": "operator",
    "PGPASSWORD": "canary",
    "PGDATABASE": "operator",
    "PGPASSFILE": "/nonexistent/pgpass",
    "PGSERVICE": "operator",
    "PGSERVICEFILE": "/nonexistent/service",
    "PGSSLMODE": "nonsense",
    "PGSSLNEGOTIATION": "nonsense",
    "PGSSLCERT": "/nonexistent/cert.pem",
    "PGSSLKEY": "/nonexistent/key.pem",
    "PGSSLROOTCERT": "/nonexistent/root.pem",
    "PGSSLCRL": "/nonexistent/root.crl",
    "PGSSLMINPROTOCOLVERSION": "nonsense",
    "PGSSLMAXPROTOCOLVERSION": "nonsense",
    "PGTARGETSESSIONATTRS": "nonsense",
    "PGKRBSRVNAME": "canary",
    "PGGSSLIB": "nonsense",
}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key, and a certificate of ``localhost`` that it signed itself."""
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return folder


@pytest.fixture
def operator(
    certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A home with a client certificate and a password for every server."""
    folder = tmp_path / ".postgresql"
    folder.mkdir()
    for ours, theirs in (("cert.pem", "postgresql.crt"), ("key.pem", "postgresql.key")):
        (folder / theirs).write_bytes((certificate / ours).read_bytes())
        (folder / theirs).chmod(0o600)
    (tmp_path / ".pgpass").write_text(f"*:*:*:*:{PASSWORD.replace(':', chr(92) + ':')}")
    (tmp_path / ".pgpass").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys.log"))
    return tmp_path


def tls_of(certificate: Path, *, asks: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    if asks:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificate / "cert.pem")
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # refuses in the handshake
    return context


def address_of(port: int, mode: str, trusted: Path | None = None) -> Address:
    auth: dict[str, Any] = {"host": "localhost", "port": port, "sslmode": mode}
    auth |= {"user": "postgres", "password": PASSWORD, "database": "postgres"}
    if trusted is not None:
        auth["sslrootcert"] = (trusted / "cert.pem").read_text()
    return read_address({"auth": auth})


async def encrypted(dialer: Dialer) -> bool:
    connection = await dialer.connect()
    try:
        assert await connection.fetchval("SELECT 1") == 1
        return connection._transport.get_extra_info("sslcontext") is not None
    finally:
        await connection.close()


class Counting(Network):
    """Counts the connections that are tried."""

    count = 0

    async def resolve(self, host: str, port: int) -> list[str]:
        self.count += 1
        return await super().resolve(host, port)


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_the_driver_reads_no_variable(
    mode: str,
    certificate: Path,
    postgres_server: int,
    operator: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in MISLEADING.items():
        monkeypatch.setenv(name, value)

    async def main() -> bool:
        tls = tls_of(certificate) if mode in IN_TLS else None
        async with proxy(postgres_server, tls) as between:
            address = address_of(between.port, mode, certificate)
            return await encrypted(Dialer(address, Network("allow")))

    assert asyncio.run(main()) is (mode in IN_TLS)
    assert not (operator / "keys.log").exists()


@pytest.mark.parametrize("mode", ["prefer", "require", "verify-full"])
@pytest.mark.usefixtures("operator")
def test_a_server_that_asks_for_a_certificate_does_not_get_the_operator_s(
    mode: str, certificate: Path, postgres_server: int
) -> None:
    async def main() -> None:
        tls = tls_of(certificate, asks=True)
        async with proxy(postgres_server, tls) as between:
            address = address_of(between.port, mode, certificate)
            await Dialer(address, Network("allow")).connect()

    with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
        asyncio.run(main())


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer"])
@pytest.mark.usefixtures("operator")
def test_a_connection_without_a_password_does_not_get_the_operator_s(
    mode: str, postgres_server: int
) -> None:
    dsn = f"postgresql://postgres@localhost:{postgres_server}/postgres?sslmode={mode}"

    async def main() -> None:
        await Dialer(read_address({"dsn": dsn}), Network("allow")).connect()

    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("mode", "has_tls", "tried"),
    [
        pytest.param("prefer", True, [1, 2, 3], id="prefer, with TLS"),
        pytest.param("prefer", False, [2, 3, 4], id="prefer, without TLS"),
        pytest.param("allow", True, [2, 3, 4], id="allow, only with TLS"),
        pytest.param("allow", False, [1, 2, 3], id="allow, without TLS"),
    ],
)
def test_the_second_attempt_is_made_once(
    mode: str, has_tls: bool, tried: list[int], certificate: Path, postgres_server: int
) -> None:
    async def main() -> list[int]:
        network, found = Counting("allow"), []
        tls = tls_of(certificate) if has_tls else None
        async with proxy(postgres_server, tls) as between:
            dialer = Dialer(address_of(between.port, mode), network)
            for _ in range(3):
                assert await encrypted(dialer) is has_tls
                found.append(network.count)
        return found

    assert asyncio.run(main()) == tried


@pytest.mark.parametrize("mode", ["allow", "prefer"])
@pytest.mark.parametrize("has_tls", [True, False])
def test_a_wrong_password_is_reported_as_such(
    mode: str, has_tls: bool, certificate: Path, postgres_server: int
) -> None:
    async def main() -> None:
        tls = tls_of(certificate) if has_tls else None
        async with proxy(postgres_server, tls) as between:
            address = replace(address_of(between.port, mode), password="wrong")
            await Dialer(address, Network("allow")).connect()

    with pytest.raises(asyncpg.InvalidPasswordError):
        asyncio.run(main())


@pytest.mark.parametrize("attributes", ["any", "primary", "prefer-standby"])
def test_a_host_that_does_not_answer_is_passed_over(
    attributes: str, postgres_server: int
) -> None:
    address = replace(
        address_of(postgres_server, "prefer"),
        hosts=("localhost", "localhost"),
        ports=(1, postgres_server),
        target_session_attrs=attributes,
    )

    async def main() -> bool:
        return await encrypted(Dialer(address, Network("allow")))

    assert asyncio.run(main()) is False


@pytest.mark.parametrize("mode", EVERY_MODE)
def test_a_server_that_asks_for_a_kerberos_ticket_gets_none(mode: str) -> None:
    arguments = address_of(1, mode).arguments()

    assert (arguments["gsslib"], arguments["krbsrvname"]) == ("sspi", "postgres")
