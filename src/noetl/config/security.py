"""Settings of a server's security: TLS, and sign-in by OpenID Connect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noetl.config.setting import (
    Setting,
    parse_file,
    parse_networks,
    parse_roles,
    parse_server,
    parse_text,
)
from noetl.types import JSON


def _none() -> None:
    return None


def _text(value: JSON, folder: Path) -> str | None:
    return parse_text(value, folder)


PROXIES = Setting(
    name="proxies",
    words="addresses or networks separated by commas (10.0.0.7, 10.1.0.0/16)",
    doc="With `behind_proxy`: the proxies whose `X-Forwarded-For` is trusted. Without "
    "it, that of every client of the port. A configuration file may have a list.",
    parse=parse_networks,
    default=frozenset[str],
    default_words="none",
)
TLS_CERT = Setting(
    name="tls_cert",
    words="a file",
    doc="The server's certificate and its chain of authorities, in PEM. With it and "
    "`tls_key`, the server itself uses TLS.",
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
KEYCHAIN_KEY = Setting(
    name="keychain_key",
    words="file:/path, env:VARIABLE, command:PROGRAM, or the scheme of a plug-in",
    doc="The key that seals the keychain of servers on one database; all of them need "
    "the same. A file or variable has 32 random bytes in base64, or several keys, of "
    "which the first one seals. A program is called as `PROGRAM seal` and `PROGRAM "
    "open`. Without it, the file `key` of the home.",
    parse=_text,
    default=_none,
    default_words="`key` in the home",
    secret=True,  # the key itself may be there by mistake
)
OIDC_ISSUER = Setting(
    name="oidc_issuer",
    words="the address of a provider: https://id.example.com",
    doc="The OpenID Connect provider by which users sign in.",
    parse=parse_server,
    default=_none,
    default_words="none",
)
OIDC_CLIENT_ID = Setting(
    name="oidc_client_id",
    words="a text",
    doc="The client id of this server at the provider.",
    parse=_text,
    default=_none,
    default_words="none",
)
OIDC_CLIENT_SECRET = Setting(
    name="oidc_client_secret",
    words="a text",
    doc="The client secret of this server at the provider; a public client has none.",
    parse=_text,
    default=_none,
    default_words="none",
    secret=True,
)
PUBLIC_URL = Setting(
    name="public_url",
    words="the address of this server: https://noetl.example.com",
    doc="The address at which browsers reach the server. The provider redirects them "
    "to `/api/sessions/oidc/callback` there, and must have that address registered.",
    parse=parse_server,
    default=_none,
    default_words="none",
)
OIDC_ROLES_CLAIM = Setting(
    name="oidc_roles_claim",
    words="the name of a claim, or a path to it: realm_access.roles",
    doc="The claim of an ID token that has the roles, or groups, of a user.",
    parse=parse_text,
    default=lambda: "roles",
    default_words="roles",
)
OIDC_ROLES = Setting(
    name="oidc_roles",
    words="pairs separated by commas: engineers=developer,ops=operator:finance/*",
    doc="The role here for each role of the provider. A user without any of them "
    "cannot sign in. A configuration file may have a table.",
    parse=parse_roles,
    default=dict[str, str],
    default_words="none",
)
SECURITY: tuple[Setting[Any], ...] = (
    PROXIES,
    TLS_CERT,
    TLS_KEY,
    CA,
    KEYCHAIN_KEY,
    PUBLIC_URL,
    OIDC_ISSUER,
    OIDC_CLIENT_ID,
    OIDC_CLIENT_SECRET,
    OIDC_ROLES_CLAIM,
    OIDC_ROLES,
)
