"""TLS to a NATS: the right authority opens it, everything else gets no credential."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from certificates import Authority
from nats_servers import OURS, PASSWORD, NatsServer
from servers import Api, Running

from noetl.adapters.blobs.nats import NatsBlobs
from noetl.adapters.nats.connection import CarefulClient
from noetl.adapters.nats.permissions import (
    RESULTS,
    describe_user,
    server_permissions,
)
from noetl.client.tls import trusted_peer
from noetl.config import read_settings
from noetl.errors import ConfigError, StoreError
from noetl.local.services.nats import nats_tls

SHIPPED = Path(__file__).parents[2] / "deploy" / "nats.conf"


class Place(NatsServer):
    """A NATS as ``deploy/nats.conf`` describes it, with files of this test."""

    def __init__(self, folder: Path, more: str = "") -> None:
        folder.mkdir()
        self.authority = Authority(folder)
        cert, key = self.authority.vouch("localhost", "127.0.0.1")
        text = SHIPPED.read_text().replace("/data", str(folder))
        text = text.replace("port: 4222\n", "")
        text = text.replace("/run/tls/cert.pem", str(cert))
        text = text.replace('"/run/tls/key.pem"', f'"{key}"\n{more}')
        super().__init__(folder, -1, text, {"NATS_PASSWORD": PASSWORD})
        self.secure = self.place(OURS, "tls", "localhost")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    server = Place(tmp_path / "nats")
    monkeypatch.setenv("NOETL_NATS_CA", str(server.authority.file))
    yield server
    server.kill()


def blobs(address: str, folder: Path) -> NatsBlobs:
    return NatsBlobs(address, RESULTS, str(folder), nats_tls(address, read_settings()))


def test_the_shipped_permissions_are_those_of_noetl_up() -> None:
    text = SHIPPED.read_text()

    assert describe_user("$NATS_PASSWORD", server_permissions()) in text
    assert text.count("user:") == 1
    assert re.search(r"^tls \{$", text, re.MULTILINE)


def test_a_server_works_with_the_shipped_settings(place: Place, tmp_path: Path) -> None:
    async def keep() -> bytes:
        store = blobs(place.secure, tmp_path)
        return await store.get(await store.put(b"over TLS"))

    assert asyncio.run(keep()) == b"over TLS"
    server = Running(tmp_path / "home", nats=place.secure)
    try:
        api = Api(server.url, server.token)
        body = {"name": "ann", "roles": ["viewer"], "password": PASSWORD}
        assert api.post("/api/users", body).status == 201
        signing = {"name": "ann", "password": PASSWORD}
        answer = Api(server.url, None).post("/api/sessions", signing)
        cookie = answer.headers["set-cookie"].split(";")[0]
        seen = Api(server.url, None).get("/api/executions", Cookie=cookie)
    finally:
        server.stop()

    assert (answer.status, seen.status) == (201, 200)
    assert place.violations() == []


def test_another_authority_is_not_trusted(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("NOETL_NATS_CA", str(Authority(other).file))

    with pytest.raises(StoreError) as caught:
        asyncio.run(blobs(place.secure, tmp_path).put(b"x"))
    server = Running(tmp_path / "home", nats=place.secure)
    try:
        body = {"name": "ann", "roles": ["viewer"], "password": PASSWORD}
        Api(server.url, server.token).post("/api/users", body)
        answer = Api(server.url, None).post(
            "/api/sessions", {"name": "ann", "password": PASSWORD}
        )
    finally:
        server.stop()

    assert caught.value.kind == "store.unreachable"
    assert PASSWORD not in str(caught.value)
    assert (answer.status, answer.body["kind"]) == (401, "session.store_down")


def test_a_certificate_for_another_name_is_not_trusted(
    tmp_path: Path, place: Place
) -> None:
    address = place.secure.replace("localhost", "127.0.0.2")

    with pytest.raises(StoreError) as caught:
        asyncio.run(blobs(address, tmp_path).put(b"x"))

    assert caught.value.kind == "store.unreachable"


def test_a_client_certificate_is_shown_if_nats_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "nats"
    ca = folder / "ca.pem"
    server = Place(folder, f'ca_file: "{ca}"\nverify: true')
    try:
        monkeypatch.setenv("NOETL_NATS_CA", str(ca))
        with pytest.raises(StoreError):
            asyncio.run(blobs(server.secure, tmp_path).put(b"x"))
        cert, key = server.authority.vouch("noetl")
        monkeypatch.setenv("NOETL_NATS_CERT", str(cert))
        with pytest.raises(ConfigError, match="nats_key is missing"):
            blobs(server.secure, tmp_path)
        monkeypatch.setenv("NOETL_NATS_KEY", str(key))
        asyncio.run(blobs(server.secure, tmp_path).put(b"x"))
    finally:
        server.kill()


def test_files_for_tls_need_an_address_with_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_NATS", "nats://noetl:pw@127.0.0.1:4222")
    monkeypatch.setenv("NOETL_NATS_CA", str(tmp_path / "ca.pem"))
    with pytest.raises(ConfigError, match="write nats as tls://"):
        nats_tls("nats://noetl:pw@127.0.0.1:4222", read_settings())
    with pytest.raises(ConfigError, match=r"nats_ca: .* cannot be read"):
        nats_tls("tls://noetl:pw@127.0.0.1:4222", read_settings())


async def test_a_listener_without_tls_gets_no_credential() -> None:
    """A listener between both can leave out that NATS wants TLS."""
    heard = bytearray()
    done = asyncio.Event()

    async def listen(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        info = '{"server_id":"x","version":"2.11.0","auth_required":true}'
        writer.write(f"INFO {info}\r\n".encode())
        heard.extend(await reader.read(1))
        writer.close()
        done.set()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = CarefulClient(trusted_peer(None, None, None, prefix="nats_"))
        with pytest.raises(nats.errors.SecureConnWantedError):
            await client.join(
                f"tls://{OURS}@127.0.0.1:{port}",
                allow_reconnect=False,
                connect_timeout=5,
            )
        async with asyncio.timeout(5):
            await done.wait()

    assert bytes(heard) == b""
