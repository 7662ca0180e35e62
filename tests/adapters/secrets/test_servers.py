"""Who gives out secrets over the network: token endpoints, Vault, the clouds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.secrets.by_path import SecretManager
from noetl.adapters.secrets.home_keychain import StoredKeychain
from noetl.adapters.secrets.oauth2 import OAuth2Provider
from noetl.adapters.secrets.registry import Providers
from noetl.errors import SecretError
from noetl.extras import install_command
from noetl.ports import Wanted

Ask = Callable[..., Any]

pytestmark = pytest.mark.spec("S-67")

CLIENT = {"client_id": "me & you", "client_secret": "s3cret:with/odd+signs"}
VAULT_TOKEN = "vault-token-71d9"


@pytest.mark.parametrize("client_auth", ["basic", "body"])
def test_a_token_by_client_credentials(ask: Ask, peer: str, client_auth: str) -> None:
    token = ask(
        "oauth2",
        token_url=f"{peer}/token",
        client_auth=client_auth,
        scope="read",
        **CLIENT,
    )

    assert token["access_token"].startswith("token-")
    assert (token["token_type"], token["scope"]) == ("Bearer", "read")
    assert token["expires_at"] is None


def test_client_credentials_may_be_stored(
    ask: Ask, stored: StoredKeychain, peer: str
) -> None:
    stored.set("api", {"token_url": f"{peer}/token", **CLIENT}, "oauth2", "T")

    assert ask("oauth2", "api")["access_token"].startswith("token-")


def test_a_token_is_cached_until_it_expires_or_a_fresh_one_is_requested(
    providers: Providers, peer: str
) -> None:
    now = [1000.0]
    provider = OAuth2Provider(SecretManager(providers), lambda: now[0])
    fields = {"token_url": f"{peer}/token?expires=100", **CLIENT}

    async def get(*, fresh: bool = False) -> Any:
        return (await provider.get(Wanted("x", "oauth2", fields, None, fresh)))[
            "access_token"
        ]

    async def work() -> None:
        first = await get()
        now[0] += 60
        assert await get() == first
        second = await get(fresh=True)
        assert second != first
        assert await get() == second
        now[0] += 75
        assert await get() != second, "too near to its end"

    asyncio.run(work())


@pytest.mark.parametrize(
    ("path", "kind", "retryable", "words"),
    [
        ("/token", "secret.denied", False, r"answered with 401 \(invalid_client\)"),
        ("/strange/503", "secret.unreachable", True, "answered with 503"),
        ("/strange/404", "secret.missing", False, "answered with 404"),
        ("/strange/moved", "secret.unreachable", False, "answered with 302"),
        ("/strange/text", "secret.wrong", False, "not answer with a JSON mapping"),
        ("/strange/empty", "secret.wrong", False, "returned no access_token"),
    ],
)
def test_a_refusal_quotes_nothing_of_the_request(
    ask: Ask, peer: str, path: str, kind: str, retryable: bool, words: str
) -> None:
    url = f"{peer}{path}?key=key-in-url"

    with pytest.raises(SecretError, match=words) as e:
        ask("oauth2", token_url=url, client_id="x", client_secret="wrong-secret")
    assert (e.value.kind, e.value.retryable) == (kind, retryable)
    assert f"{peer}{path}" in e.value.message
    for secret in ("key-in-url", "wrong-secret", "d3Jvbmct"):
        assert secret not in e.value.message


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/token", "http://no.invalid/t"])
def test_an_endpoint_that_is_not_there_can_be_asked_again(ask: Ask, url: str) -> None:
    with pytest.raises(SecretError, match="cannot be reached") as e:
        ask("oauth2", token_url=url, **CLIENT)
    assert (e.value.kind, e.value.retryable) == ("secret.unreachable", True)


@pytest.mark.parametrize(
    "url",
    [
        "http://host:port/",
        "//",
        "ftp://x",
        "http://[",
        "http://u:pass-in-url@127.0.0.1",
    ],
)
def test_an_address_that_is_none_is_refused(ask: Ask, url: str) -> None:
    with pytest.raises(SecretError) as e:
        ask("oauth2", token_url=url, **CLIENT)
    assert e.value.kind in ("secret.wrong", "secret.unreachable")
    assert "pass-in-url" not in e.value.message


def test_missing_client_credentials_are_named(
    ask: Ask, stored: StoredKeychain, peer: str
) -> None:
    stored.set("api", {"token_url": f"{peer}/token"}, "oauth2", "T")

    with pytest.raises(SecretError, match="oauth2 needs client_secret: write"):
        ask("oauth2", "api", client_id="me")
    with pytest.raises(SecretError, match="has no 'nobody'"):
        ask("oauth2", "nobody")


@pytest.mark.parametrize("path", ["secret/data/app", "kv/app", "/kv/app/"])
def test_vault_gives_the_fields_of_both_versions(
    ask: Ask, environ: dict[str, str], peer: str, path: str
) -> None:
    environ |= {"VAULT_ADDR": peer + "/", "VAULT_TOKEN": VAULT_TOKEN}

    fields = {"user": "app", "password": "v4ult-pass"}
    assert ask("vault", path=path) == fields
    assert ask("vault", path=path, field="password") == "v4ult-pass"
    assert ask("secret_manager", provider="vault", path=path) == fields
    environ["VAULT_NAMESPACE"] = "team"
    assert ask("vault", path=path)["namespace"] == "team"


def test_an_answer_that_comes_in_parts_is_read_to_its_end(
    ask: Ask, environ: dict[str, str], peer: str
) -> None:
    environ |= {"VAULT_ADDR": peer, "VAULT_TOKEN": VAULT_TOKEN}

    assert ask("vault", path="kv/long", field="pin") == "p" * 1_000_000


def test_vaults_token_may_be_in_the_home_folder(
    ask: Ask, environ: dict[str, str], peer: str, tmp_path: Path
) -> None:
    environ["HOME"] = str(tmp_path)
    (tmp_path / ".vault-token").write_text(VAULT_TOKEN + "\n")

    assert ask("vault", path="kv/app", address=peer, field="user") == "app"


@pytest.mark.parametrize(
    ("change", "fields", "kind", "words"),
    [
        ({}, {"path": "none"}, "secret.missing", "404.*write 'data' into the path"),
        ({"VAULT_TOKEN": "bad"}, {}, "secret.denied", "answered with 403"),
        ({"VAULT_TOKEN": ""}, {}, "secret.missing", "needs a token: VAULT_TOKEN"),
        ({"VAULT_ADDR": ""}, {}, "secret.wrong", "needs an address: VAULT_ADDR"),
        ({}, {"path": "kv/odd"}, "secret.wrong", "has no data"),
        ({}, {"path": "kv/too-long"}, "secret.wrong", "more than 4194304 bytes"),
        ({}, {"field": "pin"}, "secret.missing", "no field 'pin'"),
    ],
)
def test_what_vault_does_not_give_is_explained(
    ask: Ask,
    environ: dict[str, str],
    peer: str,
    tmp_path: Path,
    change: dict[str, str],
    fields: dict[str, str],
    kind: str,
    words: str,
) -> None:
    environ |= {"VAULT_ADDR": peer, "VAULT_TOKEN": VAULT_TOKEN, **change}
    environ["HOME"] = str(tmp_path)

    with pytest.raises(SecretError, match=words) as e:
        ask("vault", **{"path": "kv/app", **fields})
    assert e.value.kind == kind


@pytest.mark.parametrize("kind", ["aws", "gcp", "azure"])
def test_a_missing_extra_is_one_line_with_the_command(ask: Ask, kind: str) -> None:
    with pytest.raises(SecretError) as e:
        ask(kind, path="x", vault_url="https://x")
    assert e.value.kind == "secret.extra"
    assert e.value.message.endswith(f"run: {install_command(kind)}")
    assert "\n" not in e.value.message
