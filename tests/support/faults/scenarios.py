"""The campaigns of real faults, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from faults import full_home, kills
from faults.clocks import WrongClocks, why_no_library
from faults.disks import FullDatabase, why_no_disk
from faults.memory import OutOfMemory
from faults.namespaces import why_no_namespaces
from faults.ordeal import Say, Scenario, run
from faults.partitions import Partition, WirePartition
from faults.parts import Part
from faults.promotions import Promotion
from faults.restarts import PostmasterKill, RollingRestart

Campaign = Callable[[int, float, Path, Say], Part]


def _of(make: Callable[[], Scenario]) -> Campaign:
    return lambda seed, seconds, folder, say: run(make(), seed, seconds, folder, say)


SCENARIOS = (
    FullDatabase,
    OutOfMemory,
    Partition,
    PostmasterKill,
    Promotion,
    RollingRestart,
    WirePartition,
    WrongClocks,
)
CAMPAIGNS: Mapping[str, Campaign] = {
    kills.NAME: kills.run_kills,
    full_home.NAME: full_home.run_full_home,
    **{each.name: _of(each) for each in SCENARIOS},
}
NEEDS: Mapping[str, Callable[[], str | None]] = {
    full_home.NAME: why_no_disk,
    FullDatabase.name: why_no_disk,
    WirePartition.name: why_no_namespaces,
    WrongClocks.name: why_no_library,
}
"""Functions that return why a campaign cannot run on this machine, or None.

Without memory groups the campaign ``out of memory`` limits the address space instead;
without namespaces ``partition`` shows what proxies can show.
"""
