"""Which variables of ours a process gets to see."""

from __future__ import annotations

import os
from collections.abc import Mapping

# An allow-list: a worker's environment holds credentials under names nobody can list.
_PASSED = {"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TZ", "USER"} | {
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
}
_PATH = "/usr/local/bin:/usr/bin:/bin"


def clean_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a program needs to find its way, and nothing that was meant for NoETL."""
    environ = os.environ if environ is None else environ
    passed = {
        name: value
        for name, value in environ.items()
        if name in _PASSED or name.startswith("LC_")
    }
    passed.setdefault("PATH", _PATH)
    return passed
