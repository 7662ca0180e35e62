"""Sign-in of a command on a machine without a browser: RFC 8628, without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from noetl.access.oidc import need_tls, refused
from noetl.errors import AccessError, ConfigError
from noetl.types import JSON

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
MAX_S = 1800.0
"""Seconds within which such a sign-in must be completed, at most."""
MAX_INTERVAL_S = 60.0

Waiting = Literal["pending", "slow_down"]
"""The user has not decided yet; ``slow_down``: ask less often from now on."""


class DeviceCode(msgspec.Struct, frozen=True):
    """A sign-in that has begun at the provider.

    The user opens ``verification_uri`` in any browser, and enters or compares
    ``user_code`` there. ``device_code`` is a secret of the server.
    """

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: float
    verification_uri_complete: str | None = None
    interval: float = 5.0

    def __repr__(self) -> str:
        return "DeviceCode(…)"


def read_device_code(status: int, answer: JSON, issuer: str) -> DeviceCode:
    """Return the provider's answer. Raises ``AccessError``."""
    if status != 200:
        raise refused(
            f"{issuer} began no sign-in of a command ({_said(answer, status)})"
        )
    try:
        found = msgspec.convert(answer, DeviceCode, strict=False)
        for uri in (found.verification_uri, found.verification_uri_complete):
            if uri is not None:
                need_tls("verification_uri", uri)
                _check_text(uri, 2048)
        _check_text(found.user_code, 64)
        if not found.device_code or not found.expires_in > 0:
            raise ValueError("no code")
    except (msgspec.ValidationError, ConfigError, ValueError):
        message = f"{issuer} began no sign-in of a command: its answer is not valid"
        raise refused(message) from None
    return msgspec.structs.replace(
        found,
        expires_in=min(found.expires_in, MAX_S),
        interval=min(max(found.interval, 1.0), MAX_INTERVAL_S),
    )


class IdToken(msgspec.Struct, frozen=True):
    """An ID token that is not verified yet."""

    text: str

    def __repr__(self) -> str:
        return "IdToken(…)"


def read_device_answer(status: int, answer: JSON) -> IdToken | Waiting:
    """Return the ID token, or that the user has not decided. Raises ``AccessError``."""
    if status == 200 and isinstance(answer, Mapping):
        token = answer.get("id_token")
        if isinstance(token, str) and token:
            return IdToken(token)
        raise refused("the provider returned no ID token: is its scope openid allowed?")
    error = answer.get("error") if isinstance(answer, Mapping) else None
    if error == "authorization_pending":
        return "pending"
    if error == "slow_down":
        return "slow_down"
    if error == "access_denied":
        raise refused("the sign-in was refused at the provider")
    if error == "expired_token":
        raise refused("the sign-in took too long: begin it again")
    raise refused(f"the provider answered with {_said(answer, status)}")


def no_device_flow(issuer: str) -> AccessError:
    message = f"{issuer} has no sign-in for commands (no device authorization endpoint)"
    return AccessError("oidc.no_device", message, 404)


def _check_text(text: str, most: int) -> None:
    if not 0 < len(text) <= most or not text.isascii() or not text.isprintable():
        raise ValueError("not printable")


def _said(answer: JSON, status: int) -> str:
    code = answer.get("error") if isinstance(answer, Mapping) else None
    if isinstance(code, str) and code.isascii() and code.isidentifier():
        return f"{code:.60}"
    return str(status)
