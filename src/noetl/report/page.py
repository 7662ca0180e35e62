"""The page as one document: nothing is fetched, and only our own script may run."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from noetl.dsl.model import Playbook
from noetl.net.draw.svg import style_of
from noetl.report.markup import Html, element
from noetl.report.material import Material
from noetl.report.record import Record
from noetl.report.sections.data import data
from noetl.report.sections.events import events
from noetl.report.sections.graph import graph, paint_of
from noetl.report.sections.head import head
from noetl.report.sections.source import source
from noetl.report.sections.steps import steps
from noetl.report.sections.timeline import timeline

_NAMES = {
    "graph": "Graph",
    "timeline": "Timeline",
    "steps": "Steps",
    "data": "Data",
    "events": "Events",
    "playbook": "Playbook",
}


def write_page(
    record: Record, playbook: Playbook | None, text: str | None, *, version: str
) -> str:
    """The whole page. ``text`` is the playbook's, if it could be read."""
    material = Material(record, playbook, text)
    paint = paint_of(material)
    top, facts = head(material), data(material)  # they take what they need first
    sections = {
        "graph": graph(material, paint),
        "timeline": timeline(material),
        "steps": steps(material),
        "data": facts,
        "events": events(material),
        "playbook": source(material),
    }
    style, script = _asset("page.css"), _asset("page.js")
    body = element(
        "body",
        element("a", "Skip to the steps", href="#steps", class_="skip"),
        _navigation(sections),
        element("main", top, sections.values()),
        element(
            "footer",
            f"Written by NoETL {version} from the log of ",
            element("code", material.execution_id),
            ".",
        ),
        element("script", Html(script)),
    )
    document = element(
        "html", _head(record, style, script, style_of(paint)), body, lang="en"
    )
    return f"<!doctype html>\n{document}\n"


def _head(record: Record, style: str, script: str, picture: str) -> Html:
    """The policy names what may be applied by its hash, so nothing of the log can."""
    name = str(record.playbook.get("name") or "execution")
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src {_digest(style)} {_digest(picture)}; script-src {_digest(script)}"
    )
    meta = {"http_equiv": "Content-Security-Policy", "content": policy}
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", **meta),
        element(
            "meta", name_="viewport", content="width=device-width, initial-scale=1"
        ),
        element("meta", name_="color-scheme", content="light dark"),
        element("meta", name_="referrer", content="no-referrer"),
        element("title", f"{name}: {record.status}"),
        element("style", Html(style)),
    )


def _navigation(sections: dict[str, Html | None]) -> Html:
    present = [name for name, section in sections.items() if section is not None]
    links = (element("a", _NAMES[name], href=f"#{name}") for name in present)
    return element(
        "nav", element("a", "Overview", href="#top"), links, aria_label="Sections"
    )


def _digest(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
