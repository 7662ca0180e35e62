"""Listening address, TLS and OpenID Connect of a server, from options and settings."""

from __future__ import annotations

import msgspec

from noetl.access.oidc import OidcClient
from noetl.config import (
    OIDC_CLIENT_ID,
    OIDC_CLIENT_SECRET,
    OIDC_ISSUER,
    OIDC_ROLES,
    OIDC_ROLES_CLAIM,
    PUBLIC_URL,
    Settings,
)
from noetl.errors import ConfigError
from noetl.local.process_files import Server


class Door(msgspec.Struct, frozen=True):
    """Options of ``noetl server start``; the settings replace those not given.

    ``personal`` is the folder of a ``noetl up``, whose files its tools may use.
    """

    host: str | None = None
    port: int | None = None
    behind_proxy: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    personal: str | None = None

    @classmethod
    def of(cls, server: Server) -> Door:
        """Return the options with which a running server was started."""
        return cls(
            server.host,
            server.port,
            server.behind_proxy,
            server.tls_cert,
            server.tls_key,
            server.personal,
        )

    def options(self) -> list[str]:
        """Return the command-line arguments for these options."""
        given = {
            "--host": self.host,
            "--port": None if self.port is None else str(self.port),
            "--tls-cert": self.tls_cert,
            "--tls-key": self.tls_key,
            "--personal": self.personal,
        }
        found = [word for each in given.items() if each[1] for word in each]
        return [str(word) for word in found] + ["--behind-proxy"] * self.behind_proxy


CALLBACK = "/api/sessions/oidc/callback"


def read_oidc(settings: Settings) -> OidcClient | None:
    """Read the provider's settings; None without a provider.

    Raises ``ConfigError`` if only some of the settings are there.
    """
    issuer = settings[OIDC_ISSUER]
    if issuer is None:
        if settings[OIDC_CLIENT_ID] is not None:
            raise ConfigError("oidc_client_id is set, but oidc_issuer is not")
        return None
    roles: dict[str, str] = settings[OIDC_ROLES]
    found = {
        OIDC_CLIENT_ID.name: settings[OIDC_CLIENT_ID],
        PUBLIC_URL.name: settings[PUBLIC_URL],
        OIDC_ROLES.name: roles,
    }
    missing = [name for name, value in found.items() if not value]
    if missing:
        message = f"oidc_issuer is set, but not {', '.join(missing)}"
        raise ConfigError(f"{message}; noetl config shows the effective settings")
    return OidcClient(
        issuer=issuer,
        client_id=settings[OIDC_CLIENT_ID] or "",
        redirect_uri=f"{settings[PUBLIC_URL]}{CALLBACK}",
        client_secret=settings[OIDC_CLIENT_SECRET],
        roles_claim=settings[OIDC_ROLES_CLAIM],
        roles=roles,
    )
