"""Whom commands and workers trust to be a server: by certificates, always."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from noetl.errors import ConfigError

Trust: TypeAlias = Callable[[str], ssl.SSLContext]
"""By which certificates the server at an address is known."""

_END = "-----END CERTIFICATE-----"


def trusted(ca: Path | None = None, pinned: str | None = None) -> ssl.SSLContext:
    """``ca`` holds authorities to trust instead of this machine's. ``pinned`` is the
    one certificate of a server whose home we are in: that one, whatever name it is for.

    Raises ``ConfigError``.
    """
    if pinned is not None:
        context = ssl.create_default_context(cadata=pinned)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except ssl.SSLError:
        raise ConfigError(f"ca: {ca} holds no certificates in PEM") from None
    except OSError as error:
        raise ConfigError(f"ca: {ca} cannot be read: {error.strerror}") from None


def make_tls(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """What a server shows, if it speaks TLS. Raises ``ConfigError``."""
    if cert is None or key is None:
        if cert is None and key is None:
            return None
        missing = "tls_cert" if cert is None else "tls_key"
        raise ConfigError(f"{missing} is missing: certificate and key go together")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for name, file in (("tls_cert", cert), ("tls_key", key)):
        try:
            file.open("rb").close()
        except OSError as error:
            message = f"{name}: {file} cannot be read: {error.strerror}"
            raise ConfigError(message) from None
    try:
        context.load_cert_chain(cert, key, password=_no_passphrase)
    except ssl.SSLError as error:
        why = "the key is not that of the certificate"
        if error.reason != "KEY_VALUES_MISMATCH":
            why = "they must be PEM, the key without a passphrase"
        raise ConfigError(f"tls_cert {cert}, tls_key {key}: {why}") from None
    return context


def first_certificate(cert: Path) -> str:
    """The server's own, of the chain."""
    return cert.read_text("utf-8").partition(_END)[0] + _END + "\n"


def _no_passphrase() -> str:
    """Nobody is there to ask."""
    return ""
