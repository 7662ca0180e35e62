"""Runs a long campaign of real faults and writes its table (``make faults``).

python scripts/fault_run.py [--seed N] [--scale 0.1]

The code is that of the short test, with larger figures. ``--scale`` reduces all of
them. A run that finds an error reports it, does not write the table and exits with 1.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from faults.campaign import Plan, Report, run  # noqa: E402

TABLE = ROOT / "bench" / "FAULTS.md"
INTRO = """# Faults

Written by `make faults`. Real processes on one machine of 2 cores that others use,
too: servers, workers, PostgreSQL and NATS, with leases of 2 s. Each iteration is
three tasks: an `http` call whose effect has no key, a `postgres` insert with a key, a
`noop`. PostgreSQL holds the log and takes the inserts. While work is under way, a
part is killed (`kill -9`), frozen for longer than a lease lasts, or, in the case of
NATS, robbed of its files; whoever died is started again. Nobody else helps.

Afterwards the database is checked: every iteration ended exactly once, every log is
whole and adds up to the state that was stored, no command or timer is left, every
keyed insert is there once, no effect had two owners at once, and each effect that
happened twice is one that the log knows of. Anything wrong would stand in the last
row.
"""


def plans(seed: int, scale: float) -> dict[str, Plan]:
    def part(count: int) -> int:
        return max(round(count * scale), 1)

    storm = Plan(
        seed=seed,
        iterations=part(10_000),
        size=part(10_000),
        kills=part(300),
        freezes=part(10),
        wipes=part(20),
        width=32,
        workers=4,
        pauses=(0.5, 2.0),
    )
    alone = Plan(
        seed=seed + 1,
        iterations=part(2_000),
        size=part(2_000),
        kills=part(40),
        width=32,
        workers=4,
        nats=False,
        pauses=(0.5, 2.0),
    )
    return {"everything": storm, "NATS was never there": alone}


def rows(reports: dict[str, Report]) -> list[str]:
    lines = ["| | " + " | ".join(reports) + " |", "|---|" + "---|" * len(reports)]

    def row(name: str, *values: object) -> None:
        cells = (f"{v:,}" if isinstance(v, int) else str(v) for v in values)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")

    every = list(reports.values())
    row("seed", *(str(each.plan.seed) for each in every))
    row("servers, workers", *(f"{r.plan.servers}, {r.plan.workers}" for r in every))
    row("in flight", *(each.plan.width for each in every))
    row("executions", *(each.executions for each in every))
    row("iterations", *(each.found.iterations for each in every))
    row("tasks", *(each.found.iterations * 3 for each in every))
    row("events", *(each.found.events for each in every))
    names = sorted({name for each in every for name in each.kills})
    for name in names:
        label = name if name in ("frozen", "nats, wiped") else f"{name}, killed"
        row(label, *(each.kills.get(name, 0) for each in every))
    row("commands taken over", *(each.found.steals for each in every))
    row("attempts in doubt, recorded", *(each.found.in_doubt for each in every))
    row("attempts after an error", *(each.found.retries for each in every))
    row("late reports refused", *(each.fenced for each in every))
    row("effects that happened twice", *(each.found.duplicates for each in every))
    row("parts that ended by themselves", *(len(each.exits) for each in every))
    row("time", *(f"{each.seconds / 60:.1f} min" for each in every))
    row("**wrong**", *(len(each.found.wrong) for each in every))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--scale", type=float, default=1.0)
    asked = parser.parse_args()
    reports, broken = {}, False
    for name, plan in plans(asked.seed, asked.scale).items():
        print(f"== {name}: seed {plan.seed}", flush=True)
        began = time.monotonic()

        def say(text: str, began: float = began) -> None:
            print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

        with tempfile.TemporaryDirectory() as folder:
            reports[name] = report = run(plan, Path(folder) / "home", say)
        for last in report.exits:
            print(f"ended by itself: {last}")
        for wrong in report.found.wrong:
            print(f"wrong: {wrong}")
        broken = broken or bool(report.found.wrong)
    table = "\n".join(rows(reports))
    print(table)
    if broken:
        sys.exit(1)
    again = f"`make faults SEED={asked.seed}`"
    if asked.scale != 1.0:
        again = f"`make faults SEED={asked.seed} SCALE={asked.scale:g}`, a smaller run"
    day = time.strftime("%Y-%m-%d")
    TABLE.write_text(f"{INTRO}\n{again}, {day}:\n\n{table}\n")


if __name__ == "__main__":
    main()
