"""References as people write them: a key, and perhaps a range of its bytes."""

from __future__ import annotations

import re

import msgspec

from noetl.errors import StoreError

_REF = re.compile(r"(?:sha256:)?(?P<key>[0-9a-f]{64})(?::(?P<range>.*))?", re.DOTALL)
_RANGE = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")
_EXECUTION = re.compile(r"[0-9A-Za-z-]{1,63}")


class Ref(msgspec.Struct, frozen=True):
    """``range`` is as it was written: ``FIRST-LAST``, both counted from 0 and in it."""

    key: str
    range: str | None = None

    def span(self, size: int) -> tuple[int, int]:
        """Where it begins, and how many bytes it has. Raises ``StoreError``."""
        if self.range is None:
            return 0, size
        found = _RANGE.fullmatch(self.range)
        first, last = (int(found[1]), int(found[2])) if found else (1, 0)
        if first > last or last >= size:
            shown = self.range[:40]
            message = (
                f"ref.range: '{shown}' is no range of {size:,} bytes; write "
                f"KEY:FIRST-LAST, from 0-0 to 0-{max(size - 1, 0)}"
            )
            raise StoreError(message, "ref.range")
        return first, last - first + 1


def read_ref(text: str) -> Ref | None:
    """The reference; None for what may be an execution. Raises ``StoreError``."""
    found = _REF.fullmatch(text)
    if found is not None:
        return Ref(found["key"], found["range"])
    if _EXECUTION.fullmatch(text):
        return None
    raise not_found(text)


def not_found(text: str) -> StoreError:
    message = (
        f"ref.not_found: {text[:80]!r} is no result; noetl result ls ID lists those of "
        "an execution"
    )
    return StoreError(message, "ref.not_found")
