"""Judges images of crashes at length, in parts that can be interrupted.

    python scripts/crash_images.py [--count 100000] [--seed N] [--keep FOLDER]

Each part records the reference workload anew and judges images of every moment of it.
``FOLDER`` (default ``crash-images``) holds the sums of finished parts: the next call
goes on there. At the end the row of the results is written. A bad image ends the
campaign with exit code 1; its recording stays in ``FOLDER``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

import msgspec

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from crash.images import Recording, Tally, judge_images  # noqa: E402
from result_table import write_row  # noqa: E402

REPEATS = 3
"""Images of each kind of which there are many, at each moment of a recording."""


def add(total: Tally, part: Tally) -> None:
    total.points += part.points
    total.images += part.images
    total.kinds = Counter(total.kinds) + Counter(part.kinds)
    total.commits += part.commits
    total.continued += part.continued
    total.wrong += part.wrong


def judge_part(seed: int, keep: Path) -> Tally:
    folder = Path(tempfile.mkdtemp(prefix="noetl-crash-"))
    try:
        recording = Recording(folder)
        tally = judge_images(recording, Random(seed), repeats=REPEATS)
        if tally.wrong:
            shutil.copy(folder / "trace", keep / f"trace-{seed}")
        return tally
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, default=ROOT / "crash-images")
    asked = parser.parse_args()
    asked.keep.mkdir(exist_ok=True)
    sums = asked.keep / "sums.json"
    total = Tally()
    if sums.exists():
        total = msgspec.json.decode(sums.read_bytes(), type=Tally)
        print(f"going on after {total.images:,} images")
    seed = asked.seed
    while total.images < asked.count and not total.wrong:
        began = time.monotonic()
        part = judge_part(seed, asked.keep)
        add(total, part)
        sums.write_bytes(msgspec.json.encode(total))
        took = time.monotonic() - began
        wrong = len(part.wrong)
        print(f"seed {seed}: {part.images:,} images, {wrong} wrong, {took:.0f} s")
        seed += 1
    print("\n".join(total.wrong[:20]))
    kinds = ", ".join(
        f"{count:,} {kind}" for kind, count in sorted(total.kinds.items())
    )
    seen = f"{total.points:,} moments, {total.commits:,} acknowledgements; {kinds}; "
    seen += f"{total.continued:,} executions run on"
    print(write_row("crash images", total.images, len(total.wrong), seen))
    sys.exit(1 if total.wrong else 0)


if __name__ == "__main__":
    main()
