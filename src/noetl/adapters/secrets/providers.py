"""Secret providers: environment, files, Vault, cloud secret managers, OAuth 2."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import msgspec

from noetl.adapters.network import Network
from noetl.adapters.secrets.by_path import (
    SecretManager,
    ask_stored,
    chosen,
    credential_options,
    refuse_redirection,
    text_field,
)
from noetl.adapters.secrets.http import ask, shown
from noetl.errors import SecretError
from noetl.extras import install_command
from noetl.ports import Wanted
from noetl.types import JSON

_MARGIN = 30.0  # a token is not used in the last seconds before it expires
_NEEDED = ("token_url", "client_id", "client_secret")
_TAKEN = (*_NEEDED, "scope", "audience", "client_auth")


def load_extra(module: str, extra: str) -> Any:
    """Import a library. Raises ``SecretError`` with the package to install."""
    try:
        return import_module(module)
    except ImportError:
        message = f"kind {extra} needs {module.partition('.')[0]}, which is not "
        message += f"installed; run: {install_command(extra)}"
        raise SecretError("secret.extra", message) from None


def read_aws(wanted: Wanted) -> JSON:
    boto3 = load_extra("boto3", "aws")
    options = {"region_name": wanted.fields.get("region")}
    client = boto3.client("secretsmanager", **options)
    return client.get_secret_value(SecretId=text_field(wanted, "path", wanted.name))[
        "SecretString"
    ]


def read_gcp(wanted: Wanted) -> JSON:
    library = load_extra("google.cloud.secretmanager", "gcp")
    path = text_field(wanted, "path", wanted.name)
    name = path if "/versions/" in path else f"{path}/versions/latest"
    answer = library.SecretManagerServiceClient().access_secret_version(name=name)
    return answer.payload.data.decode()


def read_azure(wanted: Wanted) -> JSON:
    identity = load_extra("azure.identity", "azure")
    library = load_extra("azure.keyvault.secrets", "azure")
    client = library.SecretClient(
        text_field(wanted, "vault_url"), identity.DefaultAzureCredential()
    )
    return client.get_secret(text_field(wanted, "path", wanted.name)).value


class CloudProvider:
    """Calls a cloud's library on a thread, since it blocks.

    Of its errors only the type is reported: their text may quote a secret.
    """

    def __init__(self, name: str, read: Callable[[Wanted], JSON]) -> None:
        self._name = name
        self._read = read

    async def get(self, wanted: Wanted) -> JSON:
        path = text_field(wanted, "path", wanted.name)
        try:
            value = await asyncio.to_thread(self._read, wanted)
        except SecretError:
            raise
        except Exception as error:
            message = f"{self._name} did not return '{path}': {type(error).__name__}"
            raise SecretError("secret.unreachable", message, retryable=True) from None
        return chosen(wanted, value, f"'{path}'")


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
            message = f"{error.message}; for the KV store, version 2, write 'data' "
            message += "into the path: secret/data/app"
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
    """Return the fields, which are one level deeper in the KV store, version 2."""
    data = answer.get("data")
    if isinstance(data, Mapping) and {"data", "metadata"} <= data.keys():
        data = data["data"]
    if not isinstance(data, Mapping):
        raise SecretError("secret.wrong", "vault's answer has no data")
    return dict(data)


MAX_BYTES = 1024 * 1024
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe does not block


class EnvProvider:
    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ

    async def get(self, wanted: Wanted) -> JSON:
        name = text_field(wanted, "variable", wanted.fields.get("path") or wanted.name)
        if not self._environ.get(name):
            state = "empty" if name in self._environ else "not set"
            message = f"the environment variable {name} is {state}; export it"
            raise SecretError("secret.missing", message)
        return chosen(wanted, self._environ[name], f"the variable {name}")


class FileProvider:
    async def get(self, wanted: Wanted) -> JSON:
        path, folder = text_field(wanted, "path"), wanted.folder or "."
        text = await asyncio.to_thread(_read, path, folder)
        return chosen(wanted, text, path)


def _read(name: str, folder: str) -> str:
    path = Path(folder, os.path.expanduser(name))
    try:
        file = os.open(path, _READ)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise SecretError("secret.wrong", f"{path} is not a file")
            data = os.read(file, MAX_BYTES + 1)
        finally:
            os.close(file)
    except OSError as error:
        denied = isinstance(error, PermissionError)
        kind = "secret.denied" if denied else "secret.missing"
        raise SecretError(kind, f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise SecretError("secret.wrong", f"{path} is larger than {MAX_BYTES:,} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise SecretError("secret.wrong", f"{path} is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")


class OAuth2Provider:
    """With ``fixed``, a stored secret goes only to the stored ``token_url``."""

    def __init__(
        self,
        manager: SecretManager,
        now: Callable[[], float] = time.time,
        *,
        fixed: bool = False,
        network: Network | None = None,
    ) -> None:
        self._network = network
        self._manager = manager
        self._fixed = fixed
        self._now = now
        self._tokens: dict[bytes, tuple[float, JSON]] = {}

    async def get(self, wanted: Wanted) -> JSON:
        settings = await self._settings(wanted)
        key = sha256(msgspec.json.encode(settings, order="sorted")).digest()
        ends, token = self._tokens.get(key, (0.0, None))
        if token is None or wanted.fresh or ends - _MARGIN <= self._now():
            ends, token = await self._ask(settings)
            self._tokens[key] = (ends, token)
        return token

    async def _settings(self, wanted: Wanted) -> dict[str, str]:
        """Return the settings of the entry, completed by a stored credential."""
        fields = wanted.fields
        if any(not fields.get(name) for name in _NEEDED):
            stored = await ask_stored(self._manager, wanted)
            stored = stored if isinstance(stored, Mapping) else {}
            if self._fixed:
                refuse_redirection(wanted, fields, stored)
            fields = {**stored, **fields}
        missing = [name for name in _NEEDED if not fields.get(name)]
        if missing:
            message = f"oauth2 needs {', '.join(missing)}: write them in the entry, or "
            options = credential_options("oauth2")
            message += f"store them with: noetl keychain set {wanted.name} {options}"
            raise SecretError("secret.wrong", message)
        return {name: str(fields[name]) for name in _TAKEN if fields.get(name)}

    async def _ask(self, settings: Mapping[str, str]) -> tuple[float, JSON]:
        form = {"grant_type": "client_credentials"}
        form |= {
            name: settings[name] for name in ("scope", "audience") if name in settings
        }
        identity = (settings["client_id"], settings["client_secret"])
        headers = {"Accept": "application/json"}
        if settings.get("client_auth", "basic") == "body":
            form |= {"client_id": identity[0], "client_secret": identity[1]}
        else:
            pair = ":".join(map(quote_plus, identity)).encode()
            headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()
        url, who = settings["token_url"], "the token endpoint"
        answer = await ask("POST", url, who, self._network, data=form, headers=headers)
        return self._read(answer, f"{who} {shown(url)}")

    def _read(self, answer: Mapping[str, JSON], who: str) -> tuple[float, JSON]:
        token = answer.get("access_token")
        if not isinstance(token, str) or not token:
            raise SecretError("secret.wrong", f"{who} returned no access_token")
        seconds = answer.get("expires_in")
        lasts = float(seconds) if isinstance(seconds, int | float) else 0.0
        ends = self._now() + min(lasts, 10 * 365 * 86400.0)
        found: dict[str, JSON] = {
            "access_token": token,
            "token_type": answer.get("token_type") or "Bearer",
            "expires_at": None,
        }
        if lasts:
            found["expires_at"] = datetime.fromtimestamp(ends, UTC).isoformat()
        if isinstance(answer.get("scope"), str):
            found["scope"] = answer["scope"]
        return ends, found
