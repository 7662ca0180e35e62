"""Writes the page of ``make coverage``: figures, exceptions, the parts of the suite."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from coverage_figures import AREAS, ROOT, Area, File, find_exceptions

PAGE = ROOT / "bench" / "COVERAGE.md"
INTRO = """# Branch coverage

Written by `make coverage`, which runs the tests in parts and goes on after an
interruption. Where a line may be followed by several others, each of these jumps is a
*branch*. The figures count what tests execute, in processes that they start, too. A
process that is killed, or that starts without its environment, is not counted.
Statements for types alone (`if TYPE_CHECKING`, `...` of protocols) are left out.
"""


def write_page(
    files: Mapping[str, File], records: Mapping[str, Any], stale: Collection[str]
) -> None:
    """Write the page. ``records`` are the last runs by part; ``stale`` are the parts
    that have changed since, or have not run."""
    lines = [INTRO, *_areas(files), "", *_exceptions(), "", *_parts(records, stale)]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _areas(files: Mapping[str, File]) -> Iterator[str]:
    yield "| | lines | not executed | branches | not taken | lines | branches | bound |"
    yield "|---|---|---|---|---|---|---|---|"
    for area in AREAS:
        yield _row(area, files, f"{area.least:g} %")
    tops = sorted({path.partition("/")[0] for path in files if "/" in path})
    for top in tops:
        yield _row(Area(f"`noetl.{top}`", (f"{top}/",), 0), files, "")
    held = [path for area in AREAS[:2] for path in area.paths]
    yield f"\nModules of the first two rows: {', '.join(f'`{path}`' for path in held)}."


def _row(area: Area, files: Mapping[str, File], bound: str) -> str:
    count = area.total(files)
    return (
        f"| {area.name} | {count.lines:,} | {count.lines_missed:,} "
        f"| {count.branches:,} | {count.branches_missed:,} "
        f"| {count.line_share:.2f} % | {count.branch_share:.2f} % | {bound} |"
    )


def _exceptions() -> Iterator[str]:
    found = find_exceptions()
    yield "## Exceptions\n"
    yield "What is not counted, with the reason that stands beside it:\n"
    yield "| module | code | reason |"
    yield "|---|---|---|"
    for path, code, reason in found:
        yield f"| `{path}` | `{code.replace('|', chr(92) + '|')}` | {reason} |"


def _parts(records: Mapping[str, Any], stale: Collection[str]) -> Iterator[str]:
    yield "## Parts\n"
    if stale:
        yield (
            "Parts with a `*` have changed since, or have not run: what they execute "
            "of a changed file is not counted above.\n"
        )
    yield "| part | date | commit | tests | seconds |"
    yield "|---|---|---|---|---|"
    for name, each in records.items():
        named = f"{name} *" if name in stale else name
        if not each:
            yield f"| {named} | | | | |"
            continue
        result = each["result"].rpartition(" in ")[0]
        yield (
            f"| {named} | {each['date']} | {each['commit']} | {result} "
            f"| {each['seconds']:,} |"
        )
    failed = [test for each in records.values() for test in each.get("failed", ())]
    if failed:
        yield "\nTests that fail while they are measured:\n"
        yield from (f"- `{test.removeprefix('tests/')}`" for test in failed)
