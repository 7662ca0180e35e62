"""Environment variables and files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import SecretError

Ask = Callable[..., Any]

pytestmark = pytest.mark.spec("S-67")


def test_a_variable_is_named_or_has_the_name_of_the_entry(
    ask: Ask, environ: dict[str, str]
) -> None:
    environ |= {"API_TOKEN": "one", "api": "two"}

    assert ask("env", "api", variable="API_TOKEN") == "one"
    assert ask("env", "api") == "two"
    assert ask("secret_manager", "x", provider="env", path="API_TOKEN") == "one"


@pytest.mark.parametrize("value", [None, ""], ids=["not set", "empty"])
def test_a_variable_that_is_not_there_is_named(
    ask: Ask, environ: dict[str, str], value: str | None
) -> None:
    environ |= {} if value is None else {"API_TOKEN": value}

    with pytest.raises(SecretError, match=r"variable API_TOKEN is .*; export it") as e:
        ask("env", variable="API_TOKEN")
    assert e.value.kind == "secret.missing"


def test_a_variable_may_hold_a_mapping(ask: Ask, environ: dict[str, str]) -> None:
    environ["DB"] = '{"user": "me", "password": "pw"}'

    assert ask("env", variable="DB") == environ["DB"]
    assert ask("env", variable="DB", format="json")["user"] == "me"
    assert ask("env", variable="DB", field="password") == "pw"


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"field": "pin"}, "secret.missing", "no field 'pin' .fields: user, password"),
        ({"format": "yaml"}, "secret.wrong", "format is 'yaml', not json or text"),
        ({"variable": "TEXT", "format": "json"}, "secret.wrong", "TEXT is not JSON"),
        ({"variable": 7}, "secret.wrong", "needs 'variable', as text"),
    ],
)
def test_a_wrong_entry_is_explained(
    ask: Ask, environ: dict[str, str], fields: Any, kind: str, words: str
) -> None:
    environ |= {"DB": '{"user": "me", "password": "pw-secret"}', "TEXT": "pw-secret"}

    with pytest.raises(SecretError, match=words) as e:
        ask("env", **{"variable": "DB", **fields})
    assert e.value.kind == kind
    assert "pw-secret" not in e.value.message


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_file_is_read_without_its_last_line_break(
    ask: Ask, tmp_path: Path, ending: str
) -> None:
    (tmp_path / "key").write_bytes(f"two\nlines{ending}".encode())

    assert ask("file", path="key") == "two\nlines"
    assert ask("file", path=str(tmp_path / "key")) == "two\nlines"


def test_a_file_in_the_home_folder(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "token").write_text('{"a": 1}')

    assert ask("file", path="~/token", field="a") == 1


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("none", "secret.missing", "none cannot be read: No such file"),
        ("folder", "secret.wrong", "is not a file"),
        ("pipe", "secret.wrong", "is not a file"),
        ("bytes", "secret.wrong", "is not UTF-8 text"),
        ("large", "secret.wrong", "is larger than 1,048,576 bytes"),
        (None, "secret.wrong", "kind file needs 'path'"),
    ],
)
def test_an_invalid_secret_file_is_refused(
    ask: Ask, tmp_path: Path, name: str | None, kind: str, words: str
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b"x" * (1024 * 1024 + 1))

    with pytest.raises(SecretError, match=words) as e:
        ask("file", path=name)
    assert e.value.kind == kind
