"""Page as one document: nothing is fetched, and only its own script may run."""

from __future__ import annotations

from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from noetl.dsl.model import Playbook
from noetl.net.draw.svg import style_of
from noetl.report.fold import Record
from noetl.report.page_data import PageData
from noetl.report.runs import TaskLogSample
from noetl.report.sections.details import data, events, source
from noetl.report.sections.graph import graph, paint_of
from noetl.report.sections.head import head
from noetl.report.sections.steps import steps
from noetl.report.sections.timeline import timeline

if TYPE_CHECKING:
    from jinja2 import Environment

_KEPT = frozenset("\n\t")


def write_page(
    record: Record,
    playbook: Playbook | None,
    text: str | None,
    *,
    version: str,
    logs: TaskLogSample | None = None,
) -> str:
    """Return the whole page. ``text`` is the playbook's, if it could be read."""
    page = PageData(record, playbook, text, logs or TaskLogSample())
    paint = paint_of(page)
    top, facts = (
        head(page),
        data(page),
    )  # these sections take their share of the budget first
    sections = {
        "graph": graph(page, paint),
        "timeline": timeline(page),
        "steps": steps(page),
        "data": facts or None,
        "events": events(page),
        "playbook": source(page),
    }
    style, script = _asset("page.css"), _asset("page.js")
    return (
        _environment()
        .get_template("page.html")
        .render(
            execution_id=page.execution_id,
            name=str(record.playbook.get("name") or "execution"),
            status=record.status,
            version=version,
            head=top,
            sections={
                name: each for name, each in sections.items() if each is not None
            },
            style=style,
            script=script,
            policy=_policy(style, script, style_of(paint)),
        )
    )


def _policy(style: str, script: str, picture: str) -> str:
    """Return a content policy that allows style and script by hash only."""
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src {_digest(style)} {_digest(picture)}; script-src {_digest(script)}"
    )


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Return the template environment, which escapes all values.

    Only the page's own style, script and picture are marked ``safe``.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(lambda name: _asset(f"templates/{name}")),
        autoescape=True,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


def visible(value: object) -> object:
    """Return the value; invisible control characters in text are replaced."""
    if type(value) is not str or value.isprintable():  # markup has its own type
        return value
    return "".join(
        char if char.isprintable() or char in _KEPT else "\ufffd" for char in value
    )


def _digest(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
