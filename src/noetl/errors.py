"""Errors that NoETL raises on purpose.

NoetlError
├── ConfigError           a setting or an argument is missing or malformed
├── StoreError            a store failed, or cannot be opened
│   ├── LogConflict       another process appended first: reload and decide again
│   ├── LeaseLost         this worker no longer owns the run: stop, report nothing
│   ├── PayloadTooLarge   a report has a large value instead of a reference to it
│   ├── RequestKnown      the request was answered before: its execution exists
│   ├── NoPlace           the limit of a concurrency key is reached
│   ├── VersionTaken      another playbook is registered under this path and version
│   ├── BlobGone          a referenced value no longer exists
│   ├── BlobFormat        a reference leads to a file instead of a value
│   └── BlobCorrupt       a referenced value differs from the stored one
├── ToolError             a tool call failed: becomes outcome.error, never a crash
│   └── SecretError       a task or the keychain cannot get a secret
├── Refused               a server refused the request; has a stable kind
├── SignalRefused         no task waits for the signal, or its data does not fit
├── ForgedReference       a value from outside claims to be a stored one
│   └── ForgedHandle      a value from outside claims to be a secret
├── Unreachable           a server does not answer: the result of the call is unknown
│   └── Defective         the server answered with status 500
├── AccessError           a caller is unknown, or lacks the right for the request
├── KeychainError         entries of a keychain cannot be resolved: nothing is started
└── TemplateError         a template cannot be compiled or evaluated; has a stable kind

Unloaded                  not an error: an evaluation needs a value that is not loaded
"""

from __future__ import annotations

from noetl.types import JSON


class NoetlError(Exception):
    """The base class of all errors that NoETL raises on purpose."""


class ConfigError(NoetlError):
    """A setting or an argument is missing or malformed."""


class StoreError(NoetlError):
    """A store failed, or cannot be opened; ``kind`` is stable and documented."""

    kind = "store.error"

    def __init__(self, message: str, kind: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind or type(self).kind


class LogConflict(StoreError):
    kind = "store.conflict"


class LeaseLost(StoreError):
    kind = "lease.lost"


class LeaseNotOwned(StoreError):
    """The lease was never given to the worker that names it."""

    kind = "lease.not_owner"


class ProtocolError(NoetlError):
    """A server does not serve workers of this version of the protocol."""

    kind = "worker.version"


class RequestKnown(StoreError):
    kind = "request.known"


class NoPlace(StoreError):
    """The limit of a concurrency key is reached, and nothing was stored."""

    kind = "place.taken"


class VersionTaken(StoreError):
    kind = "catalog.version_taken"


class SetAside(StoreError):
    """The execution is in quarantine: nothing is recorded until its release."""

    kind = "execution.quarantined"


class BlobGone(StoreError):
    kind = "ref.gone"


class BlobCorrupt(StoreError):
    kind = "ref.corrupt"


class BlobFormat(StoreError):
    kind = "ref.format"


class BlobNotOwned(StoreError):
    """A reference to a value of another execution, or a forged one."""

    kind = "ref.not_owner"


class PayloadTooLarge(StoreError):
    """A worker's report is larger than an event may be; it is refused."""

    kind = "event.too_large"


class ToolError(NoetlError):
    """A tool call failed in a way its caller can reason about.

    ``kind`` is API: playbooks match on it. ``helper`` are members of the kind's
    helper object, e.g. ``status`` of ``outcome.http``.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        retryable: bool = False,
        details: dict[str, JSON] | None = None,
        **helper: JSON,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retryable = retryable
        self.details = details or {}
        self.helper = helper


class SecretError(ToolError):
    """A secret is not available. ``kind`` is ``secret.missing``, ``secret.denied``,
    ``secret.unreachable``, ``secret.wrong``, ``secret.extra`` or ``secret.sealed``; or
    ``keychain.unresolved`` if an admin must declare it first."""


class Refused(NoetlError):
    """A server refused the request; ``kind`` is the reason."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class ForgedReference(NoetlError):
    """A value from outside claims to be a stored one; ``path`` is its place."""

    kind = "ref.not_owner"

    def __init__(self, path: str) -> None:
        self.path = path
        self.message = (
            f"{path} claims to be a reference to a stored value (store: noetl), and "
            "only NoETL makes those; send the value itself, or give the member 'store' "
            "another name or value"
        )
        super().__init__(f"{self.kind}: {self.message}")


class ForgedHandle(ForgedReference):
    """A value from outside claims to be a secret that a task has fetched."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.message = (
            f"{path} claims to be the handle of a secret ({{secret: …}}), and only "
            "NoETL makes those; give the member 'secret' another name, or a second "
            "member beside it"
        )
        self.args = (f"{self.kind}: {self.message}",)


class SignalRefused(NoetlError):
    """A signal that is not recorded. ``kind`` is ``signal.unknown`` (no task waits for
    it), ``signal.invalid`` (its data does not fit; ``problems`` lists why) or
    ``auth.role`` (its sender lacks the role). ``waits`` are the execution's waits."""

    def __init__(
        self,
        kind: str,
        message: str,
        waits: list[dict[str, JSON]],
        problems: list[str] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.waits = waits
        self.problems = problems


class Unreachable(NoetlError):
    """The server does not answer: the result of the call is unknown."""


class Defective(Unreachable):
    """The server answered with status 500, an internal error."""


class AccessError(NoetlError):
    """A caller is refused. The message contains no credential.

    ``kind`` is stable and documented, ``status`` is the HTTP status, and
    ``retry_after`` is in seconds, if waiting helps.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        status: int = 403,
        *,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.retry_after = retry_after


class KeychainError(NoetlError):
    """Entries of a keychain cannot be resolved; ``error`` is recorded in the log."""

    def __init__(self, error: dict[str, JSON]) -> None:
        super().__init__(error["message"])
        self.error = error


class TemplateError(NoetlError):
    """A template failed in a way its author can act on.

    ``kind`` is one of ``template.error``, ``template.undefined``,
    ``template.budget`` and ``template.forbidden``: playbooks match on it. ``place`` is
    its line and column in the playbook, if the caller of the template knows it.
    """

    def __init__(self, kind: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.place: tuple[int, int] | None = None

    def details(self) -> dict[str, JSON]:
        """Return place and hint for the details of an error."""
        details: dict[str, JSON] = {}
        if self.place is not None:
            details["place"] = {"line": self.place[0], "column": self.place[1]}
        if self.hint is not None:
            details["hint"] = self.hint
        return details


class Unloaded(BaseException):
    """An evaluation touched values that are not loaded: load them, and try again.

    It is not an ``Exception``, so that handlers of errors do not catch it.
    """

    def __init__(self, references: list[dict[str, JSON]]) -> None:
        super().__init__(f"{len(references)} values are needed")
        self.references = references
