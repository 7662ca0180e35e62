"""Rewrites the expected output of every bad playbook; read the difference after."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "golden"))

from test_playbooks import BAD, said  # noqa: E402

for path in BAD:
    path.with_suffix(".out").write_text(said(path))
sys.stdout.write(f"{len(BAD)} expected outputs written\n")
