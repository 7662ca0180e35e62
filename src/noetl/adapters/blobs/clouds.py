"""A client for each cloud: its credential is what the environment has."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from noetl.errors import ConfigError

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

_RETRY: RetryConfig = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}

_NEEDS = {
    "s3": "AWS_REGION, AWS_ENDPOINT, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_SERVICE_ACCOUNT, the file of a service account's key",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


def open_store(address: str) -> ObjectStore:
    """Raises ``ConfigError`` if the cloud's settings are of no use."""
    found = urlsplit(address)
    place: dict[str, Any] = {"retry_config": _RETRY}
    prefix = unquote(found.path).strip("/")
    if prefix:
        place["prefix"] = prefix
    try:
        match found.scheme:
            case "s3":
                place["checksum_algorithm"] = "SHA256"
                return S3Store(found.netloc, **place)
            case "gs":
                return GCSStore(found.netloc, **place)
            case _:
                return AzureStore(found.netloc, **place)
    except (BaseError, ValueError):  # its words may quote a variable
        message = (
            f"{address}: its client cannot be set up; check {_NEEDS[found.scheme]}"
        )
        raise ConfigError(message) from None
