"""Files of values that are still being written; whoever is killed leaves his."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from noetl.ports import Blob

ENDING = ".draft"


def remove_old(folder: str, before: float, dry_run: bool) -> Sequence[Blob]:
    """Those that nobody has written to since; what is no draft stays."""
    removed = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.endswith(ENDING):
                continue
            with suppress(FileNotFoundError):
                about = entry.stat(follow_symlinks=False)
                if about.st_mtime < before:
                    if not dry_run:
                        os.unlink(entry.path)
                    removed.append(Blob("", about.st_size, about.st_mtime))
    return removed
