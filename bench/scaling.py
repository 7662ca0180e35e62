"""How the cost of a unit changes with the number of units: it should not.

python bench/scaling.py NAME … [--most N]
python bench/scaling.py --plot

The names are those of the curves; ``all`` are all of them, and without one they are
listed. Each point is a process of its own. What was measured is in bench/curves, one
file for each curve. ``--most`` leaves out larger sizes. ``--plot`` draws what is there
into docs/assets and writes the tables of docs/explanation/scaling.md.

CPU counts, because disks of shared machines differ tenfold from minute to minute,
processors less; measure on a machine that does nothing else.
"""

from __future__ import annotations

import argparse

from parts.curves import CURVES, measure, store, stored
from parts.page import FILES, headings, row, write


def take(name: str, most: int | None) -> None:
    print(f"{CURVES[name].of}:", "\n".join(headings(name)), sep="\n", flush=True)
    points = []
    for point in measure(name, most):
        points.append(point)
        print(row(name, point, points[0]), flush=True)
    if not points:
        raise SystemExit(f"{name} has no size up to {most}")
    print(f"stored in {store(name, points)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a curve, or all")
    parser.add_argument("--most", type=int, metavar="N", help="leave out larger sizes")
    parser.add_argument("--plot", action="store_true", help="write pictures and tables")
    options = parser.parse_args()
    names = [*CURVES] if "all" in options.names else options.names
    if unknown := [name for name in names if name not in CURVES]:
        parser.error(f"{unknown[0]} is none of: {', '.join(CURVES)}, all")
    for name in names:
        take(name, options.most)
    if options.plot:
        for path in write(stored(), FILES):
            print(f"wrote {path}")
    elif not names:
        for name, curve in CURVES.items():
            print(f"{name:<12} {curve.of}; about {curve.takes}")


if __name__ == "__main__":
    main()
