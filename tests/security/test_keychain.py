"""Secrets of the host and of other teams: a playbook gets those that are declared and
bound to its path, and learns nothing of the others."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from servers import HEAD, Api, Running, playbook

VARIABLE = "NOETL_TEST_CANARY"
CANARY = "canary-of-the-environment-4c1d"
FINANCE, HR, SHARED = "secret-of-finance-77a1", "secret-of-hr-93b2", "for-all-teams-5c"
SHOWN = "{{ keychain.t | string | reverse | join('') }}"
"""Spells a secret backwards, which no mask can recognize."""


def text_of(path: str, keychain: str = "[]", tool: str | None = None) -> str:
    tool = tool or f'{{kind: noop, result: "{SHOWN}"}}'
    name = path.replace("/", "-")
    return (
        f"{HEAD}metadata: {{name: {name}, path: {path}}}\nkeychain: {keychain}\n"
        f"workflow:\n  - step: start\n    tool: {tool}\n"
    )


FETCH = """
      - get: {kind: secrets, INPUTS}
      - show: {kind: noop, result: "{{ _prev | string | reverse | join('') }}"}"""


class Outcome(NamedTuple):
    """How an attempt ended: what the attacker sees of it, in one text."""

    kind: str | None
    message: str
    seen: str


class Attacker:
    """A caller who collects everything that the server answers."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.seen: list[str] = []

    def start(self, **asked: Any) -> Outcome:
        answer = self.api.call("POST", "/api/executions?wait=30", asked)
        body = answer.body
        seen = [json.dumps(body)]
        if execution_id := body.get("execution_id"):
            for part in ("", "/events"):
                shown = self.api.get(f"/api/executions/{execution_id}{part}")
                seen.append(json.dumps(shown.body))
        self.seen += seen
        error = body.get("error") if answer.status == 201 else body
        kind, message = (error["kind"], error["message"]) if error else (None, "")
        return Outcome(kind, message, "\n".join(seen))

    def run(self, how: str, path: str, text: str) -> Outcome:
        """Run a playbook ``inline``, ``registered``, or as a ``child`` of another."""
        if how == "inline":
            return self.start(playbook=text)
        made = self.api.post("/api/catalog", {"playbook": text})
        assert made.status in (200, 201), made.body
        if how == "registered":
            return self.start(path=path)
        call = f"{{kind: playbook, path: {path}}}"
        return self.start(playbook=text_of("finance/caller", tool=call))


HOWS = ("inline", "registered", "child")


@pytest.fixture(scope="module")
def canary(running: Running) -> Iterator[list[str]]:
    """What no attacker may see: of the home, the environment, and other teams."""
    patch = pytest.MonkeyPatch()
    patch.setenv(VARIABLE, CANARY)
    patch.setenv("VAULT_TOKEN", CANARY)
    key = running.home.key
    found = [running.token, CANARY, HR]
    if key.is_file():
        found.append(key.read_bytes().hex())
    yield found
    patch.undo()


@pytest.fixture(scope="module")
def kept(running: Running, canary: list[str]) -> Iterator[Api]:
    """A keychain of two teams: stored values, and declared variables of the host."""
    admin = Api(running.url, running.token)
    patch = pytest.MonkeyPatch()
    for name, value, place in (
        ("fin", FINANCE, "finance/*"),
        ("hr", HR, "hr/*"),
        ("all", SHARED, "*"),
    ):
        patch.setenv(f"NOETL_TEST_{name.upper()}", value)
        body: dict[str, Any] = {"value": value, "for": [place]}
        # 200 if tests of other modules ran between those of this one.
        made = admin.post(f"/api/keychain/{name}_stored", body)
        assert made.status in (200, 201), made.body
        fields = {"variable": f"NOETL_TEST_{name.upper()}"}
        body = {"kind": "env", "fields": fields, "for": [place]}
        made = admin.post(f"/api/keychain/{name}_declared/declaration", body)
        assert made.status in (200, 201), made.body
    yield admin
    patch.undo()


@pytest.fixture(scope="module")
def author(running: Running, kept: Api, canary: list[str]) -> Iterator[Attacker]:
    attacker = Attacker(running.person("fin-author", "author:finance/*"))
    yield attacker
    seen = "\n".join(attacker.seen)
    for secret in canary:
        assert secret not in seen
        assert secret[::-1] not in seen


class Listener:
    """Counts who connects to a port of loopback."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.came = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.came += 1
            connection.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


# -- what reads the host -----------------------------------------------------------

ENTRIES = {
    "env": f"kind: env, variable: {VARIABLE}",
    "file": "kind: file, path: HOME/token",
    "the key": "kind: file, path: HOME/key",
    "vault": "kind: vault, path: kv/app, address: LISTENER",
    "vault with a namespace": "kind: vault, path: kv/app, namespace: mine",
    "aws": "kind: aws, path: app",
    "gcp": "kind: gcp, path: projects/p/secrets/s",
    "azure": "kind: azure, path: app, vault_url: LISTENER",
    "a provider": "kind: secret_manager, provider: file, path: HOME/token",
    "a variable": f"kind: secret_manager, provider: env, path: {VARIABLE}",
    "a credential": "kind: http_credential, provider: file, path: HOME/token",
    "a database": f"kind: postgres_credential, provider: env, path: {VARIABLE}",
    "oauth2": "kind: oauth2, provider: file, path: HOME/token, token_url: LISTENER",
    "a template": "kind: file, path: '{{ keychain.first.where }}'",
    "a provider by template": "kind: secret_manager, provider: '{{ keychain.first.by "
    "}}', path: HOME/token",
    "another team's": "kind: env, variable: hr_declared",
    "another team's name": "kind: secret_manager, path: hr_declared, provider: env",
}
FIRST = "{name: first, kind: http_credential, where: HOME/token, by: file}"


@pytest.mark.spec("S-81", "S-67")
@pytest.mark.parametrize(
    ("how", "entry"),
    [
        *(("inline", entry) for entry in ENTRIES.values()),
        *((how, ENTRIES[name]) for how in HOWS[1:] for name in ("env", "a provider")),
    ],
)
def test_what_reads_the_host_needs_a_declaration(
    running: Running, author: Attacker, listener: Listener, entry: str, how: str
) -> None:
    keychain = f"[{FIRST}, {{name: t, {entry}}}]"
    keychain = keychain.replace("HOME", str(running.home.folder))
    keychain = keychain.replace("LISTENER", listener.url)

    ended = author.run(how, "finance/takes", text_of("finance/takes", keychain))

    assert ended.kind == "keychain.unresolved"
    assert "works only through an entry that an admin has declared" in ended.message
    assert "an admin can run: noetl keychain declare" in ended.message
    assert listener.came == 0


@pytest.mark.spec("S-81", "PIPE-16")
@pytest.mark.parametrize(
    "inputs",
    [
        "provider: file, path: HOME/token",
        f"provider: env, path: {VARIABLE}",
        f"name: {VARIABLE}, provider: env",
        *(f"provider: {kind}, path: app" for kind in ("vault", "aws", "gcp", "azure")),
        "provider: env, path: hr_declared",
        "provider: \"{{ 'fi' ~ 'le' }}\", path: HOME/token",
    ],
)
def test_a_secrets_task_reads_the_host_only_through_a_declaration(
    running: Running, author: Attacker, inputs: str
) -> None:
    tool = FETCH.replace("INPUTS", inputs.replace("HOME", str(running.home.folder)))

    ended = author.run("inline", "finance/x", text_of("finance/x", tool=tool))

    assert ended.kind == "keychain.unresolved"
    assert "an admin has declared" in ended.message


@pytest.mark.spec("S-81", "PIPE-16")
def test_a_secrets_task_follows_a_declaration(author: Attacker) -> None:
    tool = FETCH.replace("INPUTS", "provider: env, path: fin_declared")

    ended = author.run("inline", "finance/x", text_of("finance/x", tool=tool))

    assert ended.kind is None
    assert FINANCE[::-1] in ended.seen


@pytest.mark.spec("S-81")
def test_a_server_on_a_database_has_the_same_rule(
    tmp_path: Path, postgres: str, canary: list[str]
) -> None:
    server = Running(tmp_path / "home", database=postgres)
    try:
        attacker = Attacker(server.person("author", "author:finance/*"))
        text = text_of("finance/x", f"[{{name: t, kind: env, variable: {VARIABLE}}}]")
        refused = attacker.start(playbook=text)
        body = {"kind": "env", "fields": {"variable": VARIABLE}, "for": ["finance/*"]}
        admin = Api(server.url, server.token)
        assert admin.post("/api/keychain/t/declaration", body).status == 201
        granted = attacker.start(playbook=text)
    finally:
        server.stop()

    assert refused.kind == "keychain.unresolved"
    assert granted.kind is None
    assert CANARY[::-1] in granted.seen


# -- which team a secret is for ----------------------------------------------------

USES = {
    "stored": ("_stored", "kind: secret_manager, path: NAME"),
    "stored, as a credential": (
        "_stored",
        "kind: secret_manager, provider: stored, path: NAME",
    ),
    "declared": ("_declared", "kind: secret_manager, path: NAME"),
    "declared, by its kind": ("_declared", "kind: env, variable: NAME"),
}
VALUES = {"fin": FINANCE, "hr": HR, "all": SHARED}


@pytest.mark.spec("S-81")
@pytest.mark.parametrize("team", ["finance", "hr"])
@pytest.mark.parametrize(
    ("how", "use"),
    [
        *(("inline", use) for use in USES.values()),
        *((how, USES[name]) for how in HOWS[1:] for name in ("stored", "declared")),
    ],
)
@pytest.mark.parametrize("whose", VALUES)
def test_a_secret_reaches_only_playbooks_below_its_path(
    kept: Api, whose: str, use: tuple[str, str], team: str, how: str
) -> None:
    """Admins may run everything: what counts is the path of the playbook itself."""
    suffix, entry = use
    path = f"{team}/uses"
    keychain = f"[{{name: t, {entry.replace('NAME', whose + suffix)}}}]"

    ended = Attacker(kept).run(how, path, text_of(path, keychain))

    if whose == "all" or team.startswith(whose):
        assert ended.kind is None, ended.message
        assert VALUES[whose][::-1] in ended.seen
    else:
        assert ended.kind == "keychain.unresolved"
        assert VALUES[whose][::-1] not in ended.seen


def _without(name: str, message: str) -> str:
    """The message for any name; secrets of their own team may be proposed."""
    return re.sub(r"; did you mean '(fin|all)\w+'\?", "", message.replace(name, "NAME"))


@pytest.mark.spec("S-81")
@pytest.mark.parametrize(
    "keychain",
    [
        "[{name: t, kind: secret_manager, path: NAME}]",
        "[{name: NAME, kind: secret_manager}]",
        "[{name: NAME, kind: http_credential}]",
        "[{name: NAME, kind: postgres_credential}]",
        "[{name: NAME, kind: oauth2}]",
        "[{name: t, kind: oauth2, path: NAME, client_id: me}]",
        "[{name: t, kind: env, variable: NAME}]",
        "[{name: t, kind: file, path: NAME}]",
        "[{name: NAME, kind: vault}]",
    ],
)
def test_a_secret_of_another_team_answers_as_one_that_is_missing(
    author: Attacker, keychain: str
) -> None:
    """Also a name that is nearly that of another team's secret is not completed."""
    answers = []
    for name in ("hr_stored", "hr_declared", "hr_nothing", "hr_store"):
        text = text_of("finance/x", keychain.replace("NAME", name))
        ended = author.run("inline", "finance/x", text)
        answers.append((ended.kind, _without(name, ended.message)))

    assert len(set(answers)) == 1
    assert answers[0][0] == "keychain.unresolved"


@pytest.mark.spec("S-81", "PIPE-16")
@pytest.mark.parametrize(
    "inputs", ["name: {}", "path: {}", "provider: stored, path: {}"]
)
def test_a_secrets_task_is_bound_as_the_keychain_is(
    author: Attacker, inputs: str
) -> None:
    answers = []
    for name in (
        "fin_stored",
        "all_declared",
        "hr_stored",
        "hr_declared",
        "hr_nothing",
    ):
        tool = FETCH.replace("INPUTS", inputs.format(name))
        ended = author.run("inline", "finance/x", text_of("finance/x", tool=tool))
        answers.append((ended.kind, _without(name, ended.message), ended.seen))

    assert [kind for kind, _, _ in answers[:2]] == [None, None]
    assert FINANCE[::-1] in answers[0][2]
    assert SHARED[::-1] in answers[1][2]
    assert len({answer[:2] for answer in answers[2:]}) == 1
    assert answers[2][0] == "secret.missing"


@pytest.mark.spec("S-81")
def test_an_author_cannot_claim_the_path_of_another_team(author: Attacker) -> None:
    text = text_of("hr/mine", "[{name: t, kind: secret_manager, path: hr_stored}]")

    ended = author.start(playbook=text)
    registered = author.api.post("/api/catalog", {"playbook": text})

    assert (ended.kind, registered.status) == ("auth.role", 403)


@pytest.mark.spec("S-81")
def test_a_retry_and_a_fork_are_bound_anew(running: Running, kept: Api) -> None:
    """A secret that was taken away from a team is not used by its old executions."""
    body = {"value": FINANCE, "for": ["finance/*"]}
    assert kept.post("/api/keychain/lent", body).status == 201
    keychain = "[{name: t, kind: secret_manager, path: lent}]"
    text = text_of("finance/x", keychain, "{kind: noop, result: '{{ 1 / 0 }}'}")
    operator = running.person("fin-operator", "operator:finance/*")
    execution_id = kept.run(text)["execution_id"]
    retry, at = f"/api/executions/{execution_id}/retry", {"at": 3}
    assert operator.post(retry, {}).status == 201

    kept.post("/api/keychain/lent", {"value": FINANCE, "for": ["hr/*"]})

    for answer in (
        operator.post(retry, {}),
        operator.post(f"/api/executions/{execution_id}/fork", at),
    ):
        assert (answer.status, answer.body["kind"]) == (422, "keychain.unresolved")


# -- where a credential is sent ----------------------------------------------------


@pytest.mark.spec("S-81", "S-67")
@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ("kind: oauth2, path: fin_client, token_url: LISTENER", "'token_url'"),
        ("kind: oauth2, path: fin_client, audience: mine", "'audience'"),
        ("kind: oauth2, path: fin_client, token_url: LISTENER, client_id: me", "url'"),
        ("kind: oauth2, path: fin_client, token_url: '{{ keychain.u.v }}'", "'token"),
        ("kind: postgres_credential, path: fin_pg, host: 127.0.0.1", "'host'"),
        ("kind: postgres_credential, path: fin_pg, port: 1, host: db", "'port'"),
        ("kind: postgres_credential, path: fin_pg, dsn: 'postgresql://x'", "'dsn'"),
        ("kind: secret_manager, path: fin_vault, address: LISTENER", "'address'"),
        ("kind: vault, path: fin_vault, address: LISTENER", "'address'"),
        ("kind: vault, path: fin_vault, namespace: mine", "'namespace'"),
        ("kind: http_credential, path: fin_vault, address: LISTENER", "'address'"),
        ("kind: oauth2, path: fin_vault, address: LISTENER", None),
    ],
)
def test_a_playbook_cannot_send_a_stored_credential_elsewhere(
    kept: Api, author: Attacker, listener: Listener, entry: str, named: str | None
) -> None:
    fields = {"client_id": "me", "client_secret": FINANCE}
    url = {"token_url": "https://id.example.invalid/token"}
    place = {"for": ["finance/*"]}
    kept.post("/api/keychain/fin_client", {"value": {**fields, **url}, **place})
    database = {"host": "db", "user": "me", "password": FINANCE}
    kept.post("/api/keychain/fin_pg", {"value": database, **place})
    declared = {"address": "https://vault.example.invalid", "path": "secret/data/fin"}
    body = {"kind": "vault", "fields": declared, **place}
    kept.post("/api/keychain/fin_vault/declaration", body)
    first = f"{{name: u, kind: http_credential, v: '{listener.url}'}}"
    keychain = f"[{first}, {{name: t, {entry}}}]".replace("LISTENER", listener.url)

    ended = author.run("inline", "finance/x", text_of("finance/x", keychain))

    assert ended.kind == "keychain.unresolved"
    if named is not None:
        assert "the playbook cannot change" in ended.message
        assert named in ended.message
    assert FINANCE not in ended.seen
    assert listener.came == 0


@pytest.mark.spec("S-81")
@pytest.mark.parametrize(
    ("auth", "words"),
    [
        ("path: fin_client, token_url: 'LISTENER'", "leave out 'token_url'"),
        ("path: hr_stored, token_url: 'LISTENER'", "the stored keychain has no"),
        ("provider: file, path: 'HOME/token', token_url: 'LISTENER'", "declared"),
    ],
)
def test_the_auth_of_a_task_cannot_send_a_stored_credential_elsewhere(
    kept: Api,
    running: Running,
    author: Attacker,
    listener: Listener,
    auth: str,
    words: str,
) -> None:
    value = {"client_id": "me", "client_secret": FINANCE, "token_url": "https://x"}
    body = {"value": value, "for": ["finance/*"]}
    kept.post("/api/keychain/fin_client", body)
    auth = auth.replace("LISTENER", listener.url)
    auth = auth.replace("HOME", str(running.home.folder))
    tool = f"{{kind: http, url: {listener.url}, auth: {{type: oauth2, {auth}}}}}"

    ended = author.run("inline", "finance/x", text_of("finance/x", tool=tool))

    assert ended.kind in ("secret.denied", "secret.missing", "keychain.unresolved")
    assert words in ended.message
    assert listener.came == 0


# -- who keeps them ----------------------------------------------------------------


@pytest.mark.spec("S-81")
@pytest.mark.parametrize(
    ("roles", "listed"),
    [
        (["secrets"], {"fin", "hr", "all"}),
        (["secrets:finance/*"], {"fin"}),
        (["secrets:hr/*"], {"hr"}),
        (["secrets:finance/*", "secrets:hr/*"], {"fin", "hr"}),
        (["secrets:finance/q1/*"], set()),
        (["secrets:finance/x"], set()),
    ],
)
def test_a_keeper_sees_and_changes_the_secrets_of_their_paths(
    running: Running, kept: Api, roles: list[str], listed: set[str]
) -> None:
    name = "keeper-" + "-".join(roles).translate(str.maketrans(":/*", "..."))
    keeper = running.person(name.replace("...", "."), *roles)
    names = {each["name"] for each in keeper.get("/api/keychain").body["keychain"]}

    assert {each.removesuffix("_stored") for each in names if "_stored" in each} == (
        listed
    )
    for whose, place in (("fin", "finance/*"), ("hr", "hr/*"), ("all", "*")):
        body = {"value": VALUES[whose], "for": [place]}
        stored = keeper.post(f"/api/keychain/{whose}_stored", body)
        new = keeper.post(f"/api/keychain/{name}-{whose}", body)
        gone = keeper.call("DELETE", f"/api/keychain/{name}-{whose}")
        other = keeper.call("DELETE", f"/api/keychain/{whose}_other")
        if whose in listed:
            assert (stored.status, new.status, gone.status) == (200, 201, 200)
        else:
            assert (stored.status, stored.body["kind"]) == (409, "keychain.taken")
            assert new.status == 403
            foreign = keeper.call("DELETE", f"/api/keychain/{whose}_stored")
            assert foreign.body["kind"] == other.body["kind"] == "keychain.unknown"
            texts = [each.body["message"] for each in (foreign, other)]
            assert texts[0].replace("stored", "other") == texts[1]


@pytest.mark.spec("S-81")
def test_bindings_default_to_the_places_of_the_keeper_and_stay(
    running: Running, kept: Api
) -> None:
    finance = running.person("fin-keeper", "secrets:finance/*", "secrets:audit/x")
    made = finance.post("/api/keychain/fin_new", {"value": FINANCE})
    narrow = {"value": FINANCE, "for": ["finance/q1/*"]}
    narrowed = finance.post("/api/keychain/fin_new", narrow)
    rotated = finance.post("/api/keychain/fin_new", {"value": FINANCE})
    everywhere = kept.post("/api/keychain/shared_new", {"value": FINANCE})

    assert made.body["for"] == ["finance/*", "audit/x"]
    assert narrowed.body["for"] == rotated.body["for"] == ["finance/q1/*"]
    assert everywhere.body["for"] == ["*"]


@pytest.mark.spec("S-81")
def test_only_an_admin_declares_replaces_and_deletes_declarations(
    running: Running, kept: Api
) -> None:
    body = {"kind": "file", "fields": {"path": str(running.home.token)}}
    for role in ("secrets", "secrets:finance/*", "developer", "author:finance/*"):
        name = "declares-" + role.replace(":", ".").replace("/*", "")
        other = running.person(name, role)
        answer = other.post("/api/keychain/taken_token/declaration", body)
        assert (answer.status, answer.body["kind"]) == (403, "auth.role"), role
    keeper = running.person("keeps-all", "secrets")
    assert keeper.post("/api/keychain/fin_declared", {"value": "x"}).status == 403
    assert keeper.call("DELETE", "/api/keychain/fin_declared").status == 403

    listed = kept.get("/api/keychain").body["keychain"]
    [line] = [each for each in listed if each["name"] == "fin_declared"]
    assert line["declared"] == {"variable": "NOETL_TEST_FIN"}
    assert line["for"] == ["finance/*"]


@pytest.mark.spec("S-81")
def test_the_command_line_declares_and_binds_on_a_server(
    running: Running, tmp_path: Path
) -> None:
    keeper = running.person("fin-cli", "secrets:finance/*")

    def keychain(token: str | None, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "noetl", "keychain", *args, "--server", running.url],
            env={**os.environ, "NOETL_HOME": str(tmp_path), "NOETL_TOKEN": token or ""},
            input="a value",
            capture_output=True,
            text=True,
            check=False,
        )

    made = keychain(keeper.token, "set", "fin_cli")
    entry = [
        "declare",
        "fin_cli_env",
        "--kind",
        "env",
        "--field",
        f"variable={VARIABLE}",
    ]
    refused = keychain(keeper.token, *entry)
    declared = keychain(running.token, *entry, "--for", "finance/*", "--json")
    listed = keychain(keeper.token, "list")

    assert made.stdout == "stored: fin_cli: secret_manager, for finance/*\n"
    assert refused.returncode != 0
    assert "lacks the permission secrets:declare" in refused.stderr
    assert json.loads(declared.stdout)["for"] == ["finance/*"]
    assert f"fin_cli_env: env, declared (variable={VARIABLE})" in listed.stdout
    assert "hr_stored" not in listed.stdout


def test_declarations_are_in_the_audit_by_name(kept: Api) -> None:
    body = {"kind": "vault", "fields": {"path": "p", "address": "https://v.invalid"}}
    assert kept.post("/api/keychain/audited/declaration", body).status == 201

    entry = kept.get("/api/audit").body["entries"][0]

    assert entry["action"] == "declare_secret"
    assert entry["target"] == {"name": "audited", "kind": "vault"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"kind": "vualt", "fields": {}}, "did you mean 'vault'"),
        ({"kind": "oauth2", "fields": {}}, "noetl keychain set"),
        ({"kind": "vault", "fields": {"adress": "x"}}, "did you mean 'address'"),
        ({"kind": "file", "fields": {"path": "x"}}, "must be absolute"),
        ({"kind": "file", "fields": {}}, "must be absolute"),
        ({"kind": "env", "fields": {"variable": ""}}, "printable"),
        ({"kind": "env", "fields": {}, "for": ["../x"]}, "'finance/*'"),
        ({"kind": "env", "fields": {}, "for": ["fin*"]}, "'finance/*'"),
        ({"kind": "env", "fields": {}, "for": []}, "for"),
    ],
)
def test_an_invalid_declaration_is_refused(
    kept: Api, body: dict[str, Any], words: str
) -> None:
    answer = kept.post("/api/keychain/wrong/declaration", body)

    assert answer.status == 422
    assert words in answer.body["message"]


def test_an_entry_that_fails_does_not_keep_later_ones_from_their_path(
    admin: Api,
) -> None:
    admin.post("/api/keychain/bound_to_tests", {"value": "v" * 20, "for": ["tests/*"]})
    entries = "keychain: [{name: a, kind: secret_manager, path: missing_one}, "
    entries += "{name: b, kind: secret_manager, path: bound_to_tests}]\n"
    text = playbook("later", "- {step: start, tool: {kind: noop}}", entries)

    refused = admin.post("/api/executions", {"playbook": text})

    assert refused.body["kind"] == "keychain.unresolved"
    assert [each["name"] for each in refused.body["entries"]] == ["a"]
