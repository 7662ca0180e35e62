"""What a process is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.errors import ToolError
from noetl.types import JSON


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """``code``, or ``target``: a module and a function of it.

    ``environment`` has variables of this call alone; code that cannot see any has None.
    """

    args: Mapping[str, JSON]
    code: str | None = None
    target: tuple[str, str] | None = None
    environment: Mapping[str, str] | None = None

    def encode(self) -> bytes:
        """All but the code, which a process is told once; the end of a JSON list."""
        return msgspec.json.encode((self.args, self.environment, self.target))[1:]


class Fault(msgspec.Struct):
    kind: str
    message: str
    type: str | None = None
    line: int | None = None
    traceback: str | None = None
    exit_code: int | None = None


class Reply(msgspec.Struct):
    """``took`` are microseconds. Who ``printed`` waits until the worker has read it.

    A call is ``foreign`` to a shared process if it is not contained: it was not run.
    """

    number: int
    took: int
    result: JSON = None
    fault: Fault | None = None
    foreign: bool = False
    printed: bool = False
    spent: bool = False
    stdout: str = ""
    stderr: str = ""


class Ended(ToolError):
    """The call ended with its process; what it had printed is here."""

    stdout = ""
    stderr = ""
