"""Rewrites the expected output of tests; review the difference afterwards.

It covers the output of every bad playbook and of every failing playbook test, and the
transcripts of the pages.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT / "tests" / name) for name in ("golden", "docs", "support")]

from demo_api import DemoApi  # noqa: E402
from test_failures import FAILING  # noqa: E402
from test_failures import said as said_of_test  # noqa: E402
from test_playbooks import BAD, said  # noqa: E402
from test_transcripts import PAGES  # noqa: E402
from transcripts import renew  # noqa: E402

for path in BAD:
    path.with_suffix(".out").write_text(said(path))
for path in FAILING:
    path.with_suffix(".out").write_text(said_of_test(path))
for name in PAGES:
    page, api = ROOT / name, DemoApi()
    with tempfile.TemporaryDirectory() as folder:
        page.write_text(renew(page.read_text(), Path(folder), api))
    api.stop()
sys.stdout.write(f"{len(BAD)} expected outputs written, {len(PAGES)} pages renewed\n")
