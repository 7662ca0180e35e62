"""What requests and answers about accounts, tokens and sessions hold."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from noetl.api.shapes import Name, Strict

Password = Annotated[str, Meta(min_length=1, max_length=1024)]
Roles = Annotated[list[Name], Meta(max_length=100)]
Seconds = Annotated[int, Meta(ge=60, le=10 * 366 * 86400)]


class AddUser(Strict):
    """An account without a password comes with tokens alone."""

    name: Name
    roles: Roles
    password: Password | None = None
    email: Name | None = None
    display_name: Name | None = None


class SetRoles(Strict):
    roles: Roles


class SetPassword(Strict):
    """None takes it away."""

    password: Password | None


class UserLine(msgspec.Struct):
    """``issuer`` is the OIDC provider by which they sign in, if they do."""

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
    """How many sessions there were."""

    ended: int


class OfUser(Strict):
    user: Name | None = None


class AddToken(Strict):
    """``scopes`` are written like roles; without them it may what its account may."""

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
    """``token`` is shown this once."""

    token: str


class TokenList(msgspec.Struct):
    tokens: list[TokenLine]


class SignIn(Strict):
    name: Name
    password: Password


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


class Whoami(msgspec.Struct):
    """Who asks: ``scopes`` are those of the token, if it has some."""

    user_id: str
    name: str
    roles: list[str]
    scopes: list[str] | None
    means: str
