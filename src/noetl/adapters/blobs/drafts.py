"""Files of values that are still being written; whoever is killed leaves his."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from noetl.ports import Blob

ENDING = ".draft"


def new_draft(folder: str) -> str:
    """The path of a file that is not there yet; its folder is."""
    os.makedirs(folder, 0o700, exist_ok=True)
    return os.path.join(folder, f"{secrets.token_hex(16)}{ENDING}")


@asynccontextmanager
async def copy_of(parts: AsyncIterator[bytes], folder: str) -> AsyncIterator[str]:
    """A file of what comes in parts, for a while."""
    name = await asyncio.to_thread(new_draft, folder)
    try:
        with await asyncio.to_thread(open, name, "xb") as copy:
            async for part in parts:
                await asyncio.to_thread(copy.write, part)
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


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
