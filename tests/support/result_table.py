"""The table of a page that long campaigns write their results into, a row each."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "reliability-storage.md"
HEAD = "| campaign | date | commit | cases | wrong | what it saw |"


def write_row(name: str, cases: int, wrong: int, seen: str, page: Path = PAGE) -> str:
    """Replace the row of a campaign, or add it below the others; return it."""
    git = ("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout
    day = time.strftime("%Y-%m-%d")
    row = f"| {name} | {day} | {commit.strip()} | {cases:,} | {wrong:,} | {seen} |"
    lines = page.read_text(encoding="utf-8").splitlines()
    place = lines.index(HEAD) + 2
    while place < len(lines) and lines[place].startswith("| "):
        if lines[place].startswith(f"| {name} |"):
            del lines[place]
            break
        place += 1
    lines.insert(place, row)
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return row
