"""Settings of a server's door: TLS, and sign-in by OpenID Connect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noetl.config.parsing import (
    parse_file,
    parse_networks,
    parse_roles,
    parse_server,
    parse_text,
)
from noetl.config.setting import Setting
from noetl.types import JSON


def _none() -> None:
    return None


def _text(value: JSON, folder: Path) -> str | None:
    return parse_text(value, folder)


PROXIES = Setting(
    name="proxies",
    words="addresses or networks with commas between them (10.0.0.7, 10.1.0.0/16)",
    doc="With `behind_proxy`: whose `X-Forwarded-For` counts. Without it, that of "
    "whoever reaches the port. In a configuration file a list will do, too.",
    parse=parse_networks,
    default=frozenset[str],
    default_words="none",
)
TLS_CERT = Setting(
    name="tls_cert",
    words="a file",
    doc="The server's certificate and those that lead to its authority, in PEM. With "
    "it, and `tls_key`, the server speaks TLS itself.",
    parse=parse_file,
    default=_none,
    default_words="none",
)
TLS_KEY = Setting(
    name="tls_key",
    words="a file",
    doc="The private key of `tls_cert`, in PEM, without a passphrase.",
    parse=parse_file,
    default=_none,
    default_words="none",
)
CA = Setting(
    name="ca",
    words="a file",
    doc="Certificates in PEM of the authority that commands and workers trust for a "
    "server, instead of those that this machine trusts.",
    parse=parse_file,
    default=_none,
    default_words="none",
)
OIDC_ISSUER = Setting(
    name="oidc_issuer",
    words="the address of a provider: https://id.example.com",
    doc="The OpenID Connect provider by which people sign in.",
    parse=parse_server,
    default=_none,
    default_words="none",
)
OIDC_CLIENT_ID = Setting(
    name="oidc_client_id",
    words="a text",
    doc="What the provider calls this server.",
    parse=_text,
    default=_none,
    default_words="none",
)
OIDC_CLIENT_SECRET = Setting(
    name="oidc_client_secret",
    words="a text",
    doc="What the server shows to the provider; a public client has none.",
    parse=_text,
    default=_none,
    default_words="none",
    secret=True,
)
PUBLIC_URL = Setting(
    name="public_url",
    words="the address of this server: https://noetl.example.com",
    doc="How browsers reach the server. The provider sends them back to "
    "`/api/sessions/oidc/callback` there, and has to know that address.",
    parse=parse_server,
    default=_none,
    default_words="none",
)
OIDC_ROLES_CLAIM = Setting(
    name="oidc_roles_claim",
    words="the name of a claim, or a path to it: realm_access.roles",
    doc="Where an ID token names the roles, or groups, of a person.",
    parse=parse_text,
    default=lambda: "roles",
    default_words="roles",
)
OIDC_ROLES = Setting(
    name="oidc_roles",
    words="pairs with commas between them: engineers=developer,ops=operator:finance/*",
    doc="Which role here each role of the provider is. Whoever has none of them is "
    "not let in. In a configuration file a table will do, too.",
    parse=parse_roles,
    default=dict[str, str],
    default_words="none",
)
SECURITY: tuple[Setting[Any], ...] = (
    PROXIES,
    TLS_CERT,
    TLS_KEY,
    CA,
    PUBLIC_URL,
    OIDC_ISSUER,
    OIDC_CLIENT_ID,
    OIDC_CLIENT_SECRET,
    OIDC_ROLES_CLAIM,
    OIDC_ROLES,
)
