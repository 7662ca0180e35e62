"""Runs campaigns of real faults in parts, and writes their rows of a table.

    scripts/fault_campaigns.py [NAME …] [--seconds 300 | --cases N] [--part 60]
                               [--seed N] [--state build/faults] [--again]

Without names it runs all of them; ``--list`` prints the names. A campaign for which
this machine lacks something is left out, with the reason. A part has its own cluster.
The sums of finished parts are kept in the folder of ``--state``, and the next call goes
on until each campaign has run for ``--seconds`` in all, or has seen ``--cases`` faults;
``--again`` begins anew. The row is that of the sums. A part that finds an error, or
whose fault did not happen, ends the campaign with exit code 1, and is not counted.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
import tempfile
import time
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from faults.parts import Total  # noqa: E402
from faults.scenarios import CAMPAIGNS, NEEDS  # noqa: E402
from result_table import write_row  # noqa: E402

PAGE = ROOT / "docs" / "explanation" / "reliability-campaigns.md"


def measure_left(total: Total, asked: argparse.Namespace) -> float:
    """Return the seconds that are left, or an estimate of them."""
    if asked.cases is None:
        return float(asked.seconds - total.seconds)
    return float(asked.cases - sum(total.faults.values()))


def run_campaign(name: str, asked: argparse.Namespace) -> bool:
    """Run parts until the campaign is long enough; return whether all is well."""
    file = asked.state / f"{name.replace(' ', '-')}.json"
    total = Total()
    if file.exists() and not asked.again:
        total = msgspec.json.decode(file.read_bytes(), type=Total)
        print(f"{name}: going on after {total.seconds:.0f} s", flush=True)
    seed = asked.seed
    while (left := measure_left(total, asked)) > 0:
        began = time.monotonic()

        def say(text: str, began: float = began) -> None:
            print(f"{time.monotonic() - began:7.1f} s  {name}: {text}", flush=True)

        length = min(asked.part, asked.seconds)
        if asked.cases is not None:
            length = min(asked.part, max(1.2 * left, 10.0))
        with tempfile.TemporaryDirectory(prefix="noetl-faults-") as folder:
            part = CAMPAIGNS[name](seed, length, Path(folder) / "home", say)
        if part.wrong:
            for wrong in [*dict.fromkeys(part.wrong)][:30]:
                print(f"wrong: {wrong}")
            print(f"{name}: {len(part.wrong)} errors; repeat it with --seed {seed}")
            return False
        total.add(part)
        file.write_bytes(msgspec.json.encode(total))
        cases = sum(total.faults.values())
        print(write_row(name, cases, 0, total.describe(), PAGE), flush=True)
        seed += 1
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--cases", type=int)
    parser.add_argument("--part", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "faults")
    parser.add_argument("--again", action="store_true")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what it started ends, too
    if asked.list:
        print("\n".join(CAMPAIGNS))
        return
    unknown = [name for name in asked.names if name not in CAMPAIGNS]
    if unknown:
        sys.exit(f"no campaign '{unknown[0]}'; there are: {', '.join(CAMPAIGNS)}")
    asked.state.mkdir(parents=True, exist_ok=True)
    broken = []
    for name in asked.names or CAMPAIGNS:
        if name in NEEDS and (why := NEEDS[name]()) is not None:
            print(f"{name}: left out, {why}", flush=True)
        elif not run_campaign(name, asked):
            broken.append(name)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
