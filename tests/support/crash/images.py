"""A recording of the reference workload, and the judgement of its crash images."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import msgspec

from crash.disk import Crash, Disk, Record, crashes, read_records
from crash.judge import Acknowledged, Judge, write_image
from crash.shim import environment

SUPPORT = Path(__file__).parents[1]
GO_ON_EVERY = 20
"""Images of which one is also run on, to the ends of its open executions."""


class Tally(msgspec.Struct):
    """What a campaign has seen; ``wrong`` are the first wrongs of bad images."""

    points: int = 0
    images: int = 0
    kinds: Counter[str] = msgspec.field(default_factory=Counter)
    commits: int = 0
    continued: int = 0
    wrong: list[str] = msgspec.field(default_factory=list)


class Recording:
    """The calls of one run of the workload below ``folder``/root, with planted bugs.

    Without them, an earlier process has been killed, and left its log.
    """

    def __init__(self, folder: Path, *bugs: str) -> None:
        self.root = folder / "root"
        self.root.mkdir(parents=True)
        trace = folder / "trace"
        if not bugs:
            assert _run(self.root, trace, "killed") == -signal.SIGKILL
        assert _run(self.root, trace, *bugs) == 0
        self.records = list(read_records(trace))
        assert self.records[-1].path == "end"

    def walk(self) -> Iterator[tuple[int, Record, Disk, Acknowledged]]:
        """Yield each moment: the call that was the last one, and the disk after it."""
        disk, told = Disk(str(self.root)), Acknowledged()
        for number, record in enumerate(self.records):
            if record.call == "A":
                told.take(record.path)
            else:
                disk.take(record)
            yield number, record, disk, told


def _run(root: Path, trace: Path, *words: str) -> int:
    return subprocess.run(
        [sys.executable, "-m", "crash.workload", str(root), *words],
        env={**environment(root, trace), "PYTHONPATH": str(SUPPORT)},
        stdout=subprocess.DEVNULL,
        check=False,
    ).returncode


def judge_images(
    recording: Recording,
    random: Random,
    *,
    repeats: int,
    share: float = 1.0,
) -> Tally:
    """Judge images of all moments, or of a random share of them.

    ``repeats`` is the number of images of each kind of which there are many.
    """
    tally, judge = Tally(), Judge()
    tally.commits = sum(record.call == "A" for record in recording.records)
    home = recording.root / "home"
    os.environ["NOETL_HOME"] = str(home)
    try:
        for number, _, disk, told in recording.walk():
            if random.random() >= share:
                continue
            tally.points += 1
            for crash in crashes(disk, random, repeats):
                write_image(recording.root, disk.image(crash.kept, crash.folders))
                go_on = tally.images % GO_ON_EVERY == 0
                wrong = judge.judge(home, told, go_on=go_on)
                tally.images += 1
                tally.kinds[crash.kind] += 1
                if wrong:
                    tally.wrong.append(_describe(recording, number, crash, wrong))
    finally:
        tally.continued = judge.continued
        judge.close()
    return tally


def _describe(
    recording: Recording, number: int, crash: Crash, wrong: Sequence[str]
) -> str:
    last = recording.records[number]
    after = f"{last.call} {Path(last.path).name} {last.at} +{len(last.data)}"
    return f"crash '{crash.kind}' after call {number} ({after}): {wrong[0]}"
