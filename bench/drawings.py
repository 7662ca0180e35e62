"""What the drawing of a net costs, beside other programs that lay out graphs.

    python bench/drawings.py

A net has 100 or 1,000 steps and twice as many arcs: each step leads to the next one,
and to another one: mostly a few steps further on, sometimes far away, sometimes back.
Times are CPU seconds, the best of some rounds. ``layout`` is the position of every box
and arc; ``SVG`` is the whole picture, its layout included.

The packages igraph and pygraphviz (which brings Graphviz) are measured on the same net
if they are installed. NoETL does not need them.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator

from noetl import load
from noetl.net.draw import svg
from noetl.net.draw.dot import draw_dot
from noetl.net.draw.layout import lay_out
from noetl.net.draw.layout.graph import Box, Link
from noetl.net.net import Net, build_net

SIZES = (100, 1_000)
ROUNDS = 3
HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: bench, path: bench/drawings }
workflow:
"""
STEP = """\
  - step: step_{n}
    tool: {{ kind: noop }}
    next:
      spec: {{ mode: inclusive }}
      arcs:
"""
ARC = "        - {{ step: step_{to}, when: \"{{{{ event.name == '{event}' }}}}\" }}\n"
LAST = "  - step: step_{n}\n    tool: {{ kind: noop }}\n"


def make_net(steps: int) -> Net:
    chance = random.Random(steps)
    text = HEAD
    for n in range(steps - 1):
        text += STEP.format(n=n) + ARC.format(to=n + 1, event="step.done")
        text += ARC.format(to=choose_target(n, steps, chance), event="step.failed")
    loaded = load((text + LAST.format(n=steps - 1)).encode())
    if loaded.playbook is None:
        sys.exit(f"bench: {loaded.diagnostics[0].message}")
    return build_net(loaded.playbook)


def choose_target(n: int, steps: int, chance: random.Random) -> int:
    """Return a step nearby (90 %), anywhere further on (5 %), or before (5 %)."""
    kind = chance.random()
    if kind < 0.9:
        return min(n + chance.randint(2, 6), steps - 1)
    return chance.randint(n + 1, steps - 1) if kind < 0.95 else chance.randint(0, n)


def best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def ends_of(net: Net) -> list[tuple[int, int]]:
    numbers = {step: number for number, step in enumerate(net.steps)}
    return [(numbers[each.source], numbers[each.target]) for each in net.edges]


def measures(net: Net) -> Iterator[tuple[str, Callable[[], object]]]:
    ends = ends_of(net)
    boxes = [Box(160.0, 60.0) for _ in net.steps]
    links = [Link(source, target, 60.0) for source, target in ends]
    yield "NoETL, layout", lambda: lay_out(boxes, links)
    yield "NoETL, SVG", lambda: svg.draw_svg(net)
    try:
        import igraph
    except ModuleNotFoundError:
        print("igraph is not installed: not measured")
    else:
        graph = igraph.Graph(n=len(boxes), edges=ends, directed=True)
        yield "igraph, layout", graph.layout_sugiyama
    try:
        import pygraphviz
    except ModuleNotFoundError:
        print("pygraphviz is not installed: not measured")
    else:
        text = draw_dot(net)
        yield (
            "Graphviz dot, SVG",
            lambda: pygraphviz.AGraph(string=text).draw(format="svg", prog="dot"),
        )


def main() -> None:
    for steps in SIZES:
        net = make_net(steps)
        print(f"{steps:,} steps, {len(net.edges):,} arcs")
        for name, work in measures(net):
            print(f"  {name:20} {best(work):8.3f} s")


if __name__ == "__main__":
    main()
