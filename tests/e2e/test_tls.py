"""TLS in the server, and who trusts it: commands and workers, by certificates alone."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from certificates import Authority
from servers import HELLO

PASSWORD = "correct horse battery"
Start = Callable[..., dict[str, Any]]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def start(shell: Any) -> Iterator[Start]:
    def go(cert: Path, key: Path, *more: str) -> dict[str, Any]:
        files = ("--tls-cert", str(cert), "--tls-key", str(key))
        done = shell.noetl("server", "start", "--port", "0", "--json", *files, *more)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    yield go
    shell.noetl("server", "stop")


def away(shell: Any, home: Path) -> str:
    """From now on commands are those of another machine, with a token."""
    token = (Path(shell._env["NOETL_HOME"]) / "token").read_text().strip()
    shell._env |= {"NOETL_HOME": str(home), "NOETL_TOKEN": token}
    return token


def back(shell: Any, home: str) -> None:
    shell._env["NOETL_HOME"] = home
    del shell._env["NOETL_TOKEN"]


def test_a_server_with_a_certificate_speaks_tls_alone(
    shell: Any, authority: Authority, start: Start
) -> None:
    server = start(*authority.vouch("noetl.example"))

    assert server["url"].startswith("https://127.0.0.1:")
    assert shell.noetl("server", "status").returncode == 0
    listed = shell.noetl("user", "list")
    assert (listed.returncode, listed.stdout) == (
        0,
        "local (admin, worker:*; no password)\n",
    )

    plain = server["url"].replace("https:", "http:")
    done = shell.noetl("user", "list", "--server", plain)
    assert done.returncode == 3
    assert "does not answer in HTTP; a server with TLS is at https://" in done.stderr

    again = shell.noetl("server", "restart", "--json")
    assert json.loads(again.stdout)["url"].startswith("https://")
    assert shell.noetl("user", "list").returncode == 0


def test_others_trust_it_by_its_authority(
    shell: Any, authority: Authority, start: Start, tmp_path: Path
) -> None:
    url = start(*authority.vouch("noetl.example", "127.0.0.1"))["url"]
    home = shell._env["NOETL_HOME"]
    away(shell, tmp_path / "other")

    refused = shell.noetl("user", "list", "--server", url)
    assert (refused.returncode, refused.stdout) == (3, ""), refused.stderr
    assert "is not trusted" in refused.stderr
    assert "--ca FILE" in refused.stderr

    asked = ("user", "list", "--server", url)
    assert shell.noetl(*asked, "--ca", str(authority.file)).returncode == 0
    wrong = shell.noetl(*asked, "--ca", str(tmp_path / "nothing.pem"))
    assert (wrong.returncode, "cannot be read" in wrong.stderr) == (2, True)
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    assert "has no certificates" in shell.noetl(*asked, "--ca", str(empty)).stderr

    shell._env["NOETL_CA"] = str(authority.file)
    assert shell.noetl(*asked).returncode == 0
    named = shell.noetl(
        "user", "list", "--server", url.replace("127.0.0.1", "localhost")
    )
    assert named.returncode == 3
    assert "Hostname mismatch" in named.stderr
    del shell._env["NOETL_CA"]
    back(shell, home)


def test_a_worker_trusts_it_by_its_authority(
    shell: Any, authority: Authority, start: Start, tmp_path: Path, postgres: str
) -> None:
    shell._env["NOETL_DATABASE"] = postgres
    url = start(*authority.vouch("noetl.example", "127.0.0.1"))["url"]
    home = shell._env["NOETL_HOME"]
    file = tmp_path / "hello.yaml"
    file.write_text(HELLO)
    assert shell.noetl("catalog", "register", str(file)).returncode == 0
    away(shell, tmp_path / "other")
    shell._env["NOETL_RESULTS_URL"] = (Path(home) / "results").as_uri()
    try:
        worker = ("worker", "start", "--server", url, "--ca", str(authority.file))
        assert shell.noetl(*worker).returncode == 0
        done = shell.noetl(
            *("exec", "tests/hello", "--wait", "--json", "--server", url),
            *("--ca", str(authority.file)),
        )
        assert json.loads(done.stdout)["status"] == "completed"
    finally:
        shell.noetl("worker", "stop")
        back(shell, home)
    assert shell.noetl("worker", "start").returncode == 0, "of this home: by its own"
    try:
        done = shell.noetl("exec", "tests/hello", "--wait", "--json")
        assert json.loads(done.stdout)["status"] == "completed"
    finally:
        shell.noetl("worker", "stop")


def test_beyond_this_machine_a_certificate_will_do(
    shell: Any, authority: Authority, start: Start
) -> None:
    files = authority.vouch("noetl.example", "127.0.0.1")
    bare = shell.noetl("server", "start", "--host", "0.0.0.0", "--port", "0")
    assert "auth.required_for_bind" in bare.stderr
    server = start(*files)
    shell.noetl("user", "add", "ann", "--role", "viewer", stdin=PASSWORD)
    shell.noetl("server", "stop")
    plain = shell.noetl("server", "start", "--host", "0.0.0.0", "--port", "0")
    assert "--tls-cert" in plain.stderr

    server = start(*files, "--host", "0.0.0.0")

    parts = urlsplit(server["url"])
    context = ssl.create_default_context(cafile=str(authority.file))
    connection = http.client.HTTPSConnection(parts.netloc, context=context)
    body = json.dumps({"name": "ann", "password": PASSWORD})
    said = {"Content-Type": "application/json"}
    connection.request("POST", "/api/sessions", body, said)
    answer = connection.getresponse()
    cookie = answer.getheader("Set-Cookie") or ""
    connection.close()
    assert answer.status == 201
    assert cookie.startswith("__Host-noetl_session=")
    assert cookie.endswith("; Secure")


def test_mistakes_with_certificates_are_explained(
    shell: Any, authority: Authority, tmp_path: Path
) -> None:
    cert, key = authority.vouch("one.example")
    _, other = authority.vouch("two.example")
    _, locked = authority.vouch("three.example", passphrase="secret")
    text = tmp_path / "text.pem"
    text.write_text("no certificate")

    for files, said in (
        (("--tls-cert", cert), "tls_key is missing"),
        (("--tls-key", key), "tls_cert is missing"),
        (("--tls-cert", cert, "--tls-key", other), "the key does not belong to"),
        (("--tls-cert", text, "--tls-key", key), "they must be PEM"),
        (("--tls-cert", cert, "--tls-key", locked), "without a passphrase"),
        (("--tls-cert", tmp_path / "no.pem", "--tls-key", key), "cannot be read"),
    ):
        done = shell.noetl("server", "start", "--port", "0", *map(str, files))
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
