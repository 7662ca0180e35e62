#!/usr/bin/env python
"""Run seeds of the simulation of servers and workers; see docs/explanation/reliability.

scripts/simulate.py --seeds 100000 --state build/simulation.jsonl    a long campaign
scripts/simulate.py --seed 42                                        one seed, in words
scripts/simulate.py --seed 42 --minimize                             fewer faults
scripts/simulate.py --bugs --seeds 5000                              planted bugs

A campaign with a state file continues where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/simulation"), str(ROOT / "tests/support")]

from simulator.bugs import BUGS  # noqa: E402
from simulator.campaign import (  # noqa: E402
    SOMETIMES,
    describe,
    find,
    minimize,
    run_seeds,
)
from simulator.plan import Options, make_plan  # noqa: E402
from simulator.run import run_seed  # noqa: E402

CHUNK = 500


def main() -> int:
    asked = parse(sys.argv[1:])
    if asked.seed is not None:
        return run_one(asked)
    if asked.bugs:
        return plant_all(asked)
    return run_campaign(asked)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5000, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--state", type=Path, help="file of finished chunks")
    parser.add_argument("--seed", type=int, help="run this one alone")
    parser.add_argument("--without", default="", help="groups of faults to leave out")
    parser.add_argument("--skip", default="", help="numbers of faults to leave out")
    parser.add_argument("--executions", type=int, help="the most that are started")
    parser.add_argument("--kinds", default="", help="the only kinds of faults")
    parser.add_argument("--paths", default="", help="the only playbooks")
    parser.add_argument("--bug", help="plant the bug of this name")
    parser.add_argument("--minimize", action="store_true")
    parser.add_argument("--bugs", action="store_true", help="look for all planted bugs")
    return parser.parse_args(arguments)


def run_one(asked: argparse.Namespace) -> int:
    given = {
        f"--{name}": value
        for name in ("seed", "without", "skip", "executions", "kinds", "paths")
        if (value := getattr(asked, name)) not in (None, "")
    }
    options = Options.read(" ".join(f"{k} '{v}'" for k, v in given.items()))
    bug = next((each for each in BUGS if each.name == asked.bug), None)
    result = run_seed(options, bug)
    if asked.minimize and result.violations:
        result = minimize(result, bug)
    for fault in make_plan(result.options).faults:
        print(fault)
    print(f"{result.seconds:.1f} virtual seconds, {result.events} events")
    print("trace", result.trace)
    if result.violations:
        print(describe(result))
    return 1 if result.violations else 0


def plant_all(asked: argparse.Namespace) -> int:
    """Print a table of the planted bugs and the seeds that each needed."""
    missed = 0
    print("| bug | seeds | noticed as | held back | directed |\n|---|---|---|---|---|")
    with ProcessPoolExecutor(asked.jobs) as pool:
        jobs = [(each.name, asked.first, asked.seeds) for each in BUGS]
        for bug, (count, how) in zip(BUGS, pool.map(plant, jobs), strict=True):
            missed += count is None
            held = "yes" if bug.held_back else "no"
            to = ", ".join(bug.kinds)
            print(
                f"| {bug.sentence} | {count or 'not found'} | {how} | {held} | {to} |"
            )
    return 1 if missed else 0


def plant(job: tuple[str, int, int]) -> tuple[int | None, str]:
    name, first, count = job
    bug = next(each for each in BUGS if each.name == name)
    found = find(bug, range(first, first + count))
    if found is None:
        return None, ""
    return found.options.seed - first + 1, found.violations[0][0]


def run_campaign(asked: argparse.Namespace) -> int:
    """Run chunks of seeds on all processors; skip those of the state file."""
    last = asked.first + asked.seeds
    done = read_state(asked.state)
    chunks = [
        (first, min(first + CHUNK, last))
        for first in range(asked.first, last, CHUNK)
        if first not in done
    ]
    lines = [line for first, line in done.items() if asked.first <= first < last]
    began = time.monotonic()
    with ProcessPoolExecutor(asked.jobs) as pool:
        for line in pool.map(run_chunk, chunks):
            lines.append(line)
            if asked.state is not None:
                with asked.state.open("a") as file:
                    file.write(json.dumps(line) + "\n")
            for failure in line["failures"]:
                print(failure, flush=True)
    return summarize(lines, len(chunks), time.monotonic() - began)


def run_chunk(chunk: tuple[int, int]) -> dict[str, Any]:
    first, last = chunk
    tally = run_seeds(range(first, last), most=5)
    return {
        "first": first,
        "seeds": tally.seeds,
        "seconds": tally.seconds,
        "events": tally.events,
        "happened": dict(tally.happened),
        "failures": [describe(each) for each in tally.failures],
    }


def read_state(state: Path | None) -> dict[int, dict[str, Any]]:
    if state is None or not state.exists():
        return {}
    return {line["first"]: line for line in _lines(state)}


def _lines(state: Path) -> Iterator[dict[str, Any]]:
    for text in state.read_text().splitlines():
        yield json.loads(text)


def summarize(lines: Sequence[dict[str, Any]], fresh: int, seconds: float) -> int:
    """Print the table of a campaign; return 1 if anything was wrong."""
    happened: Counter[str] = Counter()
    for line in lines:
        happened.update(line["happened"])
    seeds = sum(line["seeds"] for line in lines)
    failed = sum(len(line["failures"]) for line in lines)
    days = sum(line["seconds"] for line in lines) / 86400
    print("| figure | value |\n|---|---|")
    print(f"| seeds | {seeds:,} |\n| violations | {failed} |")
    print(f"| simulated days | {days:.1f} |")
    print(f"| events | {sum(line['events'] for line in lines):,} |")
    if fresh:
        print(f"| seeds a second now | {fresh * CHUNK / max(seconds, 0.001):.0f} |")
    for what, times in sorted(happened.items(), key=lambda each: -each[1]):
        print(f"| {what} | {times:,} |")
    missing = [what for what in SOMETIMES if not happened[what]]
    if missing:
        print("never happened:", ", ".join(missing))
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
