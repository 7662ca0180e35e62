"""Upgrades a cluster of an earlier version under load, part by part.

    python scripts/upgrade_run.py [--from COMMIT] [--pause SECONDS]

``make upgrade-test`` calls it. The earlier version is COMMIT of this repository, by
default the newest release, or else the commit that pinned the worker protocol. It runs
with the installed packages. Exits with 1 if anything was lost or done twice.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from faults.upgrade import run  # noqa: E402

PINNED = "tests/unit/runtime/worker_protocol.json"


def git(*args: str) -> bytes:
    done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True)
    if done.returncode:
        raise SystemExit(f"noetl: {done.stderr.decode().strip()}")
    return done.stdout


def find_earlier() -> str:
    if git("rev-parse", "--is-shallow-repository").strip() == b"true":
        raise SystemExit(
            "noetl: this checkout has no history, and so no earlier version: "
            "fetch it (git fetch --unshallow), or name a commit with --from"
        )
    tags = git("tag", "--list", "v*", "--sort=-v:refname").decode().split()
    if tags:
        return tags[0]
    made = git("log", "--diff-filter=A", "--format=%H", "--", PINNED).decode().split()
    if not made:
        raise SystemExit(f"noetl: {PINNED} is in no commit; use --from")
    return made[-1]


def main() -> None:
    reading = argparse.ArgumentParser(description=__doc__)
    reading.add_argument("--from", dest="commit")
    reading.add_argument("--pause", type=float, default=4.0)
    asked = reading.parse_args()
    commit = asked.commit or find_earlier()
    with tempfile.TemporaryDirectory(prefix="noetl-upgrade-") as folder:
        Path(folder).chmod(0o755)
        older = Path(folder) / "older"
        with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "src"))) as code:
            code.extractall(older, filter="data")
        print(f"from {commit}")
        home = Path(folder) / "home"
        report = run(older / "src", home, pause=asked.pause, say=print)
    print(
        f"{report.executions} executions in {report.seconds:.0f} s while "
        f"{', '.join(report.replaced)} were replaced; a server answered after at most "
        f"{report.away:.1f} s"
    )
    for each in [*report.exits, *report.wrong]:
        print(f"wrong: {each}")
    if report.exits or report.wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
