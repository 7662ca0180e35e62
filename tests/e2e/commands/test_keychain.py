"""``noetl keychain``: what is stored is never shown."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kept_secrets import read as read_kept

from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.home_keychain import StoredKeychain
from noetl.types import JSON

Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.spec("S-67")

SECRET = "hunter2-and-more"


@pytest.fixture
def keychain(noetl: Run, tmp_path: Path) -> Run:
    """``noetl keychain …`` with a home of its own; it must not say the secret."""

    def run(*args: str, stdin: str | bytes = "") -> subprocess.CompletedProcess[str]:
        done = noetl("keychain", *args, stdin=stdin, NOETL_HOME=str(tmp_path))
        assert SECRET not in done.stdout + done.stderr
        return done

    return run


def read(home: Path, name: str) -> JSON:
    return read_kept(StoredKeychain(home / "keychain.json", Cipher(home / "key")), name)


def test_a_value_comes_from_standard_input(keychain: Run, tmp_path: Path) -> None:
    first = keychain("set", "api", stdin="old\n")
    second = keychain("set", "api", stdin=f"{SECRET}\n")

    assert (first.returncode, first.stdout) == (0, "stored: api: secret_manager\n")
    assert second.stdout == "replaced: api: secret_manager\n"
    assert read(tmp_path, "api") == SECRET


def test_a_credential_has_fields(keychain: Run, tmp_path: Path) -> None:
    fields = ["--field", "host=db", "--field", "password", "--field", "user=a=b"]

    done = keychain(
        "set", "pg", "--kind", "postgres_credential", *fields, stdin=f"{SECRET}\n"
    )

    assert done.stdout == "stored: pg: postgres_credential (host, password, user)\n"
    assert read(tmp_path, "pg") == {"host": "db", "password": SECRET, "user": "a=b"}


def test_a_credential_may_come_as_json(keychain: Run, tmp_path: Path) -> None:
    value = {"username": "me", "password": SECRET}

    done = keychain("set", "web", "--kind", "http_credential", stdin=json.dumps(value))

    assert done.returncode == 0
    assert read(tmp_path, "web") == value


def test_listing_shows_names_and_no_values(keychain: Run) -> None:
    assert "noetl keychain set" in keychain("list").stdout
    keychain("set", "b", stdin=SECRET)
    stored = keychain("set", "a", "--field", "x=1", "--json")

    listed = json.loads(keychain("list", "--json").stdout)["keychain"]

    assert [(each["name"], each["fields"]) for each in listed] == [
        ("a", ["x"]),
        ("b", None),
    ]
    assert json.loads(stored.stdout) == {**listed[0], "replaced": False}
    assert len(keychain("list").stdout.splitlines()) == 2


@pytest.mark.spec("S-81")
def test_a_secret_is_bound_to_paths_until_it_is_bound_anew(keychain: Run) -> None:
    bound = keychain("set", "api", "--for", "finance/*", "--for", "hr/x", stdin=SECRET)
    again = keychain("set", "api", "--json", stdin=SECRET)
    free = keychain("set", "api", "--for", "*", stdin=SECRET)
    wrong = keychain("set", "api", "--for", "fin*", stdin=SECRET)

    assert bound.stdout == "stored: api: secret_manager, for finance/*, hr/x\n"
    assert json.loads(again.stdout)["for"] == ["finance/*", "hr/x"]
    assert free.stdout == "replaced: api: secret_manager\n"
    assert (wrong.returncode, "found 'fin*'" in wrong.stderr) == (2, True)


@pytest.mark.spec("S-81")
def test_a_declaration_says_where_a_secret_is(keychain: Run) -> None:
    fields = ["--field", "path=secret/data/x", "--field", "address=https://v.invalid"]

    done = keychain("declare", "db", "--kind", "vault", *fields, "--for", "finance/*")

    words = "db: vault, declared (path=secret/data/x, address=https://v.invalid), "
    assert done.stdout == f"declared: {words}for finance/*\n"
    [line] = json.loads(keychain("list", "--json").stdout)["keychain"]
    assert line["declared"] == {
        "path": "secret/data/x",
        "address": "https://v.invalid",
    }
    assert line["for"] == ["finance/*"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["db", "--kind", "vualt"], "did you mean 'vault'"),
        (["db", "--kind", "oauth2"], "noetl keychain set"),
        (["db", "--kind", "vault", "--field", "path"], "name=value"),
        (["db", "--kind", "vault", "--field", "adress=x"], "did you mean 'address'"),
        (
            ["db", "--kind", "env", "--field", "variable=A", "--field", "variable=B"],
            "is given twice",
        ),
        (["db", "--kind", "file", "--field", "path=x"], "must be absolute"),
        (["db"], "Missing option '--kind'"),
    ],
)
def test_a_wrong_declaration_is_explained_and_not_stored(
    keychain: Run, tmp_path: Path, args: list[str], words: str
) -> None:
    done = keychain("declare", *args)

    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "keychain.json").exists()


def test_deleting_forgets_one(keychain: Run) -> None:
    keychain("set", "api", stdin=SECRET)

    wrong = keychain("delete", "apl")
    right = keychain("delete", "api", "--json")
    again = keychain("delete", "api")

    assert wrong.returncode == 2
    assert "has no 'apl'; did you mean 'api'?" in wrong.stderr
    assert (right.returncode, json.loads(right.stdout)) == (0, {"name": "api"})
    assert again.returncode == 2


@pytest.mark.parametrize(
    ("args", "stdin", "words"),
    [
        pytest.param(["api"], "", "the value of 'api' is empty", id="nothing"),
        pytest.param(["api"], " \n", "the value of 'api' is empty", id="blank"),
        pytest.param(["api"], b"\xff\xfe", "is not UTF-8 text", id="bytes"),
        pytest.param(["api"], b"x" * 1_048_577, "more than 1,048,576", id="large"),
        pytest.param(["a\tb"], "x", "printable characters", id="a name"),
        pytest.param(["a", "--field", "=x"], "", "name=value", id="no field"),
        pytest.param(["a", "--field", "pin"], "", "'pin' is empty", id="no line"),
        pytest.param(
            ["a", "--field", "x=1", "--field", "x=2"], "", "is given twice", id="twice"
        ),
        pytest.param(
            ["a", "--kind", "oauth2"], "[1]", "oauth2 has fields", id="no mapping"
        ),
        pytest.param(["a", "--kind", "x"], "", "is not one of", id="no kind"),
        pytest.param([], "", "Missing argument", id="no name"),
    ],
)
def test_a_wrong_call_stores_nothing(
    keychain: Run, tmp_path: Path, args: list[str], stdin: str | bytes, words: str
) -> None:
    done = keychain("set", *args, stdin=stdin)

    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "keychain.json").exists()


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("hots=db", "postgres_credential has no 'hots', but it has 'host'"),
        ("password=visible", "--field password=…: other users can read a command line"),
        ("region=eu", ""),
    ],
)
def test_a_suspicious_field_gets_a_warning(
    keychain: Run, field: str, words: str
) -> None:
    fields = ["--field", "user=me", "--field", field]

    done = keychain("set", "pg", "--kind", "postgres_credential", *fields)

    assert done.returncode == 0
    assert words in done.stderr
    assert bool(words) == bool(done.stderr)
    assert "visible" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["set", "declare", "list", "delete"])
def test_each_has_an_example_and_json(keychain: Run, name: str) -> None:
    shown = keychain(name, "--help").stdout

    assert f"  noetl keychain {name}" in shown
    assert "--json" in shown


def test_a_terminal_is_asked_without_echo(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "noetl", "keychain", "set", "api"]
    child, terminal = pty.fork()
    if child == 0:
        os.execve(command[0], command, {**os.environ, "NOETL_HOME": str(tmp_path)})
    shown = b""
    while b"api: " not in shown:
        shown += os.read(terminal, 1024)
    os.write(terminal, f"{SECRET}\n".encode())
    try:
        while part := os.read(terminal, 1024):
            shown += part
    except OSError:  # so a terminal ends on Linux
        pass
    _, status = os.waitpid(child, 0)
    os.close(terminal)

    assert os.waitstatus_to_exitcode(status) == 0, shown
    assert SECRET.encode() not in shown
    assert b"stored: api" in shown
    assert read(tmp_path, "api") == SECRET
