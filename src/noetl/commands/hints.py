"""Names that were probably meant to be others."""

from __future__ import annotations

from collections.abc import Iterable

import click

from noetl.dsl.diagnostics import nearest


def warn_of_new_names(
    names: Iterable[str], known: Iterable[str], option: str, what: str
) -> None:
    """A new name is allowed; one that looks like a known one may be a mistake."""
    known = set(known)
    for name in names:
        top = name.split(".")[0]
        match = nearest(top, known) if top not in known else None
        if match is not None:
            text = f"{option} {name}: {what} has no '{top}', but it has '{match}'"
            click.echo(f"warning: {text}", err=True)
