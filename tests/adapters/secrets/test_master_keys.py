"""The operator's key: where it is read, and services that hold it."""

from __future__ import annotations

import asyncio
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from noetl.adapters.secrets.master_keys import MasterKey, open_master_key, read_keys
from noetl.errors import ConfigError, SecretError
from noetl.plugins import API, KeyPlugin

ONE, TWO = bytes([251]) * 32, bytes([2]) * 32
KEY = b"a key of 32 bytes, to be sealed."

PROGRAM = """
import base64, sys
what, text = sys.argv[1], base64.b64decode(sys.stdin.read())
turned = bytes(each ^ 7 for each in text)
print(base64.b64encode(turned).decode())
"""


class Turning:
    """A key service that turns bits; ``mistake`` is what it does wrong."""

    def __init__(self, mistake: object = None) -> None:
        self._mistake = mistake

    async def seal(self, key: bytes) -> bytes:
        if isinstance(self._mistake, Exception):
            raise self._mistake
        return bytes(each ^ 7 for each in key)

    async def open(self, sealed: bytes) -> bytes:
        if self._mistake is not None:
            return self._mistake  # type: ignore[return-value]
        return bytes(each ^ 7 for each in sealed)


def plugin(service: Turning) -> dict[str, KeyPlugin]:
    return {"kms": KeyPlugin(api=API, make=lambda place: service)}


def there_and_back(master: MasterKey) -> bytes:
    async def work() -> bytes:
        sealed_by, sealed = await master.seal(KEY)
        assert KEY not in sealed
        assert KEY.hex() not in sealed_by
        return await master.open(sealed_by, sealed)

    return asyncio.run(work())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(ONE, id="bytes"),
        pytest.param(b64encode(ONE) + b"\n", id="base64"),
        pytest.param(urlsafe_b64encode(ONE).rstrip(b"="), id="base64 for URLs"),
        pytest.param(b64encode(ONE) + b"\n" + b64encode(TWO), id="several"),
    ],
)
def test_a_key_is_read_from_a_file_or_a_variable(tmp_path: Path, text: bytes) -> None:
    assert read_keys(text, "it")[0] == ONE
    file = tmp_path / "key"
    file.write_bytes(text)
    file.chmod(0o640)
    link = tmp_path / "mounted"
    link.symlink_to(file)
    assert there_and_back(open_master_key(f"file:{link}", {})) == KEY
    if text != ONE:
        variable = {"K": text.decode()}
        assert there_and_back(open_master_key("env:K", {}, variable)) == KEY


def test_a_program_or_a_plug_in_holds_the_key(tmp_path: Path) -> None:
    file = tmp_path / "kms.py"
    file.write_text(PROGRAM)
    program = open_master_key(f"command:{sys.executable} -I {file}", {})
    assert there_and_back(program) == KEY
    service = open_master_key("kms:alias/noetl", plugin(Turning()))
    assert there_and_back(service) == KEY


def _script(tmp_path: Path, text: str) -> str:
    file = tmp_path / "program"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o700)
    return f"command:{file}"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        pytest.param(lambda t: f"file:{t}/none", "cannot be read: No such", id="none"),
        pytest.param(lambda t: f"file:{t}/open", "chmod o=", id="others can read"),
        pytest.param(lambda t: f"file:{t}/text", "openssl rand", id="no key"),
        pytest.param(lambda t: "env:NONE", "NONE has no key", id="no variable"),
        pytest.param(
            lambda t: _script(t, "echo s3cret >&2; exit 3"), "exit code 3", id="exit"
        ),
        pytest.param(
            lambda t: _script(t, "cat >/dev/null; echo s3cret!"),
            "did not print base64",
            id="text",
        ),
        pytest.param(lambda t: f"command:{t}/none", "cannot be started", id="program"),
        pytest.param(
            lambda t: "broken:x", "broken could not seal a key: V", id="fails"
        ),
        pytest.param(lambda t: "empty:x", "that is not a key", id="empty"),
    ],
)
def test_a_key_that_cannot_be_used_is_explained(
    tmp_path: Path, place: Callable[[Path], str], words: str
) -> None:
    (tmp_path / "open").write_bytes(b64encode(ONE))
    (tmp_path / "open").chmod(0o644)
    (tmp_path / "text").write_text("s3cret")
    (tmp_path / "text").chmod(0o600)
    services = {"broken": Turning(ValueError("s3cret")), "empty": Turning(b"")}
    plugins = {name: plugin(each)["kms"] for name, each in services.items()}
    master = open_master_key(place(tmp_path), plugins, {})

    with pytest.raises(SecretError, match=words) as refused:
        there_and_back(master)
    assert refused.value.kind == "secret.sealed"
    assert "s3cret" not in refused.value.message


@pytest.mark.parametrize("place", ["file", "file:", "aws:x", "command:", "command:'"])
def test_a_place_that_is_none_is_refused_at_once(place: str) -> None:
    with pytest.raises(ConfigError, match="keychain_key"):
        open_master_key(place, {})
