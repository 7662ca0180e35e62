"""TLS contexts of clients and servers; clients always verify certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from noetl.errors import ConfigError

Trust: TypeAlias = Callable[[str], ssl.SSLContext]
"""Returns the TLS context for the server at an address."""

_END = "-----END CERTIFICATE-----"


def trusted(ca: Path | None = None, pinned: str | None = None) -> ssl.SSLContext:
    """Return the context of a client. Raises ``ConfigError``.

    ``ca`` has the authorities to trust instead of those of this machine. ``pinned`` is
    the certificate of the server of this home, accepted for every host name.
    """
    if pinned is not None:
        context = ssl.create_default_context(cadata=pinned)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context
    return _trusting(ca, "ca")


def trusted_peer(
    ca: Path | None, cert: Path | None, key: Path | None, *, prefix: str
) -> ssl.SSLContext:
    """Return the context for a service that may require a client certificate.

    ``prefix`` is that of the three settings' names. Raises ``ConfigError``.
    """
    context = _trusting(ca, f"{prefix}ca")
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _show(context, cert, key, prefix)
    return context


def _trusting(ca: Path | None, name: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except ssl.SSLError:
        raise ConfigError(f"{name}: {ca} has no certificates in PEM") from None
    except OSError as error:
        raise ConfigError(f"{name}: {ca} cannot be read: {error.strerror}") from None


def make_tls(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the context of a server, or None without TLS. Raises ``ConfigError``."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context if _show(context, cert, key, "tls_") else None


def _show(
    context: ssl.SSLContext, cert: Path | None, key: Path | None, prefix: str
) -> bool:
    """Load a certificate and its key into the context; return whether there is one."""
    if cert is None or key is None:
        if cert is None and key is None:
            return False
        missing = f"{prefix}cert" if cert is None else f"{prefix}key"
        raise ConfigError(f"{missing} is missing: certificate and key are both needed")
    for name, file in ((f"{prefix}cert", cert), (f"{prefix}key", key)):
        try:
            file.open("rb").close()
        except OSError as error:
            message = f"{name}: {file} cannot be read: {error.strerror}"
            raise ConfigError(message) from None
    try:
        context.load_cert_chain(cert, key, password=_no_passphrase)
    except ssl.SSLError as error:
        why = "the key does not belong to the certificate"
        if error.reason != "KEY_VALUES_MISMATCH":
            why = "they must be PEM, the key without a passphrase"
        message = f"{prefix}cert {cert}, {prefix}key {key}: {why}"
        raise ConfigError(message) from None
    return True


def first_certificate(cert: Path) -> str:
    """Return the first certificate of a chain: the server's own."""
    return cert.read_text("utf-8").partition(_END)[0] + _END + "\n"


def _no_passphrase() -> str:
    """Refuse a key with a passphrase: no user can be asked for it."""
    return ""
