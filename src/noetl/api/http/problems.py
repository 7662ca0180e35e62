"""Problem documents (RFC 9457): every refusal has a kind, a message and a hint."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec

from noetl.errors import (
    AccessError,
    BlobCorrupt,
    BlobFormat,
    BlobGone,
    BlobNotOwned,
    ForgedReference,
    NoetlError,
    PayloadTooLarge,
    SecretError,
    SetAside,
    StoreError,
)
from noetl.service.errors import RequestRefused
from noetl.types import JSON

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """A refusal; ``more`` are members besides the standard ones."""

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        hint: str | None = None,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, JSON] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.status = status or STATUSES[kind]
        self.headers = dict(headers or {})
        self.more = dict(more or {})

    def body(self) -> bytes:
        return msgspec.json.encode(
            {
                "type": f"urn:noetl:problem:{self.kind}",
                "title": HTTPStatus(self.status).phrase,
                "status": self.status,
                "detail": self.message,
                "kind": self.kind,
                "message": self.message,
                "hint": self.hint,
                **self.more,
            }
        )


class ProblemDocument(msgspec.Struct):
    """Why a request was refused; further members are possible."""

    type: str
    title: str
    status: int
    detail: str
    kind: str
    message: str
    hint: str | None


STATUSES: Mapping[str, int] = {
    "account.exists": 409,
    "account.name": 422,
    "account.password": 422,
    "again.impossible": 409,
    "account.role": 422,
    "account.unknown": 404,
    "answer.invalid": 422,
    "answer.off": 404,
    "answer.over": 409,
    "auth.failed": 401,
    "auth.required": 401,
    "auth.role": 403,
    "auth.too_many": 429,
    "backfill.range": 422,
    "backfill.state": 409,
    "backfill.unknown": 404,
    "catalog.version_taken": 409,
    "concurrency.key": 422,
    "concurrency.taken": 409,
    "event.not_allowed": 403,
    "event.too_large": 413,
    "execution.quarantined": 409,
    "execution.state": 409,
    "execution.unknown": 404,
    "fork.impossible": 409,
    "retention.busy": 409,
    "host.not_allowed": 403,
    "inputs.invalid": 422,
    "internal": 500,
    "json.invalid": 400,
    "keychain.one_key": 409,
    "keychain.rotating": 409,
    "keychain.taken": 409,
    "keychain.unknown": 404,
    "keychain.unresolved": 422,
    "lease.lost": 409,
    "lease.not_owner": 403,
    "oidc.no_device": 404,
    "oidc.off": 404,
    "oidc.refused": 401,
    "oidc.unreachable": 503,
    "outcome.shape": 422,
    "playbook.forbidden": 403,
    "playbook.invalid": 422,
    "playbook.not_found": 404,
    "query.invalid": 422,
    "quota.executions": 429,
    "ref.corrupt": 503,
    "ref.format": 422,
    "ref.gone": 503,
    "ref.not_found": 404,
    "ref.not_owner": 422,
    "ref.range": 422,
    "ref.rows": 422,
    "request.aborted": 400,
    "request.content_type": 415,
    "request.invalid": 422,
    "request.key_reused": 409,
    "request.rate": 429,
    "request.timeout": 408,
    "request.too_large": 413,
    "request.unknown_field": 422,
    "route.method": 405,
    "route.unknown": 404,
    "run.unknown": 404,
    "secret.denied": 422,
    "secret.missing": 422,
    "secret.unreachable": 422,
    "secret.wrong": 422,
    "server.busy": 503,
    "session.store_down": 401,
    "session.unknown": 404,
    "signal.invalid": 422,
    "signal.unknown": 409,
    "store.unavailable": 503,
    "trigger.exists": 409,
    "trigger.inputs": 422,
    "trigger.invalid": 422,
    "trigger.kind": 409,
    "trigger.loop": 409,
    "trigger.paused": 409,
    "trigger.unknown": 404,
    "worker.version": 409,
}
"""HTTP statuses of the kinds that the API itself raises."""


def problem_of(error: Exception) -> Problem | None:
    """Convert an expected error to its answer; None for a defect."""
    match error:
        case Problem():
            return error
        case RequestRefused():
            return Problem(error.kind, error.message, hint=error.hint, more=error.more)
        case AccessError():
            return _access(error)
        case ForgedReference():
            return Problem(error.kind, error.message, more={"path": error.path})
        case BlobNotOwned():
            return Problem(error.kind, str(error), status=HTTPStatus.FORBIDDEN)
        case BlobGone() | BlobCorrupt() | BlobFormat():
            return Problem(error.kind, str(error))
        case PayloadTooLarge():
            return Problem(error.kind, str(error))
        case SecretError():
            return Problem("store.unavailable", error.message)
        case StoreError(kind="ref.range"):
            return Problem("ref.range", str(error).removeprefix("ref.range: "))
        case SetAside():
            hint = "run noetl resume to continue it"
            return Problem(error.kind, str(error), hint=hint)
        case StoreError():
            hint = "try again; earlier answers are stored"
            if error.kind == "store.full":
                hint = f"make room on the disk of the store, then {hint}"
            headers = {"Retry-After": "2"}
            more = {"store": error.kind}
            return Problem(
                "store.unavailable", str(error), hint=hint, headers=headers, more=more
            )
        case NoetlError():
            return Problem("request.invalid", str(error))
        case _:
            return None


def _access(error: AccessError) -> Problem:
    headers = {}
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="noetl"'
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    return Problem(error.kind, error.message, status=error.status, headers=headers)
