"""The keychain as the user of ``noetl run`` meets it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from noetl.extras import install_command

HERE = Path(__file__).parent
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
TOKEN = "tok-3f9a7c21"
USING = HEAD + (
    "keychain: [{name: api, kind: env, variable: API_TOKEN}]\n"
    "workflow:\n"
    "  - step: start\n"
    "    tool:\n"
    "      - first: {kind: shell, command: 'true'}\n"
    "      - second:\n"
    "          kind: python\n"
    '          args: {t: "{{ keychain.api }}"}\n'
    f"          code: result = [t == '{TOKEN}', t]\n"
)


class Folder:
    """A folder with playbooks and a home, and ``noetl`` in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.home = path / "home"

    def write(self, text: str, name: str = "t.yaml") -> str:
        (self.path / name).write_text(text)
        return name

    def run(
        self, *command: str, stdin: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            env={**os.environ, "NOETL_HOME": str(self.home), **environ},
            cwd=self.path,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    def noetl(self, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "noetl", *args, **more)

    def document(self, *args: str, code: int = 0, **more: str) -> dict[str, Any]:
        done = self.noetl(*args, "--json", **more)
        assert done.returncode == code, done.stdout + done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def killed(self, text: str, point: str, number: int, **environ: str) -> str:
        """Run until this point, where it dies; the execution."""
        script = str(HERE / "kill_points.py")
        died = self.run(script, self.write(text), point, str(number), **environ)
        assert died.returncode == -9, died.stderr
        execution: str = self.document("list")["executions"][0]["execution_id"]
        return execution

    def events(self, execution_id: str) -> list[dict[str, Any]]:
        lines = self.noetl("events", execution_id, "--json").stdout.splitlines()
        return [json.loads(line) for line in lines]

    def sealed(self) -> list[str]:
        folder = self.home / "sealed"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.spec("KEY-01", "KEY-03", "S-41", "S-67", "SRV-06")
def test_entries_that_cannot_be_resolved_stop_it_before_it_starts(
    folder: Folder,
) -> None:
    text = HEAD + (
        "keychain:\n"
        "  - {name: api, kind: env, variable: API_TOKEN}\n"
        "  - {name: good, kind: env, variable: GOOD}\n"
        "  - {name: key, kind: file, path: none.pem}\n"
        "  - {name: kept, kind: secret_manager}\n"
        "workflow:\n  - step: start\n    tool: {kind: shell, command: touch ran}\n"
    )

    document = folder.document("run", folder.write(text), code=2, GOOD=TOKEN)

    error = document["error"]
    assert (document["status"], document["steps"]) == ("failed", [])
    assert (error["kind"], error["step"]) == ("keychain.unresolved", None)
    assert [(each["name"], each["kind"]) for each in error["entries"]] == [
        ("api", "env"),
        ("key", "file"),
        ("kept", "secret_manager"),
    ]
    for words in (
        "entry 'api' (env): the environment variable API_TOKEN is not set; export it",
        "none.pem cannot be read",
        "store it with: noetl keychain set kept",
    ):
        assert words in error["message"]
    events = folder.events(document["execution_id"])
    assert [(event["name"], event["status"]) for event in events] == [
        ("playbook.execution.requested", "in_progress"),
        ("playbook.request.evaluated", "error"),
        ("playbook.processed", "error"),
    ]
    assert not (folder.path / "ran").exists()
    assert folder.sealed() == []
    shown = folder.document("resume", document["execution_id"], code=2)
    assert shown["error"] == error
    people = folder.noetl("run", "t.yaml")
    assert people.returncode == 2
    assert "API_TOKEN" in people.stdout + people.stderr


@pytest.mark.spec("KEY-02", "S-67")
@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{name: x, kind: acme}", "kind 'acme' is not built in"),
        ("{name: x, kind: env, variable: BLANK}", "the secret is empty"),
        ("{name: x, kind: aws, path: y}", install_command("aws")),
        (
            "{name: x, kind: http_credential, token: '{{ keychain.later }}'}",
            "keychain has no key 'later'",
        ),
        ("{name: x, kind: vault, path: y}", "VAULT_ADDR"),
    ],
)
def test_the_reason_is_said(folder: Folder, entry: str, words: str) -> None:
    text = HEAD + (
        f"keychain:\n  - {entry}\n  - {{name: later, kind: env, variable: GOOD}}\n"
        "workflow:\n  - step: start\n    tool: {kind: noop}\n"
    )
    environ = {"BLANK": "  ", "GOOD": TOKEN, "VAULT_ADDR": ""}

    document = folder.document("run", folder.write(text), code=2, **environ)

    assert words in document["error"]["message"]
    assert TOKEN not in json.dumps(document)


@pytest.mark.spec("KEY-02", "S-41", "S-67")
@pytest.mark.parametrize(
    "entry",
    [
        "{kind: file, path: '{{ keychain.first }}'}",
        "{kind: env, variable: 'X_{{ keychain.first }}'}",
        "{kind: secret_manager, path: '{{ keychain.first }}'}",
        "{kind: secret_manager, provider: '{{ keychain.first }}', path: x}",
        "{kind: oauth2, token_url: '{{ keychain.first }}', client_id: x, "
        "client_secret: x}",
        "{kind: oauth2, token_url: 'http://127.0.0.1:1/{{ keychain.first }}', "
        "client_id: x, client_secret: x}",
    ],
)
def test_an_entry_made_of_another_one_tells_nothing_of_it(
    folder: Folder, entry: str
) -> None:
    text = HEAD + (
        "keychain:\n  - {name: first, kind: env, variable: GOOD}\n"
        f"  - {entry.replace('{kind', '{name: second, kind', 1)}\n"
        "workflow:\n  - step: start\n    tool: {kind: noop}\n"
    )

    document = folder.document("run", folder.write(text), code=2, GOOD=TOKEN)

    assert "entry 'second'" in document["error"]["message"]
    assert TOKEN not in json.dumps([document, folder.events(document["execution_id"])])


@pytest.mark.spec("KEY-09")
def test_a_playbook_needs_no_keychain_and_makes_no_key(folder: Folder) -> None:
    text = HEAD + "workflow:\n  - step: start\n    tool: {kind: noop, result: 1}\n"

    assert folder.document("run", folder.write(text))["result"] == 1
    assert not (folder.home / "key").exists()
    assert folder.sealed() == []


@pytest.mark.spec("KEY-01", "KEY-02", "KEY-04", "S-67")
def test_every_local_kind_is_resolved_and_masked(folder: Folder) -> None:
    folder.noetl("keychain", "set", "plain", stdin="stored-secret")
    fields = ["--field", "user=me", "--field", "password"]
    folder.noetl(
        *("keychain", "set", "pg_k8s", "--kind", "postgres_credential"),
        *fields,
        stdin="pg-password",
    )
    (folder.path / "key.pem").write_text("-----BEGIN-----\nfile secret\n")
    text = HEAD + (
        "keychain:\n"
        "  - {name: plain, kind: secret_manager}\n"
        "  - {name: pg_k8s, kind: postgres_credential}\n"
        "  - {name: pem, kind: file, path: key.pem}\n"
        "  - {name: env, kind: env, variable: MAPPING, field: b}\n"
        "  - {name: web, kind: http_credential, token: '{{ keychain.plain }}'}\n"
        "workflow:\n"
        "  - step: start\n"
        "    tool:\n"
        "      kind: python\n"
        "      args:\n"
        '        found: ["{{ keychain.plain }}", "{{ keychain.pg_k8s.password }}",\n'
        '          "{{ keychain.pem }}", "{{ keychain.env }}",\n'
        '          "{{ keychain.web.token }}"]\n'
        '        user: "{{ keychain.pg_k8s.user }}"\n'
        "      code: |\n"
        "        lengths = [len(each) for each in found]\n"
        "        result = {'found': found, 'lengths': lengths, 'user': user}\n"
    )

    document = folder.document(
        "run", folder.write(text), MAPPING='{"a": 1, "b": "from-env"}'
    )

    assert document["result"] == {
        "found": ["***"] * 5,
        "lengths": [13, 11, 27, 8, 13],
        "user": "me",
    }


@pytest.mark.spec("S-67", "KEY-05", "S-41")
@pytest.mark.parametrize("point", ["before the tool", "after the tool"])
def test_a_resume_asks_no_provider(folder: Folder, point: str) -> None:
    execution = folder.killed(USING, point, 2, API_TOKEN=TOKEN)
    assert folder.sealed() == [execution]

    document = folder.document("resume", execution, API_TOKEN="another-token-now")

    assert document["result"] == [True, "***"]
    assert folder.sealed() == []


@pytest.mark.spec("S-67")
def test_without_its_sealed_secrets_it_does_not_go_on(folder: Folder) -> None:
    execution = folder.killed(USING, "before the tool", 2, API_TOKEN=TOKEN)
    shutil.copy(folder.home / "key", folder.path / "kept")
    (folder.home / "key").write_bytes(os.urandom(32))

    done = folder.noetl("resume", execution, "--json", API_TOKEN=TOKEN)

    assert done.returncode == 2
    assert f"the sealed secrets of {execution} cannot be opened" in done.stderr
    assert "Traceback" not in done.stderr
    shutil.copy(folder.path / "kept", folder.home / "key")
    assert folder.document("resume", execution)["result"] == [True, "***"]


@pytest.mark.spec("S-41")
def test_secrets_that_a_death_in_the_last_moment_left_are_swept(
    folder: Folder,
) -> None:
    number = 1
    while True:  # the last commit is the one after which nothing is to be done
        execution = folder.killed(USING, "after the commit", number, API_TOKEN=TOKEN)
        if folder.events(execution)[-1]["name"] == "playbook.processed":
            break
        number += 1
        shutil.rmtree(folder.home)
    assert folder.sealed() == [execution]

    folder.document("run", "t.yaml", API_TOKEN=TOKEN)

    assert folder.sealed() == []


FETCHING = HEAD + (
    "workflow:\n"
    "  - step: start\n"
    "    tool:\n"
    "      - get:\n"
    "          kind: secrets\n"
    "          INPUTS\n"
    "          spec:\n"
    "            policy:\n"
    "              rules:\n"
    "                - when: \"{{ outcome.status == 'error' }}\"\n"
    "                  then: {do: fail}\n"
    "                - else:\n"
    '                    then: {do: continue, set_ctx: {t: "{{ outcome.result }}"}}\n'
    "    next: {arcs: [{step: end}]}\n"
    "  - step: end\n"
    "    tool:\n"
    "      - nap: {kind: shell, command: 'true'}\n"
    "      - use:\n"
    "          kind: python\n"
    '          args: {t: "{{ ctx.t }}"}\n'
    f"          code: result = [t == '{TOKEN}', t]\n"
)


@pytest.mark.spec("PIPE-16", "S-41")
@pytest.mark.parametrize(
    "inputs",
    [
        "{name: api}",
        "{path: api}",
        "{provider: stored, path: api}",
        "{provider: env, path: API_TOKEN}",
        "{provider: file, path: token.txt}",
    ],
)
def test_a_secrets_task_gives_a_handle_that_survives_a_crash(
    folder: Folder, inputs: str
) -> None:
    folder.noetl("keychain", "set", "api", stdin=TOKEN)
    (folder.path / "token.txt").write_text(TOKEN)
    text = FETCHING.replace("INPUTS", inputs.strip("{}").replace(", ", "\n          "))
    execution = folder.killed(text, "before the tool", 3, API_TOKEN=TOKEN)
    folder.noetl("keychain", "delete", "api")
    (folder.path / "token.txt").unlink()

    document = folder.document("resume", execution)

    assert document["result"] == [True, "***"]
    assert document["ctx"]["t"].keys() == {"secret"}
    assert TOKEN not in json.dumps(folder.events(execution))
    assert folder.sealed() == []


@pytest.mark.spec("PIPE-16", "S-65")
@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        ("name: nobody", "secret.missing"),
        ("name: ''", "secret.missing"),
        ("{provider: acme, path: x}", "secret.wrong"),
        ("{provider: env, path: NOT_SET}", "secret.missing"),
        ("{provider: env, path: BLANK}", "secret.missing"),
        ('name: "{{ 5 }}"', "tool.contract"),
    ],
)
def test_a_missing_secret_is_an_outcome(folder: Folder, inputs: str, kind: str) -> None:
    inputs = inputs.strip("{}") if inputs.startswith("{p") else inputs
    text = FETCHING.replace("INPUTS", inputs.replace(", ", "\n          "))

    document = folder.document("run", folder.write(text), code=1, BLANK="  ")

    assert document["error"]["kind"] == kind
    assert document["error"]["task"] == "get"


@pytest.mark.spec("S-41", "S-37")
def test_handles_go_to_a_child_and_come_back(folder: Folder) -> None:
    folder.noetl("keychain", "set", "api", stdin=TOKEN)
    child = HEAD.replace("tests/t", "tests/child") + (
        "workflow:\n"
        "  - step: start\n"
        "    tool:\n"
        '      - use: {kind: python, args: {t: "{{ workload.t }}"},'
        f" code: \"assert t == '{TOKEN}', t\"}}\n"
        "      - get: {kind: secrets, name: api}\n"
    )
    parent = HEAD + (
        "workflow:\n"
        "  - step: start\n"
        "    tool:\n"
        "      - get: {kind: secrets, name: api}\n"
        "      - call: {kind: playbook, path: tests/child,"
        ' args: {t: "{{ _prev }}"}}\n'
        "      - use:\n"
        "          kind: python\n"
        '          args: {t: "{{ _prev }}"}\n'
        f"          code: result = [t == '{TOKEN}', t]\n"
    )
    folder.write(child, "child.yaml")

    document = folder.document("run", folder.write(parent))

    assert document["result"] == [True, "***"]
    listed = folder.document("list")["executions"]
    assert len(listed) == 2
    for each in listed:
        assert TOKEN not in json.dumps(folder.events(each["execution_id"]))
    assert folder.sealed() == []


@pytest.mark.spec("KEY-03", "S-37", "S-65")
def test_a_childs_keychain_is_its_callers_error(folder: Folder) -> None:
    folder.write(USING.replace("tests/t", "tests/child"), "child.yaml")
    parent = HEAD + (
        "workflow:\n"
        "  - step: start\n"
        "    tool: {call: {kind: playbook, path: tests/child}}\n"
    )

    document = folder.document("run", folder.write(parent), code=1)

    assert document["error"]["kind"] == "keychain.unresolved"
    assert "API_TOKEN is not set" in document["error"]["message"]
    assert [step["step"] for step in document["steps"]] == ["start"]


@pytest.mark.spec("KEY-06", "KEY-05", "S-67")
def test_a_task_refreshes_what_the_keychain_keeps(folder: Folder) -> None:
    """A name of the keychain is looked up anew, and the keychain stays as it was."""
    text = HEAD + (
        "keychain: [{name: api, kind: file, path: token.txt}]\n"
        "workflow:\n"
        "  - step: start\n"
        "    tool:\n"
        "      - rotate: {kind: shell, command: printf new-token-2 > token.txt}\n"
        "      - get: {kind: secrets, name: api}\n"
        "      - use:\n"
        "          kind: python\n"
        '          args: {old: "{{ keychain.api }}", new: "{{ _prev }}"}\n'
        "          code: |\n"
        "            result = [old == 'old-token-1', new == 'new-token-2', old, new]\n"
    )
    (folder.path / "token.txt").write_text("old-token-1")

    document = folder.document("run", folder.write(text))

    assert document["result"] == [True, True, "***", "***"]


@pytest.mark.spec("S-41", "WRK-01")
def test_an_input_that_holds_a_secret_is_recorded_without_it(folder: Folder) -> None:
    document = folder.document(
        *("run", folder.write(USING), "--set", f"note=it is {TOKEN}", "--set", "n=ok"),
        API_TOKEN=TOKEN,
    )

    assert document["workload"] == {"note": "it is ***", "n": "ok"}
    assert TOKEN not in json.dumps(folder.events(document["execution_id"]))


def count_tokens(peer: str) -> int:
    """Take one, and read its number."""
    form = {"grant_type": "client_credentials", "client_id": "me & you"}
    form["client_secret"] = "s3cret:with/odd+signs"
    with urlopen(f"{peer}/token", urlencode(form).encode()) as response:
        return int(json.load(response)["access_token"].rpartition("-")[2])


@pytest.mark.spec("S-67", "S-41", "KEY-07")
def test_a_task_may_ask_for_a_token_by_itself(folder: Folder, secret_peer: str) -> None:
    """It is kept for the next call, renewed for a retry, and masked like a keychain."""
    text = HEAD + (
        "keychain: [{name: client, kind: env, variable: CLIENT_SECRET}]\n"
        "workflow:\n"
        "  - step: start\n"
        "    tool:\n"
        "      - one: &call\n"
        "          kind: http\n"
        f"          url: {secret_peer}/echo/200\n"
        "          auth:\n"
        "            type: oauth2\n"
        f"            token_url: {secret_peer}/token?expires=3600\n"
        "            client_id: me & you\n"
        '            client_secret: "{{ keychain.client }}"\n'
        "      - two: *call\n"
        "      - three:\n"
        "          <<: *call\n"
        f"          url: {secret_peer}/echo/500\n"
        "          spec:\n"
        "            policy:\n"
        "              rules:\n"
        '                - when: "{{ _attempt == 1 }}"\n'
        "                  then: {do: retry, attempts: 2}\n"
        "                - else: {then: {do: continue}}\n"
        "      - denied:\n"
        "          kind: http\n"
        f"          url: {secret_peer}/echo/200\n"
        "          auth: {type: oauth2, token_url: TOKEN, client_id: x,"
        " client_secret: y}\n"
    ).replace("TOKEN,", f"'{secret_peer}/token',")

    before = count_tokens(secret_peer)
    document = folder.document(
        "run", folder.write(text), code=1, CLIENT_SECRET="s3cret:with/odd+signs"
    )

    assert count_tokens(secret_peer) - before - 1 == 2
    done = [
        event["payload"]["outcome"]
        for event in folder.events(document["execution_id"])
        if event["name"] == "task.done"
    ]
    shown = [json.dumps(outcome) for outcome in done]
    assert [outcome["status"] for outcome in done] == ["ok", "ok", *["error"] * 3]
    assert all("Bearer ***" in text for text in shown[:4])
    assert "token-number" not in "".join(shown)
    assert document["error"]["kind"] == "secret.denied"


@pytest.mark.spec("S-69", "PIPE-16")
def test_in_an_unlabelled_task_name_is_the_secrets(folder: Folder) -> None:
    folder.noetl("keychain", "set", "api", stdin=TOKEN)
    text = HEAD + (
        "workflow:\n  - step: start\n    tool: [{kind: secrets, name: api}]\n"
    )

    document = folder.document("run", folder.write(text))

    assert document["result"].keys() == {"secret"}
