"""The bars of the web pages: a long log, a wide net and many executions in a browser.

    .venv/bin/python bench/ui.py [--quick] [--write] [--cluster] [--home FOLDER]

A home has one execution of 100,000 events in a net of 1,000 steps and 2,000 arcs, and
50,000 executions. A real server shows it to Chromium, which has no sandbox, no GPU and
an empty cache. `--quick` takes a tenth of everything, to see that it works; `--cluster`
also measures the way over another server, on PostgreSQL; a home that is named is kept
and used again. `--follow` seconds are followed before memory is read.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from faults.cluster import Cluster, free_port  # noqa: E402
from large_home import LargeHome, prepare  # noqa: E402
from parts import ui_bars as bars  # noqa: E402
from parts.ui_bars import Bar, Size  # noqa: E402
from parts.ui_probe import chromium, enrol  # noqa: E402
from servers import Api  # noqa: E402

from noetl.local.home import Home  # noqa: E402

TABLE = ROOT / "bench" / "UI.md"
WHOLE = Size(1_000, 24_000, 50_000, loads=5, moves=1_000, follow=600.0)
QUICK = Size(100, 2_400, 5_000, loads=2, moves=100, follow=10.0)
KEPT = "large.json"
ABOUT = """\
# The bars of the web pages

`.venv/bin/python bench/ui.py{options} --write` wrote this, with Python {python} and
Chromium {browser}, headless and without a GPU, on {cpus} CPUs of {machine} that server
and browser share with all else that runs: the load average was {load:.1f} before it.

One execution has {events:,} events in a net of {steps:,} steps and {arcs:,} arcs; there
are {executions:,} executions. Loads are cold, from an empty cache. Following took
{follow:,.0f} s. The share of the main thread is CPU time; all else is wall time.

While a loop runs, server, worker and browser compete for the processors: longest
task and shift of that part differ from run to run (64 to 208 ms and 0.008 to 0.028
in three runs, at load averages of 5 to 8). In 20 s of following the heap still grows
with the track, so its growth means little: the bar is about ten minutes.

"""


def home_of(folder: Path, size: Size) -> LargeHome:
    """Make the home, or find it as an earlier run left it."""
    note = folder / KEPT
    if note.exists():
        execution_id, steps = note.read_text().split()
        return LargeHome(Home(folder), execution_id, int(steps))
    large = prepare(Home(folder), size.steps, size.iterations, size.executions)
    note.write_text(f"{large.execution_id} {large.steps}\n")
    return large


@contextmanager
def server(home: Home) -> Iterator[str]:
    port = free_port()
    command = ["server", "start", "--foreground", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "noetl", *command],
        env={**os.environ, "NOETL_HOME": str(home.folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        bars.await_port(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def cluster() -> Iterator[list[Api]]:
    """Two servers on one database; the worker asks the first."""
    with tempfile.TemporaryDirectory() as folder:
        both = Cluster(Path(folder) / "home", 2, 1, nats=True)
        try:
            yield [Api(url, both.token) for url in both.urls]
        finally:
            both.close()


def measure(large: LargeHome, size: Size, parts: list[str]) -> Iterator[Bar]:
    with server(large.home) as url, chromium() as browser:
        api = Api(url, large.home.token.read_text().strip())
        enrol(api)
        desk = bars.Desk(browser, api, large, size)
        for name, part in bars.PARTS.items():
            if not parts or name in parts:
                yield from part(desk)


def measure_cluster() -> Iterator[Bar]:
    with cluster() as (first, second), chromium() as browser:
        enrol(first)
        yield bars.commit_behind_another(browser, first, second)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(bars.PARTS))
    parser.add_argument("--quick", action="store_true", help="take a tenth of all")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    parser.add_argument("--cluster", action="store_true", help="with PostgreSQL")
    parser.add_argument("--home", type=Path, help="a home that is kept")
    parser.add_argument("--follow", type=float, help="seconds of following")
    options = parser.parse_args()
    size = QUICK if options.quick else WHOLE
    if options.follow is not None:
        size = size._replace(follow=options.follow)
    load = os.getloadavg()[0]
    lines = ["| bar | limit | measured | holds |", "|---|---|---|---|"]
    print("\n".join(lines))
    with tempfile.TemporaryDirectory() as folder:
        large = home_of(options.home or Path(folder) / "home", size)
        found = measure(large, size, options.parts)
        for bar in found:
            lines.append(bar.row)
            print(bar.row, flush=True)
    if options.cluster:
        for bar in measure_cluster():
            lines.append(bar.row)
            print(bar.row, flush=True)
    if options.write:
        TABLE.write_text(about(options, size, load) + "\n".join(lines) + "\n")


def about(options: argparse.Namespace, size: Size, load: float) -> str:
    said = "".join(
        f" --{name}" for name in ("quick", "cluster") if getattr(options, name)
    )
    said += f" --follow {options.follow:g}" if options.follow is not None else ""
    return ABOUT.format(
        options=said,
        python=platform.python_version(),
        browser=bars.version(),
        cpus=os.cpu_count(),
        machine=platform.machine(),
        load=load,
        events=bars.seen["events"],
        steps=size.steps,
        arcs=2 * (size.steps - 1) + 1,
        executions=size.executions,
        follow=size.follow,
    )


if __name__ == "__main__":
    main()
