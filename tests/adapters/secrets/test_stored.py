"""The stored keychain, credentials in it, and the key that seals it."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kept_secrets import read

from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.home_keychain import StoredKeychain
from noetl.errors import SecretError

Ask = Callable[..., Any]

SECRET = "s3cr3t-ünd-längér"


@pytest.mark.spec("S-67")
def test_what_is_stored_is_read_again_and_nothing_of_it_is_on_the_disk(
    stored: StoredKeychain, tmp_path: Path
) -> None:
    assert not stored.set("api", SECRET, "secret_manager", "T1").replaced
    fields = {"user": "u", "password": SECRET}
    assert not stored.set("pg", fields, "oauth2", "T2").replaced
    assert stored.set("api", SECRET + "2", "secret_manager", "T3").replaced

    assert read(stored, "api") == SECRET + "2"
    assert read(stored, "pg") == {"user": "u", "password": SECRET}
    assert {name: record.fields for name, record in stored.list().items()} == {
        "api": None,
        "pg": ["password", "user"],
    }
    for path in tmp_path.iterdir():
        assert SECRET.encode() not in path.read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_one_that_is_deleted_is_gone(stored: StoredKeychain) -> None:
    stored.set("api", SECRET, "secret_manager", "T1")

    assert stored.delete("api") is True
    assert stored.delete("api") is False
    with pytest.raises(SecretError, match="has no 'api'; store it with: noetl"):
        read(stored, "api")


@pytest.mark.spec("S-81")
def test_a_file_of_before_bindings_opens_and_is_for_all_playbooks(
    stored: StoredKeychain, tmp_path: Path
) -> None:
    stored.set("api", SECRET, "secret_manager", "T1")
    path = tmp_path / "keychain.json"
    records = json.loads(path.read_text())
    for name in ("for", "declared"):
        del records["api"][name]
    path.write_text(json.dumps(records))

    assert read(stored, "api") == read(stored, "api", "any/path") == SECRET
    assert stored.list()["api"].bound == ("*",)


@pytest.mark.spec("S-81")
def test_a_new_value_keeps_its_bindings(stored: StoredKeychain) -> None:
    stored.set("api", SECRET, "secret_manager", "T1", lambda _: ("finance/*",))
    change = stored.set("api", SECRET + "2", "secret_manager", "T2")

    assert change.record.bound == ("finance/*",)
    assert read(stored, "api", "finance/x") == SECRET + "2"
    for path in ("hr/x", None):
        with pytest.raises(SecretError, match="has no 'api'"):
            read(stored, "api", path)


@pytest.mark.spec("S-81")
def test_what_is_refused_changes_nothing(stored: StoredKeychain) -> None:
    stored.set("api", SECRET, "secret_manager", "T1")

    def refuse(_: object) -> tuple[str, ...]:
        raise SecretError("secret.denied", "no")

    with pytest.raises(SecretError, match="no"):
        stored.set("api", "other", "secret_manager", "T2", refuse)
    assert not stored.delete("api", lambda _: False)
    assert read(stored, "api") == SECRET


def test_a_name_that_is_nearly_there_is_offered(stored: StoredKeychain) -> None:
    stored.set("api_token", SECRET, "secret_manager", "T1")

    with pytest.raises(SecretError, match="did you mean 'api_token'") as e:
        read(stored, "api_tokn")
    assert e.value.kind == "secret.missing"


def test_a_value_under_another_name_does_not_open(
    stored: StoredKeychain, tmp_path: Path
) -> None:
    stored.set("one", SECRET, "secret_manager", "T1")
    path = tmp_path / "keychain.json"
    path.write_text(path.read_text().replace('"one"', '"two"'))

    with pytest.raises(SecretError, match=r"'two' in .* does not open") as e:
        read(stored, "two")
    assert e.value.kind == "secret.sealed"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(lambda key: key.chmod(0o640), "chmod 600", id="others can read"),
        pytest.param(lambda key: key.write_bytes(b"x"), "is not a key", id="short"),
        pytest.param(
            lambda key: key.write_bytes(b"x" * 32), "another key", id="another"
        ),
        pytest.param(
            lambda key: (key.unlink(), key.mkdir()), "cannot be read", id="a folder"
        ),
    ],
)
def test_a_key_that_does_not_fit_is_explained(
    stored: StoredKeychain, tmp_path: Path, spoil: Callable[[Path], Any], words: str
) -> None:
    stored.set("api", SECRET, "secret_manager", "T1")
    spoil(tmp_path / "key")
    again = StoredKeychain(tmp_path / "keychain.json", Cipher(tmp_path / "key"))

    with pytest.raises(SecretError, match=words):
        read(again, "api")


def test_a_file_of_another_format_is_not_overwritten(
    stored: StoredKeychain, tmp_path: Path
) -> None:
    (tmp_path / "keychain.json").write_text("hello")

    with pytest.raises(SecretError, match="is not a keychain"):
        stored.set("api", SECRET, "secret_manager", "T1")
    assert (tmp_path / "keychain.json").read_text() == "hello"


def test_several_processes_store_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.home_keychain import StoredKeychain
home = Path(sys.argv[1])
stored = StoredKeychain(home / "keychain.json", Cipher(home / "key"))
for number in range(10):
    stored.set(f"{sys.argv[2]}-{number}", "value", "secret_manager", "T")
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    programs = [subprocess.Popen([*command, name]) for name in "abc"]

    assert [program.wait() for program in programs] == [0, 0, 0]
    stored = StoredKeychain(tmp_path / "keychain.json", Cipher(tmp_path / "key"))
    assert len(stored.list()) == 30
    assert {read(stored, name) for name in stored.list()} == {"value"}


@pytest.mark.spec("KEY-02", "S-67")
def test_a_bare_entry_is_a_stored_secret_of_its_name(
    ask: Ask, stored: StoredKeychain
) -> None:
    stored.set("openai_token", SECRET, "secret_manager", "T")
    stored.set("team/app", {"a": "x", "b": "y"}, "secret_manager", "T")

    assert ask("secret_manager", "openai_token") == SECRET
    assert ask("secret_manager", "x", path="team/app", field="b") == "y"
    assert ask("secret_manager", "x", provider="stored", path="team/app")["a"] == "x"


@pytest.mark.spec("KEY-02", "S-67")
@pytest.mark.parametrize("kind", ["postgres_credential", "http_credential"])
def test_a_credential_is_stored_written_down_or_both(
    ask: Ask, stored: StoredKeychain, environ: dict[str, str], kind: str
) -> None:
    stored.set("pg", {"user": "u", "password": SECRET}, kind, "T")
    environ["PG"] = '{"user": "e"}'

    assert ask(kind, "pg") == {"user": "u", "password": SECRET}
    assert ask(kind, "pg", user="v", host="h") == {
        "user": "v",
        "password": SECRET,
        "host": "h",
    }
    assert ask(kind, "other", user="only", password="here") == {
        "user": "only",
        "password": "here",
    }


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("postgres_credential", "--field host=… --field user=… --field password"),
        ("http_credential", "--field username=… --field password (or --field token)"),
        ("oauth2", "--field token_url=… --field client_id=… --field client_secret"),
    ],
)
def test_a_missing_credential_names_the_command_that_stores_it(
    ask: Ask, stored: StoredKeychain, kind: str, options: str
) -> None:
    with pytest.raises(SecretError) as e:
        ask(kind)

    command = f"store it with: noetl keychain set it --kind {kind} {options}"
    assert e.value.message.endswith(command)


def test_a_missing_plain_secret_needs_no_options(
    ask: Ask, stored: StoredKeychain
) -> None:
    with pytest.raises(SecretError) as e:
        ask("secret_manager")

    assert e.value.message.endswith("noetl keychain set it")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param({}, "no 'it'; store it", id="nowhere"),
        pytest.param({"path": "x", "user": "u"}, "no 'x'; store it", id="a path"),
        pytest.param({"path": "single"}, "is a single value", id="no fields"),
        pytest.param({"provider": "vualt"}, "did you mean 'vault'", id="nobody"),
        pytest.param({"provider": "secret_manager"}, "unknown provider", id="itself"),
    ],
)
def test_a_credential_that_is_none_is_explained(
    ask: Ask, stored: StoredKeychain, fields: dict[str, str], words: str
) -> None:
    stored.set("single", SECRET, "secret_manager", "T")

    with pytest.raises(SecretError, match=words) as e:
        ask("postgres_credential", **fields)
    assert SECRET not in e.value.message
