"""Kinds that read the host, where only declared entries lead there (S-81)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.home_keychain import HomeKeychain, StoredKeychain
from noetl.adapters.secrets.registry import Providers
from noetl.errors import SecretError
from noetl.plugins import KeychainKind, SecretPlugin
from noetl.ports import Wanted
from noetl.types import JSON

pytestmark = pytest.mark.spec("S-81")

VALUE = "value-of-the-host-51"
VAULT_TOKEN = "vault-token-71d9"
HERE = "finance/report"


class AcmeProvider:
    async def get(self, wanted: Wanted) -> JSON:
        return f"acme-{wanted.fields.get('path')}-{wanted.fields.get('server')}"


KIND = KeychainKind("Of Acme.", {"path": "Where."}, open=True)
ACME = {"acme": SecretPlugin(api=1, kind=KIND, make=AcmeProvider)}


class Host:
    """A keychain with declared entries, and providers for a server or ``noetl run``."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.stored = StoredKeychain(folder / "keychain.json", Cipher(folder / "key"))
        self._providers = {
            on_server: Providers(
                HomeKeychain(self.stored), environ, ACME, declared_only=on_server
            )
            for on_server in (True, False)
        }

    def declare(self, name: str, kind: str, **fields: str) -> None:
        bound = ("finance/*",)
        self.stored.declare(name, kind, fields, "T", lambda _: bound)

    def ask(
        self,
        kind: str,
        fields: dict[str, Any],
        playbook: str = HERE,
        *,
        on_server: bool = True,
    ) -> Any:
        wanted = Wanted(fields.get("name", "t"), kind, fields, None, playbook=playbook)
        return asyncio.run(self._providers[on_server][kind].get(wanted))


@pytest.fixture
def host(tmp_path: Path, secret_peer: str) -> Host:
    (tmp_path / "file").write_text(json.dumps({"user": "me", "password": VALUE}))
    environ = {
        "API": VALUE,
        "VAULT_TOKEN": VAULT_TOKEN,
        "VAULT_ADDR": "http://x.invalid",
    }
    host = Host(tmp_path, environ)
    host.declare("api", "env", variable="API")
    host.declare("both", "file", path=str(tmp_path / "file"), format="json")
    host.declare("one", "file", path=str(tmp_path / "file"), field="password")
    host.declare("db", "vault", path="secret/data/app", address=secret_peer)
    host.declare("plugged", "acme", path="app", server="theirs")
    return host


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("env", {"name": "api"}, VALUE),
        ("env", {"variable": "api"}, VALUE),
        ("env", {"name": "api", "variable": "API"}, VALUE),
        ("secret_manager", {"path": "api"}, VALUE),
        ("secret_manager", {"name": "api"}, VALUE),
        ("secret_manager", {"provider": "env", "path": "api"}, VALUE),
        ("file", {"path": "one"}, VALUE),
        ("file", {"path": "one", "field": "password"}, VALUE),
        ("file", {"path": "both", "field": "user"}, "me"),
        ("file", {"path": "both"}, {"user": "me", "password": VALUE}),
        ("secret_manager", {"path": "both", "field": "user"}, "me"),
        ("postgres_credential", {"path": "both", "database": "x"}, {"database": "x"}),
        ("http_credential", {"name": "both"}, {"password": VALUE}),
        ("vault", {"path": "db", "field": "user"}, "app"),
        ("vault", {"name": "db", "field": "password"}, "v4ult-pass"),
        ("postgres_credential", {"provider": "vault", "path": "db"}, {"user": "app"}),
        ("acme", {"path": "plugged"}, "acme-app-theirs"),
        ("acme", {"name": "plugged", "path": "app"}, "acme-app-theirs"),
    ],
)
def test_a_declared_entry_is_used_like_a_stored_one(
    host: Host, kind: str, fields: dict[str, str], expected: JSON
) -> None:
    found = host.ask(kind, fields)

    if isinstance(expected, dict):
        assert expected.items() <= found.items()
    else:
        assert found == expected


@pytest.mark.parametrize("playbook", ["hr/report", "finance"])
@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("env", {"name": "api"}),
        ("secret_manager", {"path": "api"}),
        ("secret_manager", {"provider": "env", "path": "api"}),
        ("file", {"path": "both"}),
        ("vault", {"path": "db"}),
        ("acme", {"path": "plugged"}),
    ],
)
def test_a_declared_entry_of_others_answers_as_one_that_is_missing(
    host: Host, kind: str, fields: dict[str, str], playbook: str
) -> None:
    named = fields.get("path") or fields["name"]
    missing = {key: "none" if each == named else each for key, each in fields.items()}

    with pytest.raises(SecretError) as foreign:
        host.ask(kind, fields, playbook)
    with pytest.raises(SecretError) as absent:
        host.ask(kind, missing, playbook)

    assert foreign.value.kind == absent.value.kind
    assert foreign.value.message.replace(named, "none") == absent.value.message


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("env", {"variable": "API"}),
        ("env", {"name": "API"}),
        ("file", {"path": "FOLDER/file"}),
        ("vault", {"path": "secret/data/app", "address": "http://x.invalid"}),
        ("aws", {"path": "app"}),
        ("acme", {"path": "app"}),
        ("acme", {"name": "api"}),
        ("secret_manager", {"provider": "env", "path": "API"}),
        ("http_credential", {"provider": "file", "path": "FOLDER/file"}),
        ("oauth2", {"provider": "file", "path": "FOLDER/file", "client_id": "me"}),
    ],
)
def test_without_a_declaration_nothing_of_the_host_is_read(
    host: Host, tmp_path: Path, kind: str, fields: dict[str, str]
) -> None:
    fields = {k: each.replace("FOLDER", str(tmp_path)) for k, each in fields.items()}

    with pytest.raises(SecretError, match="that an admin has declared") as e:
        host.ask(kind, fields)

    assert e.value.kind == "keychain.unresolved"
    assert "noetl keychain declare" in e.value.message
    assert "--for 'finance/*'" in e.value.message


@pytest.mark.parametrize(
    ("kind", "fields", "named"),
    [
        ("env", {"name": "api", "variable": "HOME"}, "'variable'"),
        ("file", {"path": "one", "field": "user"}, "'field'"),
        ("vault", {"path": "db", "address": "http://x.invalid"}, "'address'"),
        ("vault", {"name": "db", "path": "secret/data/other"}, "'path'"),
        ("vault", {"path": "db", "namespace": "mine"}, "'namespace'"),
        ("secret_manager", {"path": "db", "address": "http://x.invalid"}, "'address'"),
        ("acme", {"path": "plugged", "server": "mine"}, "'server'"),
        ("acme", {"path": "plugged", "other": "mine"}, "'other'"),
        ("postgres_credential", {"path": "both", "host": "x.invalid"}, "'host'"),
    ],
)
def test_a_playbook_cannot_change_where_a_declared_entry_leads(
    host: Host, kind: str, fields: dict[str, str], named: str
) -> None:
    with pytest.raises(SecretError, match="the playbook cannot change where") as e:
        host.ask(kind, fields)

    assert e.value.kind == "secret.denied"
    assert f"leave out {named}" in e.value.message
    assert VALUE not in e.value.message


def test_a_declared_file_with_a_field_gives_only_that_field(host: Host) -> None:
    with pytest.raises(SecretError, match="'t' is not JSON"):
        host.ask("secret_manager", {"path": "one", "field": "user"})


def test_a_declaration_of_a_kind_that_is_not_enabled_is_explained(host: Host) -> None:
    host.declare("old", "gone", path="x")

    with pytest.raises(SecretError, match="kind gone, but no enabled plug-in"):
        host.ask("secret_manager", {"path": "old"})


@pytest.mark.spec("S-67")
def test_noetl_run_reads_the_host_as_before(host: Host, tmp_path: Path) -> None:
    stored = {"token_url": "https://x.invalid", "client_secret": VALUE}
    host.stored.set("pg", {"password": VALUE, "host": "db"}, "oauth2", "T")
    host.stored.set("client", stored, "oauth2", "T")
    path = str(tmp_path / "file")

    def ask(kind: str, **fields: str) -> Any:
        return host.ask(kind, fields, on_server=False)

    assert ask("env", variable="API") == VALUE
    assert ask("file", path=path, field="user") == "me"
    assert ask("secret_manager", provider="env", path="API") == VALUE
    assert ask("postgres_credential", path="pg", host="mine")["host"] == "mine"
    assert ask("secret_manager", path="api") == VALUE, "declared at home, too"


@pytest.mark.spec("S-67")
def test_a_playbook_may_send_what_is_its_own_to_its_own_address(
    host: Host, secret_peer: str
) -> None:
    client = {"client_id": "me & you", "client_secret": "s3cret:with/odd+signs"}

    token = host.ask("oauth2", {"token_url": f"{secret_peer}/token", **client})

    assert token["access_token"].startswith("token-")
    own = {"host": "mine", "user": "u", "password": "p"}
    assert host.ask("postgres_credential", own)["host"] == "mine"


def test_a_stored_client_gets_its_token_from_its_own_address(
    host: Host, secret_peer: str
) -> None:
    client = {"client_id": "me & you", "client_secret": "s3cret:with/odd+signs"}
    url = {"token_url": f"{secret_peer}/token"}
    host.stored.set("shop", {**client, **url}, "oauth2", "T")

    assert host.ask("oauth2", {"path": "shop", "scope": "read"})["scope"] == "read"
    assert host.ask("oauth2", {"path": "shop", **url})["access_token"]
    with pytest.raises(SecretError, match="leave out 'token_url'"):
        host.ask("oauth2", {"path": "shop", "token_url": f"{secret_peer}/other"})
