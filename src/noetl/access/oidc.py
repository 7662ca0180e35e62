"""Sign-in by OpenID Connect: the authorization code flow with PKCE, without I/O."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from math import isfinite
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlencode, urlsplit

import msgspec

from noetl.access.credentials import find_cookies
from noetl.access.permissions import Grant, read_grant
from noetl.errors import AccessError, ConfigError
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.access.device_flow import DeviceCode, Waiting

CLOCK_SKEW_S = 60.0
"""Seconds by which the provider's clock may differ from the server's."""
SIGN_IN_TIMEOUT_S = 600.0
"""Seconds within which a sign-in must be completed."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class OidcClient(msgspec.Struct, frozen=True, kw_only=True):
    """The registration of this server at a provider.

    ``roles_claim`` is the claim of an ID token that holds roles, or a path such as
    ``realm_access.roles``. ``roles`` maps the provider's roles to grants.
    """

    issuer: str
    client_id: str
    redirect_uri: str
    client_secret: str | None = None
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    roles_claim: str = "roles"
    roles: Mapping[str, str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("issuer", "redirect_uri"):
            need_tls(name, getattr(self, name))
        try:
            for text in self.roles.values():
                read_grant(text)
        except AccessError as error:
            raise ConfigError(f"roles of {self.issuer}: {error.message}") from None

    def __repr__(self) -> str:
        return f"OidcClient({self.issuer!r}, {self.client_id!r})"


class Metadata(msgspec.Struct, frozen=True):
    """The discovery document of a provider."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    device_authorization_endpoint: str | None = None


class Pending(msgspec.Struct, frozen=True):
    """A sign-in that has begun; the browser keeps it in a cookie."""

    state: str
    nonce: str
    verifier: str
    created_at: float

    def __repr__(self) -> str:
        return "Pending(…)"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A user that a provider has authenticated, with the mapped grants."""

    issuer: str
    subject: str
    email: str | None
    display_name: str | None
    grants: tuple[Grant, ...]

    def shown(self) -> str:
        return self.email or self.display_name or self.subject


class Provider(Protocol):
    """An OpenID Connect provider. Each method raises ``AccessError``."""

    @property
    def issuer(self) -> str: ...

    async def begin(self) -> tuple[str, Pending]:
        """Return the URL to redirect to, and the state to keep in the browser."""
        ...

    async def finish(
        self, answer: Mapping[str, str], pending: Pending | None
    ) -> Identity:
        """Return the identity from the query of the provider's redirect."""
        ...

    async def begin_device(self) -> DeviceCode:
        """Begin the sign-in of a command. The kind ``oidc.no_device`` is for a provider
        that has none."""
        ...

    async def finish_device(self, device_code: str) -> Identity | Waiting:
        """Return the identity, if the user has signed in by now."""
        ...


def read_metadata(value: JSON, client: OidcClient) -> Metadata:
    try:
        metadata = msgspec.convert(value, Metadata)
    except msgspec.ValidationError as error:
        message = f"the discovery document of {client.issuer} is not valid: {error}"
        raise refused(message) from None
    if metadata.issuer.rstrip("/") != client.issuer.rstrip("/"):
        published = f"{metadata.issuer:.200}"
        raise refused(f"{client.issuer} publishes the issuer '{published}'")
    names = ["authorization_endpoint", "token_endpoint", "jwks_uri"]
    if metadata.device_authorization_endpoint is not None:
        names.append("device_authorization_endpoint")
    for name in names:
        try:
            need_tls(name, getattr(metadata, name))
        except ConfigError as error:
            raise refused(f"{client.issuer}: {error}") from None
    return metadata


def begin(
    client: OidcClient, metadata: Metadata, entropy: bytes, now: float
) -> tuple[str, Pending]:
    """Return the URL to redirect to, and the state to keep; from 96 random bytes."""
    if len(entropy) != 96:
        raise ValueError("a sign-in needs 96 random bytes")
    state, nonce, verifier = (_text(entropy[at : at + 32]) for at in (0, 32, 64))
    query = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": client.redirect_uri,
        "scope": " ".join(client.scopes),
        "state": state,
        "nonce": nonce,
        "code_challenge": _text(sha256(verifier.encode()).digest()),
        "code_challenge_method": "S256",
    }
    address = metadata.authorization_endpoint
    joint = "&" if urlsplit(address).query else "?"
    return f"{address}{joint}{urlencode(query)}", Pending(state, nonce, verifier, now)


def read_answer(
    answer: Mapping[str, str],
    pending: Pending | None,
    client: OidcClient,
    now: float,
) -> str:
    """Return the authorization code from the redirect. Raises ``AccessError``."""
    state = answer.get("state", "").encode()
    if pending is None or not hmac.compare_digest(state, pending.state.encode()):
        raise refused("this sign-in was not begun in this browser: begin it again")
    if (
        not 0
        <= now - pending.created_at + CLOCK_SKEW_S
        <= SIGN_IN_TIMEOUT_S + CLOCK_SKEW_S
    ):
        raise refused("this sign-in took too long: begin it again")
    if answer.get("iss", client.issuer).rstrip("/") != client.issuer.rstrip("/"):
        raise refused("the redirect is from another provider")
    if "error" in answer:
        code = answer["error"]
        said = code if code.isascii() and code.isidentifier() else "an error"
        raise refused(f"the provider answered with {said:.60}")
    if not answer.get("code"):
        raise refused("the provider sent no code")
    return answer["code"]


def read_claims(
    claims: Mapping[str, JSON], client: OidcClient, pending: Pending | None, now: float
) -> Identity:
    """Return the identity in a verified ID token. Raises ``AccessError``.

    Without a ``pending`` sign-in of a browser there is no nonce: the token came from
    the provider itself.
    """
    audience = claims.get("aud")
    if str(claims.get("iss")).rstrip("/") != client.issuer.rstrip("/"):
        raise refused("the ID token is from another issuer")
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or client.client_id not in named:
        raise refused("the ID token is for another client")
    if claims.get("azp", client.client_id) != client.client_id:
        raise refused("the ID token was given to another client")
    nonce = str(claims.get("nonce", "")).encode()
    if pending is not None and not hmac.compare_digest(nonce, pending.nonce.encode()):
        raise refused("the ID token is of another sign-in")
    if not _moment(claims, "exp") > now - CLOCK_SKEW_S:
        raise refused("the ID token has expired")
    if _moment(claims, "iat") > now + CLOCK_SKEW_S:
        raise refused("the ID token was issued in the future: synchronize the clocks")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255:
        raise refused("the ID token has no subject")
    verified = claims.get("email_verified", True) is not False
    return Identity(
        issuer=client.issuer.rstrip("/"),
        subject=subject,
        email=_optional(claims.get("email")) if verified else None,
        display_name=_optional(claims.get("name")),
        grants=grants_of(claims, client),
    )


def grants_of(claims: Mapping[str, JSON], client: OidcClient) -> tuple[Grant, ...]:
    """Return the grants of the provider's roles; unmapped roles grant nothing."""
    found = _claim(claims, client.roles_claim)
    named: Sequence[JSON] = [found] if isinstance(found, str) else found or []
    if not isinstance(named, list):
        return ()
    known = [client.roles[r] for r in named if isinstance(r, str) and r in client.roles]
    return tuple(dict.fromkeys(read_grant(text) for text in known))


def _claim(claims: Mapping[str, JSON], name: str) -> JSON:
    """Find a claim by its whole name, which may contain dots, or else by a path."""
    if name in claims:
        return claims[name]
    value: JSON = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _moment(claims: Mapping[str, JSON], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            if isfinite(value):
                return float(value)
    raise refused(f"the ID token has no {name}")


def _optional(value: JSON) -> str | None:
    return value[:255] if isinstance(value, str) and value.isprintable() else None


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def need_tls(name: str, address: str) -> None:
    """Raise ``ConfigError`` unless the address is https, or http on loopback."""
    try:
        parts = urlsplit(address)
    except ValueError:
        raise ConfigError(f"{name} is not a URL: expected https://…") from None
    local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if not (parts.scheme == "https" and parts.hostname) and not local:
        raise ConfigError(f"{name} must begin with https:// (http on loopback alone)")


def refused(message: str) -> AccessError:
    return AccessError("oidc.refused", message, 401)


COOKIE = "noetl_oidc"
SECURE_COOKIE = "__Host-noetl_oidc"


class _Cookie(msgspec.Struct):
    pending: Pending
    place: str


def set_pending(
    pending: Pending | None, place: str, seconds: float, *, secure: bool
) -> str:
    """Return a Set-Cookie header; None as ``pending`` deletes the cookie.

    The cookie is SameSite=Lax, because the redirect from the provider must carry it.
    """
    name, text = SECURE_COOKIE if secure else COOKIE, ""
    if pending is not None:
        text = urlsafe_b64encode(msgspec.json.encode(_Cookie(pending, place))).decode()
    parts = [f"{name}={text.rstrip('=')}", "Path=/", f"Max-Age={int(seconds)}"]
    parts += ["HttpOnly", "SameSite=Lax"]
    return "; ".join([*parts, "Secure"] if secure else parts)


def read_pending(
    cookies: Sequence[str], *, secure: bool
) -> tuple[Pending | None, str | None]:
    """Return the sign-in and the page to open after it; None for an invalid cookie."""
    found = find_cookies(SECURE_COOKIE if secure else COOKIE, cookies)
    if len(found) != 1 or len(found[0]) > 4096:
        return None, None
    try:
        text = urlsafe_b64decode(found[0] + "=" * (-len(found[0]) % 4))
        kept = msgspec.json.decode(text, type=_Cookie)
    except ValueError:
        return None, None
    return kept.pending, kept.place
