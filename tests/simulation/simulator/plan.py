"""What goes wrong in a run: rates of small faults, and a list of larger ones."""

from __future__ import annotations

import random
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

TTL = 2.0
"""Seconds that a lease lasts."""
SKEW = 1.0
"""The most that the clock of a server is wrong, in seconds. Two servers may differ by
less than the grace of a lease (2 s) and a sixth of its life."""
FAULTY_UNTIL = 12.0
"""Seconds after which no new fault begins."""
HEALED_BY = 34.0
"""Seconds after which every frozen process goes on and every clock is right."""

AMBIENT = ("network", "store", "wakeups", "skew", "more")
"""Groups of small faults that a run can be without. Those of ``more`` are in ``MORE``;
it also has work with large values, and snapshots at other positions."""
TIMED = (
    "crash server",
    "crash worker",
    "freeze worker",
    "freeze server",
    "partition",
    "outage",
    "disk full",
    "flaky store",
    "damage",
    "clock",
    "cancel",
    "pause",
    "drop wakeups",
    "killer",
)

MORE = ("fork", "retry", "resume", "wrong snapshot", "upgrade")
"""Orders and faults that are drawn apart: they change none of the others."""


@dataclass
class Rates:
    """Chances of small faults, for each call."""

    lost: float = 0.0
    unheard: float = 0.0
    repeated: float = 0.0
    late: float = 0.0
    store_error: float = 0.0
    commit_fault: float = 0.0
    wakeup_lost: float = 0.0
    skew: float = 0.0


@dataclass(frozen=True)
class Fault:
    """One fault: its time, its kind, its victim's number, how long it lasts, and after
    how many callbacks of the victim a crash happens."""

    at: float
    kind: str
    victim: int
    seconds: float
    fuse: int

    def __str__(self) -> str:
        return f"{self.at:.2f}s {self.kind} #{self.victim} {self.seconds:.2f}s"


@dataclass(frozen=True)
class Options:
    """A run: its seed, and what of its faults and its work is left out."""

    seed: int
    without: frozenset[str] = frozenset()
    """Groups of small faults that are left out."""
    skip: frozenset[int] = frozenset()
    """Numbers of faults of the plan that are left out."""
    executions: int | None = None
    """The most executions that are started."""
    kinds: tuple[str, ...] = ()
    """The only kinds of faults, if any: a directed run."""
    paths: tuple[str, ...] = ()
    """The only playbooks, if any."""

    @property
    def has_more(self) -> bool:
        return "more" not in self.without

    @classmethod
    def read(cls, line: str) -> Options:
        """Read what ``command`` returns."""
        words = shlex.split(line)
        given = dict(zip(words[::2], words[1::2], strict=True))
        count = given.get("--executions")
        return cls(
            int(given["--seed"]),
            frozenset(_words(given.get("--without"))),
            frozenset(map(int, _words(given.get("--skip")))),
            None if count is None else int(count),
            tuple(_words(given.get("--kinds"))),
            tuple(_words(given.get("--paths"))),
        )

    def command(self) -> str:
        """Return the arguments that run exactly this again."""
        parts = [f"--seed {self.seed}"]
        if self.without:
            parts.append(f"--without {','.join(sorted(self.without))}")
        if self.skip:
            parts.append(f"--skip {','.join(map(str, sorted(self.skip)))}")
        if self.executions is not None:
            parts.append(f"--executions {self.executions}")
        if self.kinds:
            parts.append(f"--kinds '{','.join(self.kinds)}'")
        if self.paths:
            parts.append(f"--paths {','.join(self.paths)}")
        return " ".join(parts)


def _words(text: str | None) -> list[str]:
    return text.split(",") if text else []


@dataclass
class Plan:
    """The faults of one seed."""

    rates: Rates
    faults: Sequence[Fault]
    servers: int
    workers: int
    slots: int

    @property
    def skew(self) -> float:
        """The most that the clock of a server is wrong at any time of the run."""
        return self._skew

    def __post_init__(self) -> None:
        self._skew = self.rates.skew


def make_plan(options: Options) -> Plan:
    """Draw the faults of a seed. Leaving one out changes no other one."""
    draw = random.Random(f"{options.seed}:plan")
    calm = draw.random() < 0.04
    rates = Rates()
    for group in AMBIENT[:4]:
        strength = 0.0 if calm else draw.choice((0.0, 0.3, 1.0, 1.0, 2.0))
        chances = [draw.random() for _ in range(4)]
        if group in options.without:
            continue
        if group == "network":
            rates.lost = 0.04 * strength * chances[0]
            rates.unheard = 0.06 * strength * chances[1]
            rates.repeated = 0.08 * strength * chances[2]
            rates.late = 0.06 * strength * chances[3]
        elif group == "store":
            rates.store_error = 0.015 * strength * chances[0]
            rates.commit_fault = 0.10 * strength * chances[1]
        elif group == "wakeups":
            rates.wakeup_lost = min(1.0, strength * chances[0])
        else:
            rates.skew = min(1.0, strength * chances[0]) * SKEW
    count = 0 if calm else draw.randint(2, 9)
    kinds = draw.sample(TIMED, draw.randint(2, 7))
    kinds = list(options.kinds) or kinds
    faults = [_fault(draw, draw.choice(kinds)) for _ in range(count)]
    if options.has_more and not (calm or options.kinds):
        more = random.Random(f"{options.seed}:more")
        count = more.choice((0, 1, 1, 2, 3))
        faults += [_fault(more, more.choice(MORE)) for _ in range(count)]
    kept = [each for n, each in enumerate(faults) if n not in options.skip]
    return Plan(
        rates,
        sorted(kept, key=lambda each: each.at),
        servers=draw.choice((1, 2, 2, 3)),
        workers=draw.choice((1, 2, 2, 3)),
        slots=draw.choice((1, 2, 4)),
    )


def _fault(draw: random.Random, kind: str) -> Fault:
    seconds = draw.choice((0.05, 0.5, 1.5, 3.0, 5.0)) * (0.5 + draw.random())
    if kind.startswith("freeze"):
        seconds = draw.choice((0.5, 2.0, 5.0, 10.0, 20.0)) * (0.5 + draw.random() / 2)
    if kind == "partition":
        seconds = draw.choice((1.5, 3.0, 6.0, 9.0)) * (0.5 + draw.random() / 2)
    early = draw.random() < 0.5
    at = draw.random() * (2.0 if early else FAULTY_UNTIL)
    return Fault(at, kind, draw.randrange(1000), seconds, draw.randrange(60))
