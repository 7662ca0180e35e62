"""Everything NoETL raises on purpose.

NoetlError
├── ConfigError           a setting or an argument is missing or malformed
├── StoreError            a store misbehaved, or cannot be opened
│   ├── LogConflict       somebody appended first: reload and decide again
│   ├── LeaseLost         this worker no longer owns the run: stop, report nothing
│   ├── PayloadTooLarge   a report holds a large value, and not a reference to it
│   ├── RequestKnown      the request was answered before: there is an execution
│   ├── NoPlace           as many executions of a concurrency key as may be under way
│   ├── VersionTaken      another playbook is registered under this path and version
│   ├── BlobGone          a referenced value is not there any more
│   ├── BlobFormat        a reference leads to a file, and not to a value
│   └── BlobCorrupt       a referenced value is not what was stored
├── ToolError             a tool call failed: becomes outcome.error, never a crash
│   └── SecretError       a secret cannot be had, by a task or for the keychain
├── Refused               a server's answer is no; has a stable kind
├── SignalRefused         nobody waits for the signal, or not for this one
├── ForgedReference       a value from outside claims to be a stored one
│   └── ForgedHandle      … or a secret
├── Unreachable           a server does not answer: nobody knows what became of it
│   └── Defective         it answered with status 500
├── AccessError           somebody is not known, or may not do what they ask for
├── KeychainError         entries of a keychain cannot be resolved: nothing is started
└── TemplateError         a template cannot be compiled or evaluated; has a stable kind

Unloaded                  no error: a value is needed that is stored elsewhere
"""

from __future__ import annotations

from noetl.types import JSON


class NoetlError(Exception):
    """The root: whoever catches it catches only what NoETL meant to say."""


class ConfigError(NoetlError):
    """A setting or an argument is missing or malformed."""


class StoreError(NoetlError):
    """A store misbehaved, or cannot be opened; ``kind`` is stable and documented."""

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
    """A worker of another version asks."""

    kind = "worker.version"


class RequestKnown(StoreError):
    kind = "request.known"


class NoPlace(StoreError):
    """Nothing was stored: the execution may wait for a place, or be refused."""

    kind = "place.taken"


class VersionTaken(StoreError):
    kind = "catalog.version_taken"


class SetAside(StoreError):
    """Nothing is recorded of an execution in quarantine until it is taken back."""

    kind = "execution.quarantined"


class BlobGone(StoreError):
    kind = "ref.gone"


class BlobCorrupt(StoreError):
    kind = "ref.corrupt"


class BlobFormat(StoreError):
    kind = "ref.format"


class BlobNotOwned(StoreError):
    """A reference to what another execution has stored, or a forged one."""

    kind = "ref.not_owner"


class PayloadTooLarge(StoreError):
    """A worker reports more than an event may hold: refused, and nothing changes."""

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
    """A secret cannot be had. ``kind`` is ``secret.missing``, ``secret.denied``,
    ``secret.unreachable``, ``secret.wrong``, ``secret.extra`` or ``secret.sealed``; or
    ``keychain.unresolved`` where an admin must declare it first."""


class Refused(NoetlError):
    """A server's answer is no; ``kind`` says why."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class ForgedReference(NoetlError):
    """A value from outside that claims to be a stored one; ``path`` says where."""

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
    """A value from outside that claims to be a secret which a task has fetched."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.message = (
            f"{path} claims to be the handle of a secret ({{secret: …}}), and only "
            "NoETL makes those; give the member 'secret' another name, or a second "
            "member beside it"
        )
        self.args = (f"{self.kind}: {self.message}",)


class SignalRefused(NoetlError):
    """A signal that is not recorded. ``kind`` is ``signal.unknown`` (nobody waits for
    it), ``signal.invalid`` (its data do not fit; ``problems`` lists why) or
    ``auth.role`` (its sender may not). ``waits`` is what the execution waits for."""

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
    """The server does not answer: nobody knows what became of the call."""


class Defective(Unreachable):
    """The server answered that it met a defect of its own (status 500)."""


class AccessError(NoetlError):
    """Somebody is refused. No credential is in the message.

    ``kind`` is stable and documented, ``status`` is what HTTP has for it, and
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
    """Entries of a keychain cannot be resolved; ``error`` is what the log will say."""

    def __init__(self, error: dict[str, JSON]) -> None:
        super().__init__(error["message"])
        self.error = error


class TemplateError(NoetlError):
    """A template failed in a way its author can act on.

    ``kind`` is one of ``template.error``, ``template.undefined``,
    ``template.budget`` and ``template.forbidden``: playbooks match on it.
    """

    def __init__(self, kind: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint


class Unloaded(BaseException):
    """An evaluation touched values that its host has not loaded: load, and try again.

    It is a question, so no handler of errors may take it for one.
    """

    def __init__(self, references: list[dict[str, JSON]]) -> None:
        super().__init__(f"{len(references)} values are needed")
        self.references = references
