"""What a cloud's store says, in our words: its own may quote a credential."""

from __future__ import annotations

import re

from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

from noetl.errors import StoreError

_STATUS = re.compile(r"\bstatus[: ]+(?:code[: ]+)?([1-5]\d\d)\b", re.IGNORECASE)
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_CREDENTIAL = re.compile(r"credential|metadata endpoint|token", re.IGNORECASE)
_UNREACHABLE = re.compile(
    r"error sending request|connect|dns|timed out|retries", re.IGNORECASE
)
_REFUSED = frozenset({"401", "403"})


def translate(error: Exception, place: str, what: str) -> StoreError:
    """``place`` has no credential in it; of the error's text only words we know."""
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    named = code[1] if code else f"status {status[1]}" if status else ""
    said = f" ({named})" if named else ""
    start = f"{place}: {what}"
    if (
        isinstance(error, PermissionDeniedError | UnauthenticatedError)
        or (status and status[1] in _REFUSED)
        or (not status and _CREDENTIAL.search(text))
    ):
        message = f"{start}: the store refuses the credential, or there is none{said}"
        return StoreError(message, "store.denied")
    if said:
        message = f"{start}: the store answers with an error{said}"
        return StoreError(message, "store.io")
    if _UNREACHABLE.search(text):
        message = f"{start}: the store cannot be reached"
        return StoreError(message, "store.unreachable")
    return StoreError(f"{start}: {type(error).__name__}", "store.io")
