"""Where results are kept without a plug-in: a folder, or a cloud's store."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from noetl.adapters.blobs.files import FileBlobs
from noetl.errors import ConfigError
from noetl.ports import Blobs

_INSTALL = "run: pip install '.[objects]' in a checkout of NoETL"


SCHEMES = frozenset({"file", "s3", "gs", "az"})


def open_known(address: str | None, folder: str, drafts: str, home: str) -> Blobs:
    """``folder`` is where they are without an address; ``home`` says who asks."""
    if address is None:
        return FileBlobs(folder)
    found = urlsplit(address)
    if found.scheme == "file":
        return FileBlobs(unquote(found.path))
    try:
        from noetl.adapters.blobs.clouds import open_store
        from noetl.adapters.blobs.objects import ObjectBlobs
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "obstore":
            raise
        message = f"results in {address} need the package obstore; {_INSTALL}"
        raise ConfigError(message) from None
    return ObjectBlobs(open_store(address), address, drafts, home)
