"""``noetl result``: what an execution has stored beside its log."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

import click

from noetl.commands.fetching import Fetcher
from noetl.commands.logs import find_execution, read_pages
from noetl.commands.naming import LOG, Named, named_in
from noetl.commands.printing import bytes_of, where_of
from noetl.commands.refs import read_ref
from noetl.config import read_plugins
from noetl.embedded import make_blobs
from noetl.errors import ConfigError, StoreError
from noetl.home import Home
from noetl.types import JSON

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("result")
def command() -> None:
    """List and fetch results, also those that are too large for the log.

    Each of the commands takes --json.

    \b
    Examples:
      noetl result ls last
      noetl result get last --output result.json
    """


@command.command("ls")
@click.argument("execution", metavar="ID")
@_json
def list_(execution: str, as_json: bool) -> None:
    """List what an execution has stored: key, size, and the task it comes from.

    \b
    Example:
      noetl result ls 019a8f
    """
    name, found, there = asyncio.run(_list(execution))
    if as_json:
        results = [_as_json(each, there) for each in found]
        document = {"execution_id": name, "results": results}
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    for each in found:
        click.echo(_line(each, there))
    if not found:
        click.echo("nothing: all results of this execution are in its log")


@command.command("get")
@click.argument("ref", metavar="REF")
@click.option("--step", metavar="NAME", help="Of an execution, the result of a step.")
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write to this file; it appears when it is whole.",
)
@_json
def get(ref: str, step: str | None, output: str | None, as_json: bool) -> None:
    """Write a result to standard output, or to a file.

    REF is a key that noetl result ls shows, with :FIRST-LAST for a part of its bytes;
    or the ID of an execution, for its result, with all that it refers to. Results are
    JSON, with --json or without; files that a task has exported are written as they
    are. What is stored is verified before anything is written.

    \b
    Examples:
      noetl result get last | jq .rows[0]
      noetl result get last --step extract --output orders.json
      noetl result get 5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef
    """
    with _target(output) as file:
        size = asyncio.run(_get(ref, step, file))
    if output is None:
        return
    if as_json:
        click.echo(json.dumps({"output": output, "size": size}))
    else:
        click.echo(f"{output}: {bytes_of(size)}", err=True)


async def _list(execution: str) -> tuple[str, list[Named], set[str] | None]:
    """Its id, each key once with the event that named it first, and what is there, as
    far as the store can tell."""
    home = Home.of()
    place = await find_execution(home, execution)
    found: dict[str, Named] = {}
    async for page in read_pages(place):
        for event in page:
            for named in named_in(event):
                found.setdefault(named.key, named)
    return place.execution_id, list(found.values()), await _there(home, bool(found))


async def _there(home: Home, wanted: bool) -> set[str] | None:
    if not wanted:
        return set()
    try:
        return {blob.key async for blob in make_blobs(home, read_plugins()).each()}
    except StoreError as error:
        if error.kind != "store.unlisted":
            raise
        return None


def _as_json(named: Named, there: set[str] | None) -> dict[str, JSON]:
    event, reference = named.event, named.reference
    return {
        "key": named.key,
        "size": reference["size"],
        "checksum": reference.get("checksum"),
        "schema_hint": reference.get("schema_hint"),
        "seq": event.seq,
        "event": event.name,
        "step": event.step,
        "task": event.task_label,
        "iteration_id": event.iteration_id,
        "path": named.path,
        "there": _is_there(named, there),
    }


def _line(named: Named, there: set[str] | None) -> str:
    event = named.event
    where = f"{where_of(event)} {event.task_label or ''}".strip() or event.name
    gone = (
        "" if _is_there(named, there) is not False else click.style("  gone", fg="red")
    )
    size = bytes_of(named.reference["size"])
    return f"{named.key}  {size:>10}  {where} {named.path}{gone}"


def _is_there(named: Named, there: set[str] | None) -> bool | None:
    """None if nobody knows."""
    if named.key.startswith(LOG):
        return True
    return None if there is None else named.key in there


async def _get(text: str, step: str | None, file: BinaryIO) -> int:
    home = Home.of()
    fetcher = Fetcher(home, make_blobs(home, read_plugins()), file)
    ref = read_ref(text)
    if ref is None:
        return await fetcher.result(await find_execution(home, text), step)
    if step is not None:
        raise ConfigError("--step goes with the ID of an execution, not with a key")
    return await fetcher.blob(ref)


@contextmanager
def _target(output: str | None) -> Iterator[BinaryIO]:
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    folder, name = os.path.split(output)
    part = os.path.join(folder, f".{name}.{secrets.token_hex(8)}")
    try:
        with open(part, "xb") as file:
            yield file
        os.replace(part, output)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{output}: cannot be written: {reason}") from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)
