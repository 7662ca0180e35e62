"""Kinds with which a request is refused."""

from __future__ import annotations

from noetl.engine.error_kinds.kind import ErrorKind

ACCESS = {
    "auth.required": ErrorKind(
        "No credential came along, or none that is valid: unknown, expired, revoked.",
        "Send `Authorization: Bearer ntl_…`, or sign in.",
    ),
    "auth.failed": ErrorKind(
        "The name or the password is wrong, or the account is disabled or has just "
        "been changed.",
        "Try again; an admin can set another password.",
    ),
    "auth.too_many": ErrorKind(
        "Too many attempts to sign in, of one address.",
        "Wait as long as the message says.",
    ),
    "oidc.off": ErrorKind(
        "The server has no OpenID Connect provider.",
        "Sign in by password, or set `oidc_issuer` and what goes with it.",
    ),
    "oidc.refused": ErrorKind(
        "The OIDC provider refused, or what it answered is not to be trusted.",
        "Begin the sign-in again; compare client, issuer and clocks.",
    ),
    "oidc.unreachable": ErrorKind(
        "The OIDC provider does not answer, or not as it should.",
        "Try again later; check the issuer's address.",
    ),
    "auth.role": ErrorKind(
        "The account, or the scopes of its token, do not permit it.",
        "Ask an admin for the role; the message names the permission.",
    ),
    "host.not_allowed": ErrorKind(
        "A request names a host that this server is not, or comes from a page of "
        "another origin.",
        "Use one of the server's names, or add yours to them.",
    ),
    "session.store_down": ErrorKind(
        "Sessions cannot be checked, for their store does not answer: nobody is "
        "signed in.",
        "Bring NATS back; meanwhile use an API token.",
    ),
    "session.unknown": ErrorKind(
        "There is no such session, or it is not yours to end.",
        "`noetl session list` shows those that are.",
    ),
    "session.unreadable": ErrorKind(
        "A stored session is not one of NoETL.", "Sign in again."
    ),
    "account.name": ErrorKind(
        "A text cannot be the name of an account.", "Use letters, digits and `._-+@`."
    ),
    "account.password": ErrorKind(
        "A new password is too easily guessed.",
        "Take a longer one: a sentence will do.",
    ),
    "account.exists": ErrorKind(
        "Another account has that name, or is that person for the OIDC provider.",
        "Take another name, or change the account that is there.",
    ),
    "account.unknown": ErrorKind(
        "There is no such account, or no such token.", "List them."
    ),
    "account.role": ErrorKind(
        "There is no such role, or not at such a place.",
        "Write `viewer`, `operator:finance/*` or `worker:gpu`.",
    ),
}
