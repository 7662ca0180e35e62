"""The net with what happened painted on it; a click on a step leads to its detail."""

from __future__ import annotations

from dataclasses import replace

from noetl.net.draw.paint import Paint
from noetl.net.draw.svg import draw_svg
from noetl.net.net import build_net
from noetl.report.markup import Html, element
from noetl.report.material import Material
from noetl.report.painting import paint_steps

MOST_STEPS = 300
_LEGEND = (
    ("done", "done"),
    ("failed", "failed"),
    ("active", "not over"),
    ("idle", "not reached, or denied"),
)


def paint_of(material: Material) -> Paint:
    links = {step: f"#{material.anchor(step)}" for step in material.steps}
    return replace(paint_steps(material.record, material.steps), links=links)


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
