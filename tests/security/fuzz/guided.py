"""Fuzz what reads hostile bytes, guided by the code that an input reaches.

    python tests/security/fuzz/guided.py --count 200000 [--target rows] [--seed 1]

The targets are those of ``tests/support/fuzz_targets.py``. Coverage comes from
atheris, which ``make fuzz`` installs from ``scripts/fuzz.lock`` where it has wheels;
without it the inputs are random changes of the corpus. An input that fails is kept in
``fuzz-failures``; ``--input FILE`` repeats it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "support"))

TRACED = {
    "playbooks": ["noetl.dsl", "noetl.net"],
    "templates": ["noetl.templates"],
    "reports": [
        "noetl.api.http.request_body",
        "noetl.engine.decide",
        "noetl.engine.reports",
        "noetl.engine.steps",
    ],
    "bodies": ["noetl.api.http.request_body"],
    "rows": ["noetl.adapters.stores.batches", "noetl.engine.event_codec"],
    "secrets": ["noetl.engine.secrets"],
}
"""The targets, and the packages whose coverage guides them."""
KEEP = Path("fuzz-failures")
LIMITS = ("-timeout=20", "-rss_limit_mb=1024", "-max_len=65536", "-verbosity=0")
"""An input that takes seconds or a gigabyte fails."""


def guide(name: str, count: int, seed: int) -> None:
    """Fuzz one target with coverage; this process ends with the result."""
    import atheris

    said = io.StringIO()  # each traced module
    with contextlib.redirect_stderr(said), atheris.instrument_imports(TRACED[name]):
        from fuzz_targets import TARGETS
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(target.corpus()):
            (Path(folder) / str(number)).write_bytes(data)
        options = (
            f"-runs={count}",
            f"-seed={seed}",
            f"-artifact_prefix={KEEP}/{name}-",
        )
        arguments = [sys.argv[0], *options, *LIMITS, folder]
        atheris.Setup(arguments, target.check)
        atheris.Fuzz()


def change(name: str, count: int, seed: int) -> None:
    """Fuzz one target by random changes of its corpus."""
    from fuzz_targets import TARGETS, inputs

    for number, data in enumerate(inputs(TARGETS[name], seed, count)):
        try:
            TARGETS[name].check(data)
        except BaseException:
            (KEEP / f"{name}-{seed}-{number}").write_bytes(data)
            raise


def fuzz_one(name: str, count: int, seed: int) -> None:
    KEEP.mkdir(exist_ok=True)
    try:
        import atheris  # noqa: F401
    except ImportError:
        change(name, count, seed)
    else:
        guide(name, count, seed)


def fuzz_all(names: Sequence[str], count: int, seed: int) -> int:
    """Fuzz targets in a process each; return the exit code."""
    failed = 0
    for name in names:
        options = ("--target", name, "--count", str(count), "--seed", str(seed))
        command = [sys.executable, __file__, *options, "--here"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        failed |= done.returncode != 0
        print(f"{name}: {count:,} inputs, seed {seed}: ", end="")
        print("failed" if done.returncode else "clean")
        if done.returncode:
            print(done.stdout[-2000:], done.stderr[-4000:])
    with contextlib.suppress(OSError):
        KEEP.rmdir()  # unless something is kept
    return int(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=TRACED)
    parser.add_argument("--here", action="store_true", help="in this process")
    parser.add_argument("--input", type=Path, help="check this file alone")
    asked = parser.parse_args()
    if asked.input is not None:
        from fuzz_targets import TARGETS

        TARGETS[asked.target].check(asked.input.read_bytes())
        print("clean")
        return 0
    if asked.here:
        fuzz_one(asked.target, asked.count, asked.seed)
        return 0
    names = [asked.target] if asked.target else list(TRACED)
    return fuzz_all(names, asked.count, asked.seed)


if __name__ == "__main__":
    sys.exit(main())
