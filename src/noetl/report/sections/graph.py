"""The net with what happened painted on it; a click on a step leads to its detail."""

from __future__ import annotations

from noetl.net.draw.paint import Look, Paint
from noetl.net.draw.svg import draw_svg
from noetl.net.net import build_net
from noetl.report.markup import Html, element
from noetl.report.material import Material
from noetl.report.record import StepCounts
from noetl.report.words import count, duration

MOST_STEPS = 300
_LEGEND = (
    ("done", "done"),
    ("failed", "failed"),
    ("active", "not over"),
    ("idle", "not reached, or denied"),
)


def paint_of(material: Material) -> Paint:
    record = material.record
    steps = {step: record.steps.get(step, StepCounts()) for step in material.steps}
    return Paint(
        looks={step: look_of(counts) for step, counts in steps.items()},
        notes={step: _note(counts) for step, counts in steps.items()},
        links={step: f"#{material.anchor(step)}" for step in steps},
        fired=record.fired,
    )


def look_of(counts: StepCounts) -> Look:
    if counts.failed:
        return "failed"
    if counts.active or (waiting_tokens(counts) and not counts.runs):
        return "active"
    if counts.done:
        return "done"
    return "skipped" if counts.skipped else "idle"


def waiting_tokens(counts: StepCounts | None) -> int:
    """Tokens that a join holds back: what it took is not counted any more."""
    return 0 if counts is None or counts.runs or counts.skipped else counts.joined


def graph(material: Material, paint: Paint) -> Html | None:
    playbook = material.playbook
    if playbook is None or not playbook.steps:
        return None
    return element(
        "section",
        element("h2", "Graph"),
        _legend(),
        _picture(material, paint),
        id="graph",
    )


def _picture(material: Material, paint: Paint) -> Html:
    assert material.playbook is not None
    steps = len(material.playbook.steps)
    if steps > MOST_STEPS:
        words = f"A net of {steps:,} steps is too large for a page; draw it with "
        return element("p", words, element("code", "noetl graph"), ".", class_="rest")
    svg = Html(draw_svg(build_net(material.playbook), paint))
    return element("div", svg, class_="canvas", tabindex=0, aria_label="The graph")


def _legend() -> Html:
    signs = [
        element("li", element("i", class_=f"sign {look}"), words)
        for look, words in _LEGEND
    ]
    arcs = element(
        "li", element("i", class_="sign arc-sign"), "arc that fired, how often"
    )
    fit = element(
        "button", "fit to width", type="button", id="fit", aria_pressed="false"
    )
    return element("ul", signs, arcs, element("li", fit, hidden=True), class_="legend")


def _note(counts: StepCounts) -> str:
    if waiting_tokens(counts):
        return f"{count(counts.joined, 'token')} waiting"
    if not counts.runs:
        return "denied" if counts.skipped else "not reached"
    words = []
    if counts.runs > 1:
        words.append(count(counts.runs, "run"))
    if counts.iterations:
        words.append(count(counts.iterations, "iteration"))
    if counts.failed_iterations:
        words.append(f"{counts.failed_iterations:,} failed")
    if counts.failed:
        words.append(f"{counts.failed:,} failed" if counts.runs > 1 else "failed")
    if counts.retries:
        words.append(
            "1 retry" if counts.retries == 1 else f"{counts.retries:,} retries"
        )
    words.append("not over" if counts.active else duration(counts.spent))
    return " · ".join(words)
