"""Secret providers: environment, files, and cloud secret managers."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from noetl.adapters.secrets.by_path import (
    chosen,
    text_field,
)
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
