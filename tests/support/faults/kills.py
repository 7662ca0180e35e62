"""The storm of kills, freezes and wiped data as a campaign in parts."""

from __future__ import annotations

from pathlib import Path

from faults.campaign import Plan, run
from faults.ordeal import Say
from faults.parts import Part

NAME = "kills"
SECONDS_A_FAULT = 1.2
REQUIRED = frozenset({"attempts in doubt"})


def run_kills(seed: int, seconds: float, folder: Path, say: Say) -> Part:
    """Run one part; its work lasts as long as its faults."""
    kills = max(round(seconds / SECONDS_A_FAULT), 8)
    plan = Plan(
        seed=seed,
        iterations=200,
        size=500,
        kills=kills,
        freezes=max(kills // 30, 1),
        wipes=max(kills // 15, 1),
        workers=4,
        clients=2,
    )
    report = run(plan, folder, say)
    found = report.found
    part = Part(seed=seed, seconds=report.seconds)
    part.faults = {
        name if name in ("frozen", "nats, wiped") else f"{name} killed": count
        for name, count in report.kills.items()
    }
    part.figures = {
        "iterations": found.iterations,
        "events": found.events,
        "operations": report.operations,
        "further claims": found.steals,
        "attempts in doubt": found.in_doubt,
        "late reports refused": report.fenced,
        "effects twice": found.duplicates,
    }
    part.wrong = [*found.wrong, *(f"ended by itself: {each}" for each in report.exits)]
    missing = [name for name in REQUIRED if not part.figures[name]]
    part.wrong += [f"this did not happen: {name}" for name in sorted(missing)]
    return part
