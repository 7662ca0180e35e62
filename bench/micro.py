"""What the smallest parts cost, in instructions: time is too noisy to compare.

python bench/micro.py [--write] [NAME …]

Each part is repeated n and 2n times, in two processes under callgrind (`valgrind`); the
difference, divided by n, is what one repetition takes, without the start. Instructions
hardly depend on what else a machine does. They are those of the process alone: not of
the kernel, which writes to the disk, and not of processes that it starts, so a call of
python code is measured in CPU time, of both processes. Garbage is not collected.
Without valgrind everything is CPU time, of more repetitions. ``--write`` writes
bench/MICRO.md.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from parts.counting import best_microseconds, has_callgrind, instructions
from parts.pieces import PIECES, Piece

TABLE = Path(__file__).parent / "MICRO.md"
LONGER = 20
"""How many times more repetitions there are where time is measured."""

STARTS = {
    "bare": ("Python, started and ended", ["-c", "pass"]),
    "version": ("`noetl --version`, the whole process", ["-m", "noetl", "--version"]),
    "import": (
        "what `noetl run` imports, the whole process",
        ["-c", "import noetl.commands.run"],
    ),
}
ABOUT = """# What the smallest parts cost

`.venv/bin/python bench/micro.py --write` wrote this, with {python} on {machine}. An
instruction is one of the process itself: the kernel's, and so the disk's, are not
counted. Each part was repeated n and 2n times, in two processes under callgrind; the
difference, divided by n, is the figure, so starting is not in it. Callgrind cannot
follow a call into the process that runs its code: that one is CPU time of both
processes, the best of some rounds.

"""


class Figure(NamedTuple):
    what: str
    cost: float
    unit: str
    times: str

    @property
    def row(self) -> str:
        amount = f"{self.cost:,.0f}" if self.cost >= 100 else f"{self.cost:,.1f}"
        return f"| {self.what} | {amount} | {self.unit} | {self.times} |"


def figures(names: Sequence[str], *, counted: bool) -> Iterator[Figure]:
    for name in names:
        if name in PIECES:
            yield repeated(name, PIECES[name], counted=counted)
        else:
            what, command = STARTS[name]
            [cost] = instructions(command) if counted else best_microseconds(command)
            yield Figure(what, cost, unit_of(counted=counted), "1")


def repeated(name: str, piece: Piece, *, counted: bool) -> Figure:
    counted = counted and piece.counted
    times = piece.times if counted or not piece.counted else piece.times * LONGER
    once, twice = (
        ["-m", "parts.pieces", name, str(2 * times), str(each)]
        for each in (times, 2 * times)
    )
    found: Sequence[float] = (
        instructions(once, twice) if counted else best_microseconds(once, twice)
    )
    cost = (found[1] - found[0]) / times / piece.units
    return Figure(piece.what, cost, unit_of(counted=counted), f"{times:,}")


def unit_of(*, counted: bool) -> str:
    return "instructions" if counted else "µs CPU"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [*PIECES, *STARTS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"{unknown[0]} is none of: {', '.join(known)}")
    if options.write and options.names:
        parser.error("--write writes all of them: leave the names out")
    counted = has_callgrind()
    if options.write and not counted:
        parser.error("--write writes instructions, and there is no valgrind here")
    if not counted:
        print("there is no valgrind here: CPU time, not instructions", file=sys.stderr)
    lines = ["| part | cost | unit | n |", "|---|---|---|---|"]
    print("\n".join(lines))
    for figure in figures(options.names or known, counted=counted):
        lines.append(figure.row)
        print(figure.row, flush=True)
    if options.write:
        python = f"Python {platform.python_version()}"
        about = ABOUT.format(python=python, machine=platform.machine())
        TABLE.write_text(about + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
