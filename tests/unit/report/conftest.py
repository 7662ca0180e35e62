"""Pages from a few lines of YAML: simulated, folded, written, and read again."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from textwrap import dedent, indent

import pytest

from noetl import load
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Call
from noetl.report.fold import Record
from noetl.report.page import write_page

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"


class Page(HTMLParser):
    """The page as a browser without a screen sees it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.inside):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


Script = Callable[[Call], Outcome]


def simulate(
    workflow: str, script: Script = lambda call: Outcome.ok(None), root: str = ""
) -> tuple[Simulation, str]:
    text = HEAD + dedent(root) + "workflow:\n" + indent(dedent(workflow), "  ")
    loaded = load(text)
    assert loaded.playbook is not None, loaded.diagnostics
    simulation = Simulation(loaded.playbook, script)
    simulation.run()
    return simulation, text


@pytest.fixture
def page_of() -> Callable[..., Page]:
    """A function from a workflow and its script to its page."""

    def make(workflow: str, script: Script | None = None, root: str = "") -> Page:
        answer = script or (lambda call: Outcome.ok(None))
        simulation, text = simulate(workflow, answer, root)
        record = Record().take(simulation.log)
        return Page(write_page(record, simulation.playbook, text, version="0"))

    return make
