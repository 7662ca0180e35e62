"""Keeps the verdicts on mutants, and writes the table of ``bench/MUTANTS.md``.

``bench/mutants/verdicts.jsonl`` has a line for each scope: its name, a hash of its
source, and a letter for each of its mutants in their order. A scope that changed loses
its verdicts. ``bench/mutants/reasons.toml`` says why survivors are left alive.
"""

from __future__ import annotations

import fnmatch
import json
import math
import os
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mutants import Mutant, Source

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "bench" / "mutants"
STORED = FOLDER / "verdicts.jsonl"
REASONS = FOLDER / "reasons.toml"
PAGE = ROOT / "bench" / "MUTANTS.md"
TABLE = "<!-- written by scripts/mutate.py -->"
PARTS = {
    "engine": ("engine/",),
    "worker protocol": (
        "runtime/worker_protocol/",
        "runtime/worker/remote_dispatcher.py",
        "runtime/worker/remote_values.py",
        "runtime/worker/server_connection.py",
    ),
    "stores": ("adapters/stores/",),
}
LEFT_OUT = ("engine/error_kinds/", "engine/invariants/catalog.py")
"""Tables of sentences for the reference pages."""
KILLED, ALIVE, UNKNOWN = frozenset("ktKT"), frozenset("sn"), "."
"""A capital: the mutant survived at first, and a test written later killed it."""
LEAST = 0.9
EQUIVALENT = "equivalent: "


def part_of(module: str) -> str:
    return next(name for name, paths in PARTS.items() if module.startswith(paths))


def find_modules(package: Path) -> Iterator[str]:
    """Yield the modules of all parts, as paths in the package."""
    every = tuple(path for paths in PARTS.values() for path in paths)
    for path in sorted(package.rglob("*.py")):
        module = str(path.relative_to(package))
        if module.startswith(every) and not module.startswith(LEFT_OUT):
            yield module


class Verdicts:
    """The letters of all mutants of some sources, those without a verdict included."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.letters: dict[str, str] = {}
        self.mutants: dict[str, Mutant] = {}
        self._scopes: dict[tuple[str, str], list[Mutant]] = {}
        stored = dict(_read_stored())
        for source in sources.values():
            for mutant in source.mutants:
                key = f"{source.path}:{mutant.scope.name}", mutant.scope.digest
                self._scopes.setdefault(key, []).append(mutant)
                self.mutants[mutant.name] = mutant
        for key, mutants in self._scopes.items():
            letters = stored.get(key, "").ljust(len(mutants), UNKNOWN)
            for mutant, letter in zip(mutants, letters, strict=False):
                self.letters[mutant.name] = letter

    def set(self, name: str, letter: str) -> None:
        if name in self.letters:
            was = self.letters[name]
            late = letter in KILLED and (was in ALIVE or was.isupper())
            self.letters[name] = letter.upper() if late else letter

    def save(self) -> None:
        """Write all scopes with a verdict."""
        lines = []
        for (name, digest), mutants in self._scopes.items():
            letters = "".join(self.letters[mutant.name] for mutant in mutants)
            if letters.strip(UNKNOWN):
                lines.append((name, digest, letters))
        FOLDER.mkdir(parents=True, exist_ok=True)
        new = STORED.with_suffix(".new")
        new.write_text("".join(json.dumps(line) + "\n" for line in sorted(lines)))
        os.replace(new, STORED)


def _read_stored() -> Iterator[tuple[tuple[str, str], str]]:
    if STORED.exists():
        for line in STORED.read_text().splitlines():
            name, digest, letters = json.loads(line)
            yield (name, digest), letters


def read_reasons() -> dict[str, str]:
    """Return reasons by name; a name may be a pattern with ``*``."""
    if not REASONS.exists():
        return {}
    tables = tomllib.loads(REASONS.read_text())
    return {
        name: ("" if kind == "accepted" else EQUIVALENT) + reason
        for kind, table in tables.items()
        for name, reason in table.items()
    }


def expand(reasons: Mapping[str, str], verdicts: Verdicts) -> dict[str, str]:
    """Return the reason of each survivor that has one."""
    alive = [name for name, letter in verdicts.letters.items() if letter in ALIVE]
    return {
        name: reason
        for pattern, reason in reasons.items()
        for name in fnmatch.filter(alive, pattern)
    }


def interval(good: int, count: int, all_of: int) -> tuple[float, float]:
    """Return the 95 % interval of a share that a sample shows, after Wilson."""
    if not count or count == all_of:
        share = good / count if count else 0.0
        return share, share
    z = 1.96 * math.sqrt((all_of - count) / max(all_of - 1, 1))
    share = good / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    half *= z / (1 + z * z / count)
    return middle - half, middle + half


def summarize(verdicts: Verdicts, reasons: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the table of the parts, and what is wrong with it."""
    wrong = []
    rows = [
        "| part | mutants | judged | killed | of these by time limit | survived | "
        "equivalent | score | 95 % interval | score at first |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|--:|",
    ]
    for part in PARTS:
        letters = {
            name: letter
            for name, letter in verdicts.letters.items()
            if part_of(name) == part
        }
        if not letters:
            continue
        count = Counter(letters.values())
        alive = [name for name, letter in letters.items() if letter in ALIVE]
        equal = sum(reasons.get(name, "").startswith(EQUIVALENT) for name in alive)
        judged = len(letters) - count[UNKNOWN]
        killed = sum(count[letter] for letter in KILLED)
        meant = judged - equal
        score = killed / meant if meant else 0.0
        low, high = interval(killed, meant, len(letters) - equal)
        first = (count["k"] + count["t"]) / meant if meant else 0.0
        if meant and score < LEAST:
            wrong.append(f"{part}: the score {score:.1%} is below {LEAST:.0%}")
        wrong += [
            f"{name}: survives without a reason"
            for name in alive
            if name not in reasons
        ]
        rows.append(
            f"| {part} | {len(letters):,} | {judged:,} | {killed:,} | "
            f"{count['t'] + count['T']:,} | {len(alive) - equal:,} | {equal:,} | "
            f"{score:.1%} | {low:.1%} to {high:.1%} | {first:.1%} |"
        )
    return "\n".join(rows), wrong


def stale(verdicts: Verdicts, reasons: Iterable[str]) -> list[str]:
    """Return reasons of mutants that are gone, or killed."""
    alive = [name for name, letter in verdicts.letters.items() if letter not in KILLED]
    return [
        f"{pattern}: has a reason and does not survive"
        for pattern in reasons
        if not fnmatch.filter(alive, pattern)
    ]


def write_page(verdicts: Verdicts, reasons: Mapping[str, str]) -> None:
    """Write the table and the survivors below the text of the page."""
    table, _ = summarize(verdicts, reasons)
    lines = [table, "", "## Survivors", ""]
    for letter, title in (("s", "Executed by tests"), ("n", "Executed by no test")):
        names = sorted(n for n, each in verdicts.letters.items() if each == letter)
        if not names:
            continue
        lines += [f"### {title}", "", "| mutant | change | reason |", "|---|---|---|"]
        for name in names:
            change = verdicts.mutants[name].describe().replace("|", "\\|")
            reason = reasons.get(name, "**none yet**").replace("|", "\\|")
            before, _, after = change.partition(" → ")
            lines.append(f"| `{name}` | `{before}` → `{after}` | {reason} |")
        lines.append("")
    head = PAGE.read_text(encoding="utf-8").partition(TABLE)[0] if PAGE.exists() else ""
    text = f"{head}{TABLE}\n\n" + "\n".join(lines).rstrip() + "\n"
    PAGE.write_text(text, encoding="utf-8")
