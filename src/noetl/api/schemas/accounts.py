"""Request and answer types of accounts, tokens and sessions."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from noetl.api.schemas.executions import Name, Strict

Password = Annotated[str, Meta(min_length=1, max_length=1024)]
Roles = Annotated[list[Name], Meta(max_length=100)]
Seconds = Annotated[int, Meta(ge=60, le=10 * 366 * 86400)]


class AddUser(Strict):
    """An account to create; without a password it uses tokens only."""

    name: Name
    roles: Roles
    password: Password | None = None
    email: Name | None = None
    display_name: Name | None = None


class SetRoles(Strict):
    roles: Roles


class SetPassword(Strict):
    """A null password removes it."""

    password: Password | None


class UserLine(msgspec.Struct):
    """An account; ``issuer`` is its OIDC provider, or null."""

    name: str
    user_id: str
    roles: list[str]
    email: str | None
    display_name: str | None
    disabled: bool
    has_password: bool
    issuer: str | None
    created_at: str


class UserList(msgspec.Struct):
    users: list[UserLine]


class Ended(msgspec.Struct):
    """The number of sessions that were ended."""

    ended: int


class AccountFilter(Strict):
    user: Name | None = None


class AddToken(Strict):
    """``scopes`` are written like roles; without them the token has all rights of its
    account."""

    user: Name
    label: Name
    scopes: Roles | None = None
    expires_in: Seconds | None = None


class TokenLine(msgspec.Struct):
    token_id: str
    user: str
    label: str
    scopes: list[str] | None
    created_at: str
    expires_at: str | None
    last_used_at: str | None


class NewToken(TokenLine):
    """A new token; ``token`` is shown once."""

    token: str


class TokenList(msgspec.Struct):
    tokens: list[TokenLine]


class SignIn(Strict):
    """Name and password, or the one-time ``code`` of an invitation."""

    name: Name | None = None
    password: Password | None = None
    code: Password | None = None


class CommandSignIn(msgspec.Struct):
    """A sign-in of a command that has begun.

    The user opens `verification_uri` and compares or enters `user_code` there;
    `verification_uri_complete` has the code. The command asks with `handle` every
    `interval` seconds, for `expires_in` seconds.
    """

    handle: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None
    expires_in: float
    interval: float


class FinishCommandSignIn(Strict):
    """``label`` says where the token will be kept: the name of the machine."""

    handle: Annotated[str, Meta(min_length=1, max_length=8192)]
    label: Annotated[str, Meta(min_length=1, max_length=200)]


class CommandSignInState(msgspec.Struct):
    """`pending`: ask again after the interval; `slow_down`: add 5 seconds to it."""

    state: str


class Invitation(msgspec.Struct):
    """A one-time code, and the page that signs in with it."""

    code: str
    expires_at: str
    url_path: str


class SessionLine(msgspec.Struct):
    session_id: str
    user: str
    roles: list[str]
    created_at: str
    expires_at: str
    last_activity_at: str
    client_ip: str | None


class SessionList(msgspec.Struct):
    sessions: list[SessionLine]


class HeldPermission(msgspec.Struct):
    """A permission and its ``places``: paths, prefixes (``sales/*``), or ``*``."""

    permission: str
    places: list[str]


class Whoami(msgspec.Struct):
    """The caller; ``scopes`` are those of its token, if it has some.

    ``permissions`` are those that the caller has anywhere; ``version`` and
    ``server_time`` are the server's.
    """

    user_id: str
    name: str
    roles: list[str]
    scopes: list[str] | None
    means: str
    permissions: list[HeldPermission]
    version: str
    server_time: str
