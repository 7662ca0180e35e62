"""Secrets of HashiCorp Vault, by its HTTP API."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from noetl.adapters.secrets.fields import chosen, text_field
from noetl.adapters.secrets.web import ask
from noetl.errors import SecretError
from noetl.ports import Wanted
from noetl.types import JSON


class VaultProvider:
    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ

    async def get(self, wanted: Wanted) -> JSON:
        path = text_field(wanted, "path", wanted.name).strip("/")
        address = wanted.fields.get("address") or self._environ.get("VAULT_ADDR")
        if not address:
            message = "vault needs an address: VAULT_ADDR, or 'address' in the entry"
            raise SecretError("secret.wrong", message)
        headers = {"X-Vault-Token": self._token(), "X-Vault-Request": "true"}
        namespace = wanted.fields.get("namespace") or self._environ.get(
            "VAULT_NAMESPACE"
        )
        if namespace:
            headers["X-Vault-Namespace"] = str(namespace)
        url = f"{str(address).rstrip('/')}/v1/{path}"
        try:
            answer = await ask("GET", url, "vault at", headers=headers)
        except SecretError as error:
            if error.kind != "secret.missing":
                raise
            message = f"{error.message}; of the KV store, version 2, the path has "
            message += "'data' in it: secret/data/app"
            raise SecretError(error.kind, message) from None
        return chosen(wanted, _data(answer), f"vault's {path}")

    def _token(self) -> str:
        token = self._environ.get("VAULT_TOKEN")
        file = Path(self._environ.get("HOME") or "~").expanduser() / ".vault-token"
        if not token and file.is_file():
            token = file.read_text().strip()
        if not token:
            message = f"vault needs a token: VAULT_TOKEN, or {file} (vault login)"
            raise SecretError("secret.missing", message)
        return token


def _data(answer: Mapping[str, JSON]) -> JSON:
    """The fields: of the KV store, version 2, they are one level deeper."""
    data = answer.get("data")
    if isinstance(data, Mapping) and {"data", "metadata"} <= data.keys():
        data = data["data"]
    if not isinstance(data, Mapping):
        raise SecretError("secret.wrong", "vault's answer has no data")
    return dict(data)
