"""The bars of the web pages, one part for each thing that a person does."""

from __future__ import annotations

import gzip
import random
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from large_home import LargeHome, wide
from playwright.sync_api import Browser, Page
from servers import HEAD, Api

from parts.ui_probe import NAMES, Screen

UI = Path(__file__).parents[2] / "src" / "noetl" / "ui"
TICKS = 40
TICK = "  - {step: s%d, tool: {kind: wait, for: 0.2s}, next: {arcs: [{step: s%d}]}}\n"
STEADY = f"""{HEAD}metadata: {{name: steady, path: large/steady}}
workflow:
  - step: many
    loop: {{in: "{{{{ range(400000) }}}}", iterator: x}}
    tool: {{kind: noop, result: 1}}
"""
WAIT_S = 90
NODE = ".node"
seen: dict[str, int] = {"events": 0}


class Size(NamedTuple):
    steps: int
    iterations: int
    executions: int
    loads: int
    moves: int
    follow: float


class Bar(NamedTuple):
    name: str
    limit: float | None
    measured: float
    unit: str
    note: str = ""

    @property
    def row(self) -> str:
        limit = "" if self.limit is None else f"{self.limit:,g} {self.unit}"
        holds = (
            ""
            if self.limit is None
            else "yes"
            if self.measured <= self.limit
            else "**no**"
        )
        digits = (
            3
            if self.unit == "" and self.measured < 1
            else 0
            if self.measured >= 100
            else 1
        )
        value = f"{self.measured:,.{digits}f} {self.unit}".strip()
        note = f" ({self.note})" if self.note else ""
        return f"| {self.name} | {limit.strip()} | {value}{note} | {holds} |"


class Desk(NamedTuple):
    browser: Browser
    api: Api
    large: LargeHome
    size: Size

    def screen(self) -> Screen:
        return Screen(self.browser, self.api.url)

    @property
    def path(self) -> str:
        return f"/executions/{self.large.execution_id}"


def p95(values: Sequence[float]) -> float:
    return sorted(values)[max(0, round(len(values) * 0.95) - 1)]


def await_port(port: int) -> None:
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("bench: the server does not listen")


def version() -> str:
    program = next(path for name in NAMES if (path := shutil.which(name)))
    said = subprocess.run([program, "--version"], capture_output=True, text=True)
    return said.stdout.split()[1]


# -- opening -------------------------------------------------------------------------


def opening(desk: Desk) -> Iterator[Bar]:
    pages = {
        "the large execution": (desk.path, NODE, 1_500.0),
        "many executions": ("/executions", "[role=row][data-id]", 700.0),
    }
    for name, (path, until, limit) in pages.items():
        paints, requests, shifts, longest = [], [], [], []
        for _ in range(desk.size.loads):
            screen = desk.screen()
            screen.open(path, until)
            screen.rest(1_500)
            paints.append(float(screen.probe("lcp")))
            requests.append(float(screen.page.evaluate(BEFORE_CONTENT)))
            shifts.append(float(screen.probe("cls")))
            longest.append(longest_task(screen))
            screen.close()
        times = f"{len(paints)} loads, the longest {max(paints):,.0f} ms"
        yield Bar(f"LCP, cold: {name}", limit, statistics.median(paints), "ms", times)
        yield Bar(
            f"requests that it waits for: {name}", 6, statistics.median(requests), ""
        )
        yield Bar(f"CLS: {name}", 0.02, max(shifts), "")
        yield Bar(
            f"longest task, opening: {name}", 100, statistics.median(longest), "ms"
        )


# The document is one, too; the icon of the tab is the browser's.
BEFORE_CONTENT = """
1 + performance.getEntriesByType("resource")
  .filter((e) => e.responseEnd < probe.content && !e.name.endsWith(".svg")).length
"""


def longest_task(screen: Screen, since: float = 0.0) -> float:
    tasks = [length for start, length in screen.probe("long") if start >= since]
    return max(tasks, default=0.0)


# -- time travel ---------------------------------------------------------------------


def slider(desk: Desk) -> Iterator[Bar]:
    screen = desk.screen()
    page = screen.open(f"{desk.path}?tab=data&sel=-", NODE)
    page.locator(".position .mono", has_text=":").wait_for()
    seen["events"] = int(page.get_by_role("slider").get_attribute("aria-valuemax") or 0)
    screen.rest()
    since = page.evaluate("performance.now()")
    first = drag(page, 20, with_values=False)
    screen.rest(1_000)
    times = drag(page, desk.size.moves, with_values=False)
    yield Bar(
        "slider to paint, p95",
        50,
        p95(times),
        "ms",
        f"median {statistics.median(times):.0f} ms",
    )
    yield Bar("slider to paint, the first 20 moves, p95", None, p95(first), "ms")
    rests = drag(page, max(20, desk.size.moves // 10), with_values=True)
    yield Bar(
        "values, p95",
        150,
        p95(rests),
        "ms",
        f"median {statistics.median(rests):.0f} ms",
    )
    yield Bar("longest task, time travel", 100, longest_task(screen, since), "ms")
    screen.close()


def drag(page: Page, moves: int, *, with_values: bool) -> list[float]:
    """Move the knob to positions anywhere in the log; milliseconds to the screen."""
    chance = random.Random(7)
    box = page.get_by_role("slider").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, y)
    page.mouse.down()
    times = []
    for _ in range(moves):
        page.evaluate(f"void (window.answer = moved({str(with_values).lower()}))")
        page.mouse.move(box["x"] + 2 + chance.random() * (box["width"] - 4), y)
        times.append(float(page.evaluate("answer")))
    page.mouse.up()
    return times


# -- the graph -----------------------------------------------------------------------


def panning(desk: Desk) -> Iterator[Bar]:
    screen = desk.screen()
    page = screen.open(f"{desk.path}?sel=s{desk.size.steps // 2}&zoom=0.7,0,0", NODE)
    page.get_by_role("button", name="Find a step").click()
    page.get_by_label("Find a step").fill(f"s{desk.size.steps // 2}")
    page.keyboard.press("Escape")
    screen.rest(1_000)
    box = page.locator("svg.net").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    since = page.evaluate("performance.now()")
    frames = []
    for turn in range(4):
        page.mouse.move(x, y)
        page.mouse.down()
        page.evaluate("count()")
        for step in range(60):
            page.mouse.move(
                x + (turn % 2 * 2 - 1) * step * 2, y + (step if turn < 2 else -step)
            )
        frames += page.evaluate("cancelAnimationFrame(counting), frames")
        page.mouse.up()
    yield Bar("frame of a pan, p95", 20, p95(frames), "ms", f"{len(frames)} frames")
    yield Bar("longest task, panning", 100, longest_task(screen, since), "ms")
    screen.close()


def inputs(desk: Desk) -> Iterator[Bar]:
    """Clicks and keys of a visit: tabs, steps, find, the slider, the graph."""
    screen = desk.screen()
    page = screen.open(f"{desk.path}?sel=-", NODE)
    screen.rest(1_000)
    since = page.evaluate("performance.now()")
    for name in ("Events", "Data", "Steps", "Playbook", "Timeline"):
        page.get_by_role("tab", name=name, exact=True).click()
        screen.rest(300)
    page.get_by_role("button", name="Find a step").click()
    page.get_by_label("Find a step").press_sequentially(f"s{desk.size.steps // 2}")
    page.keyboard.press("Escape")
    page.locator("svg.net").focus()
    for key in ("ArrowDown", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
        screen.rest(200)
    page.get_by_role("slider").focus()
    for key in (
        "ArrowLeft",
        "Shift+ArrowLeft",
        "Alt+ArrowLeft",
        "Home",
        "ArrowRight",
        "End",
    ):
        page.keyboard.press(key)
        screen.rest(200)
    page.locator(NODE).first.click()
    page.get_by_role("button", name="Close the panel").click()
    screen.rest(300)
    taken = [
        float(each) for each in screen.page.evaluate("Object.values(probe.inputs)")
    ]
    yield Bar(
        "INP",
        200,
        max(taken, default=0.0),
        "ms",
        f"the worst; {len(taken)} above 16 ms",
    )
    yield Bar("longest task, clicks and keys", 100, longest_task(screen, since), "ms")
    screen.close()


# -- what happens now ----------------------------------------------------------------


def ticks() -> str:
    steps = "".join(TICK % (at, at + 1) for at in range(TICKS))
    end = f"  - {{step: s{TICKS}, tool: {{kind: noop}}}}\n"
    return (
        f"{HEAD}metadata: {{name: ticks, path: large/ticks}}\nworkflow:\n{steps}{end}"
    )


def delays(browser: Browser, starts: Api, shows: Api) -> list[float]:
    """Milliseconds from the time of each event until its row could be on the screen."""
    screen = Screen(browser, shows.url)
    execution_id = starts.start(ticks())
    page = screen.open(f"/executions/{execution_id}?sel=-", "[role=slider]")
    page.evaluate("follow()")
    begun = int(page.get_by_role("slider").get_attribute("aria-valuemax") or 0)
    page.locator(".execution-head", has_text="completed").wait_for()
    screen.rest()
    seen_at: list[tuple[int, float]] = page.evaluate("lengths")
    screen.close()
    events = starts.get(f"/api/executions/{execution_id}/events?limit=1000").body[
        "events"
    ]
    found = []
    for event in events:
        at = datetime.fromisoformat(event["timestamp"]).timestamp() * 1e3
        shown = next((when for length, when in seen_at if length >= event["seq"]), None)
        if event["seq"] > begun + 10 and shown is not None:
            found.append(shown - at)
    return found


def commit(desk: Desk) -> Iterator[Bar]:
    found = delays(desk.browser, desk.api, desk.api)
    note = f"{len(found)} events, median {statistics.median(found):.0f} ms"
    yield Bar("commit to screen, p95", 300, p95(found), "ms", note)


def commit_behind_another(browser: Browser, first: Api, second: Api) -> Bar:
    found = delays(browser, first, second)
    note = f"PostgreSQL, {len(found)} events, median {statistics.median(found):.0f} ms"
    return Bar(
        "commit to screen behind another server, p95", 1_300, p95(found), "ms", note
    )


def following(desk: Desk) -> Iterator[Bar]:
    """A loop runs at its own speed while the page follows it."""
    screen, api = desk.screen(), desk.api
    begin = wide(desk.size.steps, loop=True)
    execution_id = api.start(begin, workload={"n": 4 * desk.size.iterations})
    page = screen.open(f"/executions/{execution_id}?sel=many", NODE)
    screen.rest(2_000)
    shifted = float(screen.probe("cls"))
    used, length, began = screen.task_seconds(), last(page), time.monotonic()
    screen.rest(4_000)
    used, length = screen.task_seconds() - used, last(page) - length
    took = time.monotonic() - began
    shifted = float(screen.probe("cls")) - shifted
    api.post(f"/api/executions/{execution_id}/cancel")
    rate = f"{length / took:,.0f} events/s"
    yield Bar("main thread (CPU) while a loop runs", 40, used / took * 100, "%", rate)
    yield Bar("CLS while a loop runs", 0.02, shifted, "")
    yield Bar("longest task, following", 100, longest_task(screen), "ms")
    screen.close()


def last(page: Page) -> int:
    return int(page.get_by_role("slider").get_attribute("aria-valuemax") or 0)


def memory(desk: Desk) -> Iterator[Bar]:
    """Follow a loop, and move the slider; the heap is read after a collection."""
    screen, api = desk.screen(), desk.api
    execution_id = api.start(STEADY)
    page = screen.open(f"/executions/{execution_id}?sel=many&tab=events", NODE)
    half = desk.size.follow / 2
    screen.rest(half * 1_000)
    middle, _ = screen.heap()
    screen.rest(half * 1_000)
    used, elements = screen.heap()
    length = f"{last(page):,} events"
    api.post(f"/api/executions/{execution_id}/cancel")
    yield Bar("heap after following", 120, used, "MB", length)
    yield Bar("its growth in the second half", 10, (used / middle - 1) * 100, "%")
    yield Bar("elements after following", 15_000, elements, "")
    page = screen.open(f"{desk.path}?tab=data&sel=-", NODE)
    drag(page, desk.size.moves // 2, with_values=False)
    before, _ = screen.heap()
    drag(page, desk.size.moves - desk.size.moves // 2, with_values=False)
    used, elements = screen.heap()
    moved = f"{desk.size.moves:,} moves"
    yield Bar("heap after time travel", 120, used, "MB", moved)
    yield Bar(
        "its growth in the second half of the moves", 10, (used / before - 1) * 100, "%"
    )
    yield Bar("elements after time travel", 15_000, elements, "")
    screen.close()


# -- sizes and calls -----------------------------------------------------------------


def sizes(desk: Desk) -> Iterator[Bar]:
    screen = desk.screen()
    screen.open("/executions", "[role=row][data-id]")
    names = screen.page.evaluate(
        "performance.getEntriesByType('resource').map((e) => e.name.split('/').pop())"
    )
    screen.close()
    kept = {each.name: packed(each) for each in (UI / "assets").iterdir()}
    first = packed(UI / "index.html") + sum(kept.get(name, 0) for name in names)
    editor = max(size for name, size in kept.items() if "editor" in name)
    yield Bar("gzip of the first load", 180, first, "KB")
    yield Bar("gzip of the editor's chunk", 160, editor, "KB")
    yield Bar("gzip of all", 400, sum(kept.values()), "KB")


def packed(file: Path) -> float:
    return len(gzip.compress(file.read_bytes(), 6)) / 1024


def calls(desk: Desk) -> Iterator[Bar]:
    api, path = desk.api, f"/api/executions/{desk.large.execution_id}"
    length = api.get(f"{path}/head").body["last_seq"]
    seen["events"] = length
    chance = random.Random(3)
    [loop] = api.get(f"{path}/runs?step=many").body["runs"]
    works: dict[str, Callable[[], Any]] = {
        "head": lambda: f"{path}/head",
        "a page of the track": lambda: (
            f"{path}/track?page={chance.randrange(length // 10_000 + 1)}"
        ),
        "state at an event": lambda: (
            f"{path}/state?at={chance.randint(1, length)}&parts=ctx"
        ),
        "100 events": lambda: (
            f"{path}/events?after={chance.randrange(length)}&limit=100"
        ),
        "graph": lambda: f"{path}/graph",
        "iterations": lambda: f"{path}/runs/{loop['run']}/iterations?order=duration",
        "100 executions": lambda: "/api/executions?limit=100",
        "100 executions that failed": lambda: "/api/executions?limit=100&status=failed",
        "counts of executions": lambda: "/api/executions/counts",
    }
    for name, path_of in works.items():
        taken = []
        for _ in range(20):
            asked = path_of()
            began = time.perf_counter()
            answer = api.get(asked)
            taken.append((time.perf_counter() - began) * 1e3)
            assert answer.status == 200, answer.body
        note = f"first {taken[0]:.0f} ms, p95 {p95(taken):.0f} ms"
        yield Bar(f"call: {name}", None, statistics.median(taken), "ms", note)


Part = Callable[[Desk], Iterator[Bar]]
PARTS: dict[str, Part] = {
    "calls": calls,
    "sizes": sizes,
    "opening": opening,
    "slider": slider,
    "panning": panning,
    "inputs": inputs,
    "commit": commit,
    "following": following,
    "memory": memory,
}
