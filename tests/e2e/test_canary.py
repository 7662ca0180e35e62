"""Two hundred secrets through everything that runs, fails, retries and is killed.

Then every byte that was written or printed is searched for each of them.
"""

from __future__ import annotations

import base64
import html
import json
import os
import random
import shlex
import string
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from campaign import FULL
from stored_log import contents

HERE = Path(__file__).parent
COUNT = 200 if FULL else 20
MANY = str(COUNT * 9 // 2)
"""The tool call at which the run is killed: it has used most of the secrets."""
ALPHABETS = (
    string.ascii_letters + string.digits,
    string.ascii_letters + string.digits + "+/=_-.",
    string.printable.strip() + " ",
    "äöüßéñ漢字かなкириллица😀" + string.ascii_lowercase,
    string.ascii_letters + "\"'\\`$\n\t;|&<>%{}",
)


def make_secrets() -> list[str]:
    chance = random.Random(20_26)
    found = []
    for number in range(COUNT):
        alphabet, length = ALPHABETS[number % len(ALPHABETS)], chance.randint(8, 200)
        text = "".join(chance.choice(alphabet) for _ in range(length))
        # Not blank at its ends: a shell and a header would not keep that.
        found.append(chance.choice("abcXYZ") + text[1:-1] + chance.choice("019"))
    return found


def forms(secret: str) -> set[bytes]:
    """The secret as it must not be found."""
    data = secret.encode()
    texts = {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(secret))[3:-3],
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
        html.escape(secret),
        html.escape(json.dumps(secret)[1:-1]),
        html.escape(json.dumps(secret, ensure_ascii=False)[1:-1]),
        shlex.quote(secret)[1:-1],
        data.hex(),
        data.hex().upper(),
        base64.b64encode(data).decode().rstrip("="),
        base64.urlsafe_b64encode(data).decode().rstrip("="),
        base64.b64encode(b"me:" + data).decode()[4:].rstrip("=")[:-1],
        base64.encodebytes(data).decode().strip(),
    }
    if len(secret) > 32:
        texts.add(secret[:16])  # nor may it be cut before it is masked
    return {text.encode() for text in texts if len(text) >= 8}


class Home:
    """A home, what was printed about it, and the environment that has the secrets."""

    def __init__(self, folder: Path, secrets: list[str], database: str) -> None:
        self.path = folder / "home"
        self.folder = folder
        self.printed: list[bytes] = []
        self._known = {f"SECRET_{n}": secret for n, secret in enumerate(secrets)}
        self._known["database"] = database

    def know(self, **secrets: str) -> None:
        """Put these, too, into the environment of who ``knows``."""
        self._known |= secrets

    def run(
        self, *command: str, knows: bool = False, stdin: str = ""
    ) -> tuple[int, Any]:
        environ = {**os.environ, "NOETL_HOME": str(self.path)}
        done = subprocess.run(
            [sys.executable, *command],
            env={**environ, **(self._known if knows else {})},
            cwd=self.folder,
            input=stdin.encode(),
            capture_output=True,
            check=False,
        )
        self.printed += [done.stdout, done.stderr]
        return done.returncode, done.stdout

    def noetl(self, *args: str, stdin: str = "") -> tuple[int, Any]:
        return self.run("-m", "noetl", *args, stdin=stdin)

    def everything(self) -> Iterator[tuple[str, bytes]]:
        yield from contents(self.path)
        for number, text in enumerate(self.printed):
            yield f"output {number}", text


def write_playbooks(folder: Path, peer: str) -> None:
    entries = [
        {"name": f"s{number}", "kind": "env", "variable": f"SECRET_{number}"}
        for number in range(COUNT)
    ]
    for name in ("database", "hook", "account"):
        entries.append({"name": name, "kind": "env"})
    for name in ("canary.yaml", "child.yaml"):
        text = (HERE / "canary" / name).read_text()
        text = text.replace("PEER", peer).replace("ENTRIES", json.dumps(entries))
        (folder / name).write_text(text.replace("COUNT", str(COUNT)))


@pytest.mark.spec("S-41", "S-67", "KEY-04", "PIPE-16", "OUT-06", "OUT-09")
def test_no_byte_of_many_secrets_is_anywhere(
    tmp_path: Path, secret_peer: str, postgres: str
) -> None:
    secrets = make_secrets()
    write_playbooks(tmp_path, secret_peer)
    home = Home(tmp_path, secrets, postgres)
    # Secrets that are taken apart by who uses them: their parts are looked for.
    path, key = "services/T0A1/B2C3/" + secrets[0][:24], "key-" + secrets[5][:24]
    home.know(
        hook=f"{secret_peer}/{path}",
        account=json.dumps({"client_id": "public", "private": {"key": key}}),
    )
    home.noetl("keychain", "set", "kept", stdin=secrets[7])

    points = [str(HERE / "kill_points.py"), "canary.yaml", "before the tool", MANY]
    died, _ = home.run(*points, knows=True)
    assert died == -9, home.printed
    _, listing = home.noetl("list", "--json")
    [execution] = json.loads(listing)["executions"]
    killed = list(home.everything())

    # The providers are not asked again: the environment is empty now.
    code, out = home.noetl("resume", execution["execution_id"], "--json")
    document = json.loads(out)
    assert (code, document["status"]) == (0, "completed"), document["error"]
    for verb in (["show"], ["replay"], ["events"], ["list"]):
        target = [execution["execution_id"]] if verb != ["list"] else []
        home.noetl(*verb, *target)
        home.noetl(*verb, *target, "--json")
    leave_in_other_forms(home, execution["execution_id"])
    run_again(home, execution["execution_id"])

    check_that_the_secrets_were_used(home, execution["execution_id"], secrets)
    assert not list((home.path / "sealed").iterdir())
    everything = [*killed, *home.everything()]
    logs = [text for name, text in everything if name.startswith("events of ")]
    assert len(logs) == 2, "the log at the kill, and at the end"
    assert all(b"this-is-no-secret" in text and b"<***>" in text for text in logs)
    found = [
        (number, form, name)
        for number, secret in enumerate([*secrets, postgres, path, key])
        for form in forms(secret)
        for name, text in everything
        if form in text
    ]
    assert not found


def leave_in_other_forms(home: Home, execution_id: str) -> None:
    """Pages, files and answers that are made of the log."""
    for command in (
        ["show", execution_id, "--html", "-"],
        ["events", "all", "--export", "jsonl", "-"],
        ["events", "all", "--export", "parquet", str(home.path / "all.parquet")],
        ["sql", "from events", "--json"],
        ["sql", "from results", "--csv"],
        ["sql", "from executions"],
        ["result", "ls", execution_id],
        ["result", "get", execution_id],
        ["result", "get", execution_id, "--step", "each"],
    ):
        code, _ = home.noetl(*command)
        assert code == 0, home.printed[-1]


def run_again(home: Home, execution_id: str) -> None:
    """Executions that begin with the events of this one, and their pages."""
    again = ["-m", "noetl", "retry", execution_id, "--from", "after", "--json"]
    code, out = home.run(*again, knows=True)
    assert code == 0, out
    refused, _ = home.run(*again)
    assert refused == 2
    for command in (["show", "last", "--html", "-"], ["events", "last", "--json"]):
        assert home.noetl(*command)[0] == 0, home.printed[-1]


def check_that_the_secrets_were_used(
    home: Home, execution_id: str, secrets: list[str]
) -> None:
    """What was masked really was there, and the tools got it unmasked."""
    _, out = home.noetl("events", execution_id, "--json")
    events = [json.loads(line) for line in out.splitlines()]
    done = [event for event in events if event["name"] == "task.done"]
    digests = {
        event["payload"]["outcome"]["result"]["digest"]
        for event in done
        if event["task_label"] == "code" and event["status"] == "success"
    }
    assert digests == {sha256(secret.encode()).hexdigest() for secret in secrets}
    for label in ("code", "shell", "script", "sql", "raised", "echo", "refused"):
        outcomes = [e["payload"]["outcome"] for e in done if e["task_label"] == label]
        assert len(outcomes) >= COUNT
        assert all("***" in json.dumps(each) for each in outcomes), label
    [handle] = [e["payload"]["set_ctx"] for e in done if e["task_label"] == "fetch"]
    assert handle["handle"].keys() == {"secret"}
    assert handle["text"] == "<***>"
    [last] = [e["payload"]["outcome"] for e in done if e["task_label"] == "last"]
    assert last["result"] == ["***", "***", "this-is-no-secret"]
