"""How a process ended, in words."""

from __future__ import annotations

import signal

from noetl.types import JSON

_SHELL = 128  # what a shell adds to the number of a signal


def describe_exit(status: int) -> str:
    """``the process ended with exit code 3``, or the signal by name."""
    if status >= 0:
        return f"the process ended with exit code {status}"
    return f"the process was ended by {signal_name(-status)}"


def exit_details(status: int) -> dict[str, JSON]:
    """``exit_code`` as a shell gives it, and the ``signal`` if it was one."""
    if status >= 0:
        return {"exit_code": status}
    return {"exit_code": _SHELL - status, "signal": signal_name(-status)}


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
