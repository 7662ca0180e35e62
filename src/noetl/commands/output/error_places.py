"""Places of errors: found in the playbook, added to the document, printed."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING

import click
import msgspec

from noetl.errors import NoetlError
from noetl.report.places import Place, Source
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.client.http import Client

_LINE_OF_CODE = re.compile(r" \(line \d+ of the code\)")
_STEPS = 50  # failed steps of which the place is looked for


def add_places(document: dict[str, JSON], source: Source) -> None:
    """Add ``place`` to the errors whose place in the playbook is known."""
    failed = [step for step in document["steps"] if step["error"]][:_STEPS]
    errors = [
        (step["error"], {**step["error"], "step": step["step"]}) for step in failed
    ]
    if document["error"]:
        errors.append((document["error"], document["error"]))
    for error, located in errors:
        place = source.place_of(located)
        if place is not None:
            error["place"] = msgspec.to_builtins(place)


def look_for_places(document: dict[str, JSON], client: Client | None = None) -> None:
    """Add places from the stored text of the playbook, if there are errors.

    Without the text, as of a server that does not show it, there are no places.
    """
    failed = any(step["error"] for step in document["steps"])
    about = document["playbook"]
    if not (document["error"] or failed) or "sha256" not in about:
        return
    from noetl.commands.output.html_report import load_pinned, read_pinned
    from noetl.config import read_settings
    from noetl.local.home import Home

    settings = read_settings()
    playbook, text = None, None
    with suppress(NoetlError):
        if client is None:
            home = Home.of(settings)
            playbook, text = asyncio.run(read_pinned(settings, home, about))
        else:
            stored = BytesIO()
            execution_id = document["execution_id"]
            client.download(f"/api/executions/{execution_id}/playbook", stored)
            playbook, text = load_pinned(settings, stored.getvalue(), about)
    if text is not None:
        add_places(document, Source(playbook, text, about.get("path") or "playbook"))


def message_of(error: dict[str, JSON]) -> str:
    """Return the message, without the line of the code where the place is known."""
    message: str = error["message"]
    if "place" in error:
        return _LINE_OF_CODE.sub("", message)
    return message


def print_place(error: dict[str, JSON]) -> None:
    """Print the place of an error below its message."""
    if "place" in error:
        for line in msgspec.convert(error["place"], Place).as_text():
            click.echo(f"    {line}")
