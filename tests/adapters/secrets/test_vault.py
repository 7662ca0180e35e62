"""Logins at a vault: AppRole and Kubernetes, leases, and tokens that are revoked.

The vault is ``support/vault_peer.py``; no real one runs here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from vault_peer import FIELDS, JWT, ROLE, SECRET_ID, Vault, serve_vault

from noetl.adapters.secrets.vault import VaultProvider
from noetl.errors import SecretError
from noetl.ports import Wanted

pytestmark = pytest.mark.spec("S-67")

PATH = "secret/data/app"
Get = Callable[..., Awaitable[Any]]


def against(work: Callable[[Vault, Get], Awaitable[None]], **environ: str) -> None:
    """Run ``work`` with a vault and a provider on its clock. Variables have the names
    of OpenBao here, and fields those of an entry."""

    async def main() -> None:
        async with serve_vault() as vault:
            provider = VaultProvider(environ, lambda: vault.clock)

            async def get(path: str = PATH, **fields: str) -> Any:
                fields = {"address": vault.url, "path": path, **fields}
                return await provider.get(Wanted("it", "vault", fields))

            await work(vault, get)

    asyncio.run(main())


BY_ROLE = {"BAO_LOGIN": "approle", "VAULT_ROLE": ROLE, "VAULT_SECRET_ID": SECRET_ID}


def test_approle_logs_in_once_for_many_requests() -> None:
    async def work(vault: Vault, get: Get) -> None:
        found = await asyncio.gather(*[get(namespace="team") for _ in range(5)])
        assert found == [FIELDS] * 5
        assert vault.calls["auth/approle/login"] == 1
        assert vault.namespaces == {"team"}

    against(work, **BY_ROLE)


def test_kubernetes_logs_in_by_the_token_of_the_pod_as_it_is_now(
    tmp_path: Path,
) -> None:
    file = tmp_path / "token"
    file.write_text(JWT + "\n")
    fields = {"login": "kubernetes", "role": ROLE, "mount": "k8s-eu"}
    fields["secret_file"] = str(file)

    async def work(vault: Vault, get: Get) -> None:
        assert await get(**fields) == FIELDS
        file.write_text("another")
        vault.clock += vault.max + 1
        with pytest.raises(SecretError, match="answered with 400") as refused:
            await get(**fields)
        assert refused.value.kind == "secret.denied"
        assert "another" not in refused.value.message

    against(work)


def test_a_token_is_renewed_in_time_and_replaced_at_its_latest_end() -> None:
    async def work(vault: Vault, get: Get) -> None:
        for _ in range(7):
            await get()
            vault.clock += 33
        assert vault.calls["auth/approle/login"] == 2
        assert vault.calls["auth/token/renew-self"] == 3, "the last one was refused"
        assert vault.calls[PATH] == 7

    against(work, **BY_ROLE)


def test_a_vault_that_does_not_renew_is_asked_with_the_token_that_lasts() -> None:
    async def work(vault: Vault, get: Get) -> None:
        await get()
        vault.clock += 70
        vault.is_up = False
        with pytest.raises(SecretError, match="answered with 503") as refused:
            await get()
        assert (refused.value.kind, refused.value.retryable) == (
            "secret.unreachable",
            True,
        )
        vault.is_up = True
        assert await get() == FIELDS
        assert vault.calls["auth/approle/login"] == 1

    against(work, **BY_ROLE)


def test_a_revoked_token_leads_to_one_login_and_a_denied_path_to_none() -> None:
    async def work(vault: Vault, get: Get) -> None:
        await get()
        vault.tokens.clear()
        assert await get() == FIELDS
        assert vault.calls["auth/approle/login"] == 2
        for _ in range(3):
            with pytest.raises(SecretError, match="answered with 403") as refused:
                await get("secret/data/denied")
            assert refused.value.kind == "secret.denied"
        assert vault.calls["auth/approle/login"] == 2

    against(work, **BY_ROLE)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"login": "ldap"}, "expected token, approle, kubernetes"),
        ({"login": "approle"}, "needs 'role'"),
        ({"login": "approle", "role": ROLE}, "needs a secret id"),
        (
            {"login": "approle", "role": ROLE, "secret_file": "/none"},
            "/none cannot be read: No such file",
        ),
        ({"login": "kubernetes", "role": ROLE}, "serviceaccount/token cannot be read"),
        ({"login": "token", "role": ROLE}, "needs a token: VAULT_TOKEN"),
    ],
)
def test_a_login_that_lacks_something_is_explained(
    fields: dict[str, str], words: str, tmp_path: Path
) -> None:
    async def work(vault: Vault, get: Get) -> None:
        with pytest.raises(SecretError, match=words):
            await get(**fields)
        assert not vault.calls

    against(work, HOME=str(tmp_path))


def test_a_wrong_secret_id_is_not_quoted() -> None:
    async def work(vault: Vault, get: Get) -> None:
        with pytest.raises(SecretError, match="answered with 400") as refused:
            await get()
        assert "wrong-id" not in refused.value.message

    against(work, **{**BY_ROLE, "VAULT_SECRET_ID": "wrong-id"})
