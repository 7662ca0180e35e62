"""Files that a call may read: regular ones below the allowed folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import BinaryIO

from noetl.errors import ToolError


def open_below(roots: Sequence[str], path: str, where: str) -> BinaryIO:
    """Relative to the first root. Raises ``ToolError``; no message shows a root."""
    if "\0" in path:
        raise ToolError("tool.contract", f"{where} has a NUL character")
    folders = [os.path.realpath(root) for root in roots]
    file = os.path.realpath(os.path.join(folders[0], path))
    if not any(os.path.commonpath((root, file)) == root for root in folders):
        message = f"{where} is neither below the playbook's folder nor the current one"
        raise ToolError("tool.contract", message)
    try:
        # Not blocking: a pipe without a writer must not hold the worker.
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        raise ToolError("tool.contract", f"{where}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise ToolError("tool.contract", f"{where} is no regular file")
    return os.fdopen(opened, "rb")
