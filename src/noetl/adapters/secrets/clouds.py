"""Secret managers of the clouds, each by its own library: an extra."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Any

from noetl.adapters.secrets.fields import chosen, text_field
from noetl.errors import SecretError
from noetl.ports import Wanted
from noetl.types import JSON


def load_extra(module: str, extra: str) -> Any:
    """The library. Raises ``SecretError`` with what to install."""
    try:
        return import_module(module)
    except ImportError:
        message = f"kind {extra} needs {module.partition('.')[0]}, which is not "
        message += f"installed: pip install 'noetl[{extra}]'"
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
    """Their libraries block, so each call has a thread of its own.

    What they raise may quote anything: only its name is passed on.
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
            message = f"{self._name} did not give '{path}': {type(error).__name__}"
            raise SecretError("secret.unreachable", message, retryable=True) from None
        return chosen(wanted, value, f"'{path}'")
