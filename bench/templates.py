"""Templates beside stock Jinja2, in one run: ratios, because machines differ.

python bench/templates.py
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from noetl.templates import Template, compile_guard, compile_template

GUARD = (
    "{{ outcome.status == 'error' and outcome.http.status in "
    "[429, 500, 502, 503, 504] }}"
)
URL = (
    "https://{{ ctx.host }}/orders/{{ ctx.order.id }}?page={{ ctx.page | default(1) }}"
)
LOOP = "{% for row in ctx.rows %}{{ row.id }},{{ row.name | upper }}\n{% endfor %}"
SCOPE: dict[str, Any] = {
    "outcome": {"status": "error", "http": {"status": 503}},
    "ctx": {
        "host": "example.org",
        "order": {"id": 7},
        "rows": [{"id": n, "name": f"name {n}"} for n in range(100)],
    },
}


def measure(function: Callable[[], object], least: float = 0.2) -> float:
    """Microseconds of one call: the best of five rounds."""
    timer = timeit.Timer(function)
    number, taken = timer.autorange()
    number = max(1, int(number * least / max(taken, 1e-9)))
    return min(timer.repeat(5, number)) / number * 1e6


def evaluation() -> None:
    print(f"{'evaluate':<12}{'NoETL':>10}{'Jinja2':>10}{'sandbox':>10}   ratios")
    plain, sandbox = jinja2.Environment(), SandboxedEnvironment()
    expression = GUARD.strip("{} ")
    guard = compile_guard(GUARD)
    rows: list[tuple[str, Callable[[], object], Any, Any]] = [
        (
            "guard",
            lambda: guard.holds(SCOPE),
            plain.compile_expression(expression),
            sandbox.compile_expression(expression),
        )
    ]
    for name, source in (("url", URL), ("100 rows", LOOP)):
        template = compile_template(source)
        rows.append(
            (
                name,
                lambda template=template: template.render(SCOPE),  # type: ignore[misc]
                plain.from_string(source).render,
                sandbox.from_string(source).render,
            )
        )
    for name, ours, stock, sandboxed in rows:
        times = (
            measure(ours),
            measure(lambda stock=stock: stock(SCOPE)),  # type: ignore[misc]
            measure(lambda sandboxed=sandboxed: sandboxed(SCOPE)),  # type: ignore[misc]
        )
        report(name, times)


def compilation() -> None:
    print(f"\n{'compile':<12}{'NoETL':>10}{'parse':>10}{'compile':>10}   ratios")
    plain = jinja2.Environment()
    for name, source in (("guard", GUARD), ("url", URL), ("100 rows", LOOP)):
        times = (
            measure(lambda source=source: Template(source)),  # type: ignore[misc]
            measure(lambda source=source: plain.parse(source)),  # type: ignore[misc]
            measure(lambda source=source: plain.from_string(source)),  # type: ignore[misc]
        )
        report(name, times)


def report(name: str, times: tuple[float, ...]) -> None:
    cells = "".join(f"{time:8.1f}µs" for time in times)
    ratios = "  ".join(f"{other / times[0]:.1f}x" for other in times[1:])
    print(f"{name:<12}{cells}   {ratios}")


def playbook() -> None:
    """A thousand different templates, as in a playbook of 300 steps."""
    sources = [GUARD.replace("429", str(n)) for n in range(250)]
    sources += [URL.replace("orders", f"orders{n}") for n in range(250)]
    sources += [f"{{{{ ctx.order.id{n} }}}}" for n in range(500)]
    taken = min(
        timeit.repeat(lambda: [Template(s) for s in sources], number=1, repeat=5)
    )
    print(f"\na playbook with {len(sources)} templates: {taken * 1000:.0f} ms to check")


if __name__ == "__main__":
    evaluation()
    compilation()
    playbook()
