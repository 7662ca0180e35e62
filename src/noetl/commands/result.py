"""``noetl result``: results of an execution that are stored beside its log."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from typing import BinaryIO

import click

from noetl.commands.files.download_result import Fetcher, RemoteFetcher, results_of
from noetl.commands.local.logs import find_execution, read_pages
from noetl.commands.output.diagnostics import bytes_of
from noetl.commands.remote.choose_server import server_of, server_option
from noetl.commands.remote.executions import whole_id
from noetl.commands.settings import pass_settings
from noetl.config import Settings, read_plugins
from noetl.errors import BlobGone, ConfigError, StoreError
from noetl.local.home import Home
from noetl.service.executions.results import LOG, Named, line_of, named_in, read_ref
from noetl.types import JSON
from noetl.wiring.result_stores import make_blobs

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("result")
def command() -> None:
    """List and fetch results, including those too large for the log.

    Each of the commands takes --json.

    \b
    Examples:
      noetl result ls last
      noetl result get last --output result.json
    """


@command.command("ls")
@click.argument("execution", metavar="ID")
@server_option
@_json
@pass_settings
def list_(
    settings: Settings, execution: str, server: str | None, as_json: bool
) -> None:
    """List the stored values of an execution: key, size and task.

    \b
    Example:
      noetl result ls 019a8f
    """
    client = asyncio.run(server_of(settings, server, execution))
    if client is None:
        name, found = asyncio.run(_list(settings, execution))
    else:
        name = whole_id(client, execution)
        found = [{**each, "there": None} for each in results_of(client, name)]
    if as_json:
        document = {"execution_id": name, "results": found}
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    for each in found:
        click.echo(_line(each))
    if not found:
        click.echo("no stored values: all results of this execution are in its log")


@command.command("get")
@click.argument("ref", metavar="REF")
@click.option("--step", metavar="NAME", help="The result of this step of ID.")
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write to this file, which appears when it is complete.",
)
@server_option
@_json
@pass_settings
def get(
    settings: Settings,
    ref: str,
    step: str | None,
    output: str | None,
    server: str | None,
    as_json: bool,
) -> None:
    """Write a result to standard output, or to a file.

    REF is a key that noetl result ls shows, with :FIRST-LAST for a range of its bytes;
    or the ID of an execution, for its result with all referenced values. Results are
    JSON, with --json or without; files that a task has exported are written unchanged.
    Stored values are verified before anything is written.

    \b
    Examples:
      noetl result get last | jq .rows[0]
      noetl result get last --step extract --output orders.json
      noetl result get 5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef
    """
    with _target(output) as file:
        size = asyncio.run(_get(settings, ref, step, file, server))
    if output is None:
        return
    if as_json:
        click.echo(json.dumps({"output": output, "size": size}))
    else:
        click.echo(f"{output}: {bytes_of(size)}", err=True)


async def _list(
    settings: Settings, execution: str
) -> tuple[str, list[dict[str, JSON]]]:
    """Return the id, each key with the first event that references it, and whether
    the store still has it."""
    home = Home.of(settings)
    place = await find_execution(home, execution)
    found: dict[str, Named] = {}
    async for page in read_pages(place):
        for event in page:
            for named in named_in(event):
                found.setdefault(named.key, named)
    there = await _there(settings, home, found.keys())
    lines = [
        {**line_of(each), "there": _is_there(each, there)} for each in found.values()
    ]
    return place.execution_id, lines


async def _there(settings: Settings, home: Home, wanted: Set[str]) -> set[str] | None:
    """Return the keys that still exist; None if the store cannot be listed."""
    if not wanted:
        return set()
    blobs = make_blobs(home, read_plugins(settings), settings)
    try:
        listed = {blob.key async for blob in blobs.each() if blob.key in wanted}
        for key in wanted - listed:
            with suppress(BlobGone):
                async with blobs.file(key):
                    listed.add(key)
        return listed
    except StoreError as error:
        if error.kind != "store.unlisted":
            raise
        return None


def _line(line: dict[str, JSON]) -> str:
    _, inside, path = (line["iteration_id"] or "").partition("/")
    step = f"{line['step']}[{path}]" if inside else line["step"] or ""
    where = f"{step} {line['task'] or ''}".strip() or line["event"]
    gone = click.style("  gone", fg="red") if line["there"] is False else ""
    size = bytes_of(line["size"])
    return f"{line['key']}  {size:>10}  {where} {line['path']}{gone}"


def _is_there(named: Named, there: set[str] | None) -> bool | None:
    """Return whether the value still exists; None if that is unknown."""
    if named.key.startswith(LOG):
        return True
    return None if there is None else named.key in there


async def _get(
    settings: Settings, text: str, step: str | None, file: BinaryIO, server: str | None
) -> int:
    home, ref = Home.of(settings), read_ref(text)
    if ref is not None and step is not None:
        raise ConfigError("--step needs the ID of an execution, not a key")
    client = await server_of(settings, server, text)
    if client is not None:
        found = RemoteFetcher(client, file)
        if ref is None:
            return await found.result(whole_id(client, text), step)
        return await found.blob(text)
    fetcher = Fetcher(home, make_blobs(home, read_plugins(settings), settings), file)
    if ref is None:
        return await fetcher.result(await find_execution(home, text), step)
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
