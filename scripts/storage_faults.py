"""Makes every call to the disk fail, and cuts PostgreSQL at every protocol message.

    python scripts/storage_faults.py [calls] [connections]

Without names it does both. The cases of the tests are samples of these. Each campaign
writes its row of the results; one that finds an error ends with exit code 1.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).parents[1]
SUPPORT = ROOT / "tests" / "support"
sys.path.insert(0, str(SUPPORT))

from crash.cut_connections import run_cases  # noqa: E402
from crash.shim import environment  # noqa: E402
from result_table import write_row  # noqa: E402

PASSWORD = "campaign"


def break_calls(folder: Path) -> dict[str, Any]:
    (folder / "root").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "crash.failing", str(folder), "0", "0"],
        env={**environment(folder / "root"), "PYTHONPATH": str(SUPPORT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def cut_connections() -> dict[str, Any]:
    with subprocess.Popen(
        [sys.executable, "-I", str(SUPPORT / "peers" / "postgres.py")],
        env={**os.environ, "PGPASSWORD": PASSWORD},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as peer:
        assert peer.stdout is not None
        port = int(peer.stdout.readline())
        user = f"postgres:{quote(PASSWORD)}"
        address = f"postgresql://{user}@127.0.0.1:{port}/postgres"
        found = asyncio.run(run_cases(address, 0, 0))
        peer.communicate()
    return found


def main() -> None:
    asked = sys.argv[1:] or ["calls", "connections"]
    broken = False
    if "calls" in asked:
        with tempfile.TemporaryDirectory() as folder:
            found = break_calls(Path(folder))
        calls = ", ".join(f"{n:,} {name}" for name, n in found["calls"].items())
        ends = sum(n for code, n in found["codes"].items() if code.endswith("code 0"))
        seen = f"calls of one run: {calls}; {ends:,} runs completed all the same"
        broken = report("failing calls", found, seen)
    if "connections" in asked:
        found = cut_connections()
        seen = f"{found['messages']:,} messages, each cut before and after it arrives"
        broken = report("cut connections", found, seen) or broken
    sys.exit(1 if broken else 0)


def report(name: str, found: dict[str, Any], seen: str) -> bool:
    """Print and write the result; return whether something is wrong."""
    wrong = found["wrong"]
    print("\n".join(wrong[:20]))
    print(write_row(name, found["cases"], len(wrong), seen))
    return bool(wrong)


if __name__ == "__main__":
    main()
