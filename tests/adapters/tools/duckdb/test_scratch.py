"""Who is killed leaves its scratch behind; the next one removes it, and no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from noetl.adapters.tools.duckdb.temp_dirs import Bench

DIE = """
import os, signal, sys
from noetl.adapters.tools.duckdb.temp_dirs import Bench
Bench(sys.argv[1]).scratch().write(b"gigabytes")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DIE, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = (tmp_path / "tmp").iterdir()
    assert len(list(left.rglob("*.json"))) == 1

    bench = Bench(str(tmp_path))
    bench.scratch()

    assert not left.exists()
    bench.close()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_is_in_use_stays(tmp_path: Path) -> None:
    first, second = Bench(str(tmp_path)), Bench(str(tmp_path))
    file = first.scratch().write(b"[1]")

    second.scratch()

    assert Path(file).read_bytes() == b"[1]"
    first.close()
    second.close()


def test_a_call_removes_its_own(tmp_path: Path) -> None:
    bench = Bench(str(tmp_path))
    one, two = bench.scratch(), bench.scratch()
    one.write(b"1")
    file = two.write(b"2")

    one.remove()
    one.remove()

    assert not os.path.exists(one.path)
    assert Path(file).exists()
    bench.close()


def test_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "tmp" / "duckdb-mine").mkdir(parents=True)
    (tmp_path / "tmp" / "else").mkdir()

    bench = Bench(str(tmp_path))
    bench.scratch()
    bench.close()

    left = sorted(path.name for path in (tmp_path / "tmp").iterdir())
    assert left == ["duckdb-mine", "else"], "without a lock it is nobody's to remove"
