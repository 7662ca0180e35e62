"""Where a file lives: SQLite needs locks and memory that a network cannot give."""

from __future__ import annotations

import re
from pathlib import Path

from noetl.errors import StoreError

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = re.compile(
    r"(nfs\d?|cifs|smb\d?|smbfs|ncpfs|afs|ceph|lustre|gpfs|beegfs|glusterfs)"
    r"|fuse\.(sshfs|glusterfs|ceph.*|s3fs|rclone|smb.*|juicefs|gcsfuse|davfs.*)"
)
_ESCAPE = re.compile(r"\\(\d{3})")


def refuse_network(path: Path) -> None:
    """Raise if the file would be on a network file system; best effort."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return  # no Linux, or no /proc: nothing is known, so nothing is refused
    kind = filesystem_of(path, mounts)
    if kind is not None and _NETWORK.fullmatch(kind):
        raise StoreError(
            f"{path} is on a network file system ({kind}); "
            "a store must be on a local disk",
            "store.network_fs",
        )


def filesystem_of(path: Path, mounts: str) -> str | None:
    """The type of the innermost mount over an absolute path."""
    found, depth = None, -1
    for line in mounts.splitlines():
        left, separator, right = line.partition(" - ")
        if not separator:
            continue
        point = Path(_ESCAPE.sub(lambda m: chr(int(m[1], 8)), left.split()[4]))
        # Later lines are mounted over earlier ones at the same place.
        if path.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = right.split()[0], len(point.parts)
    return found
