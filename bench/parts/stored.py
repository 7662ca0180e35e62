"""The work of one engine of the side-by-side harness, for `bench/peer_storage.py`.

python stored.py HARNESS ENGINE STATE WORK NUMBER

Runs in the environment of the engine, so with the standard library and the harness
alone. Prints the number of tasks of a loop that was possible in the time.
"""

import os
import runpy
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

SECONDS = 60.0
"""A loop is so long that it takes no longer than this."""
SIZES = (10_000, 5_000, 2_000, 1_000, 500)
PROBE = 200


def find_engine(path: str) -> type:
    """Return the class that an engine file would run."""
    import harness

    found: list[type] = []
    harness.main = found.append
    sys.argv = [path]
    runpy.run_path(path, run_name="__main__")
    return found[0]


def main(harness: str, path: str, state: str, work: str, number: str) -> None:
    sys.path.insert(0, harness)
    engine, status = find_engine(path)(Path(state)), 0
    try:
        engine.do(engine.start())
        print(do(engine, work, int(number)), flush=True)
    except Exception:
        traceback.print_exc()
        status = 1
    finally:
        with suppress(Exception):
            engine.do(engine.stop())
        engine.stop_all()
        os._exit(status)  # some engines leave threads behind


def do(engine, work: str, n: int) -> int:
    """Do the work after a little of each kind; return the number of its units."""
    check(engine.do(engine.chain(3)), 3)
    check(engine.do(engine.fanout(10)), 55)
    if work == "chain":
        check(engine.do(engine.chain(n)), n)
    elif work == "fanout":
        n = fitting(engine, n)
        check(engine.do(engine.fanout(n)), n * (n + 1) // 2)
        n += PROBE
    elif work == "backlog":
        check(engine.do(engine.backlog(n)), 3 * n)
    return n


def fitting(engine, n: int) -> int:
    began = time.perf_counter()
    engine.do(engine.fanout(PROBE))
    rate = PROBE / (time.perf_counter() - began)
    return next((size for size in SIZES if size <= min(n, rate * SECONDS)), SIZES[-1])


def check(answer: object, expected: int) -> None:
    if answer != expected:
        raise AssertionError(f"{answer!r} instead of {expected}")


if __name__ == "__main__":
    main(*sys.argv[1:])
