"""Measurements of a soak, and which of them grow."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

WARM_UP = 1
"""Parts of a session that are not compared: caches and connections grow in them."""
GROWTH = {"memory (MB)": 1.05, "descriptors": 1.1, "bytes an execution": 1.1}
"""How often the first compared value a later one may be, within one session."""
LATENCY_GROWTH = 1.2
NOISE = {"memory (MB)": 8.0, "descriptors": 8.0, "bytes an execution": 200.0}
"""What a value may be above that, whatever the first one was."""
LATENCY_NOISE_MS = 40.0


class Sample(msgspec.Struct, kw_only=True):
    """What one part has measured of the processes that no fault has touched."""

    session: int
    seconds: float
    executions: int
    faults: int
    figures: dict[str, float]
    p99_ms: float


def judge(samples: Sequence[Sample]) -> list[str]:
    """Return which figures grew within a session, after its warm-up."""
    wrong = []
    for session in sorted({each.session for each in samples}):
        parts = [each for each in samples if each.session == session][WARM_UP:]
        for first, later in ((parts[0], each) for each in parts[1:]):
            for name, growth in GROWTH.items():
                was, now = first.figures[name], later.figures[name]
                if now > was * growth + NOISE[name]:
                    wrong.append(f"session {session}: {name} {was:.0f}, then {now:.0f}")
        if len(parts) > 1:
            was, now = parts[0].p99_ms, parts[-1].p99_ms
            if now > was * LATENCY_GROWTH + LATENCY_NOISE_MS:
                wrong.append(f"session {session}: p99 {was:.0f} ms, then {now:.0f} ms")
    return wrong


def percentile(values: Sequence[float], share: float) -> float:
    ranked = sorted(values)
    return ranked[min(int(len(ranked) * share), len(ranked) - 1)] if ranked else 0.0
