"""Runs of playbook tests per second of CPU, and events per run.

python bench/playbook_tests.py
"""

from __future__ import annotations

import time
from pathlib import Path

from noetl import load
from noetl.dsl.model import Playbook
from noetl.engine.tasks.outcome import Failure
from noetl.testing.parse import parse_suite
from noetl.testing.run_case import Attempt, Trial
from noetl.testing.verdict import judge

EXAMPLES = Path(__file__).parents[1] / "examples"
SECONDS = 2.0
CASES = {
    "hello.yaml": "somebody is greeted by name",
    "directives/retry.yaml": "a busy server is asked again, more and more patiently",
    "pagination.yaml": "transient failures are retried with growing delays",
    "hotels.yaml": "a page that fails four times comes in the end",
}


def main() -> None:
    print(f"{'case':<58}{'events':>8}{'runs/s':>10}")
    for name, case in CASES.items():
        playbook = load((EXAMPLES / name).read_bytes()).playbook
        assert playbook is not None
        events, rate = measure(playbook, EXAMPLES / name, case)
        print(f"{f'{name}: {case}'[:56]:<58}{events:>8}{rate:>10,.0f}")


def measure(playbook: Playbook, path: Path, name: str) -> tuple[int, float]:
    """How many runs, judged and all, one core makes; each under another schedule."""
    suite, _ = parse_suite(path.with_suffix(".test.yaml").read_bytes())
    assert suite is not None
    (case,) = [each for each in suite.cases if each.name == name]
    trial = Trial(case, playbook, lambda path, version: Failure("x", "no children"))
    runs = events = 0
    began = time.process_time()
    while time.process_time() - began < SECONDS:
        seen = Attempt(trial, runs).run()
        assert not list(judge(case, seen))
        runs, events = runs + 1, len(seen.log)
    return events, runs / (time.process_time() - began)


if __name__ == "__main__":
    main()
