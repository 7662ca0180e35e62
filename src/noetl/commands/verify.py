"""``noetl verify``: analysis of a playbook's net without running it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

import click
import msgspec

from noetl.adapters.processes.code_inspection import inspect_code
from noetl.commands.files.playbook_files import SourceFile, find_playbooks
from noetl.commands.local.logs import (
    PAGE,
    Place,
    find_execution,
    list_executions,
    reading,
)
from noetl.commands.output.diagnostics import count_of, count_words, format_diagnostic
from noetl.commands.settings import pass_settings
from noetl.config import Settings, read_extensions, read_plugins
from noetl.dialects import load
from noetl.dsl.load import Loaded
from noetl.dsl.tool_kinds import Kinds
from noetl.engine.evolve import evolve
from noetl.engine.invariants import Audit, Breach
from noetl.engine.state import State
from noetl.errors import StoreError
from noetl.local.home import Home
from noetl.net.checks import analyse
from noetl.net.finding import Finding
from noetl.net.net import Net, build_net
from noetl.types import JSON

MAX_BREACHES = 100
"""Maximum number of breaches that are shown for one execution."""


class Audited(msgspec.Struct, frozen=True):
    """The audit result of one execution: its events and the breaches found."""

    execution_id: str
    events: int
    breaches: list[Breach]


async def audit_executions(home: Home, wanted: str) -> AsyncIterator[Audited]:
    """Audit the execution ``wanted``, or all of this home, the newest first."""
    if wanted != "all":
        yield await _audit_one(await find_execution(home, wanted))
        return
    cursor = None
    while page := await list_executions(home, PAGE, cursor=cursor):
        for each in page:
            yield await _audit_one(await find_execution(home, each.execution_id))
        cursor = page[-1].execution_id


async def _audit_one(place: Place) -> Audited:
    breaches: list[Breach] = []
    state, watch = State(), Audit()
    async with reading(place.log) as store:
        damage = await store.verify(place.execution_id)
        if damage is not None:
            breaches.append(Breach("I-04", damage.seq, damage.message))
        try:
            async for page in store.pages(place.execution_id, size=PAGE):
                for event in page:
                    breaches += watch.take(event)
                    evolve(state, event)
            breaches += watch.end()
        except StoreError as error:
            breaches.append(Breach("I-04", state.seq + 1, str(error)))
        except (KeyError, AttributeError, AssertionError, IndexError) as error:
            # An event that contradicts the state before it cannot be folded.
            message = f"cannot be replayed: {type(error).__name__}: {error}"
            breaches.append(Breach("I-07", state.seq, message))
        summary = await store.summary(place.execution_id)
        if not breaches and state.finished and summary.status != state.status:
            message = f"the listing has {summary.status}, the log {state.status}"
            breaches.append(Breach("I-07", state.seq, message))
    return Audited(place.execution_id, state.seq, breaches[:MAX_BREACHES])


def describe(audited: Audited) -> dict[str, JSON]:
    document: dict[str, JSON] = msgspec.to_builtins(audited)
    return {**document, "intact": not audited.breaches}


_MAX_HINTS = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings of one file; ``net`` is None if the file is invalid."""

    file: SourceFile
    loaded: Loaded
    net: Net | None
    findings: list[Finding]

    @property
    def sound(self) -> bool:
        return self.net is not None and not any(
            found.severity == "error" for found in self.findings
        )


@click.command("verify")
@click.argument("paths", nargs=-1, metavar="FILE…")
@click.option(
    "--execution",
    metavar="ID|all",
    help="Check the log of this execution instead, or of all.",
)
@click.option("--extensions", metavar="NAMES", help="Dialects: legacy,classic.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings,
    paths: tuple[str, ...],
    execution: str | None,
    extensions: str | None,
    as_json: bool,
) -> None:
    """Analyse a playbook's Petri net before anything runs.

    It finds steps that no token reaches, arcs and gates that never pass a token, joins
    that can never fill, cycles without an exit, tokens that multiply, and failures
    without a handler; each with a path that leads there. An error is reported only if
    the outcome is certain. Exit code: 0 sound, 1 errors were found or the playbook is
    invalid, 2 a path cannot be read.

    With --execution it checks the stored log: no event was changed or removed, the log
    can be replayed, and the invariants of a run hold.

    \b
    Examples:
      noetl verify playbook.yaml
      noetl verify --json playbooks/
      noetl verify --execution all
    """
    if bool(paths) == bool(execution):
        raise click.UsageError("name playbooks, or an execution with --execution")
    if execution is not None:
        sys.exit(0 if asyncio.run(_audit(settings, execution, as_json=as_json)) else 1)
    enabled, kinds = read_extensions(extensions, settings), read_plugins(settings).kinds
    files, skipped = find_playbooks(paths)
    verdicts = [_judge(file, kinds, enabled) for file in files]
    if as_json:
        document = {"files": [_describe(each) for each in verdicts], "skipped": skipped}
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        for verdict in verdicts:
            _print(verdict)
        if not verdicts:
            click.echo("no playbooks found", err=True)
    sys.exit(0 if all(verdict.sound for verdict in verdicts) else 1)


async def _audit(settings: Settings, execution: str, *, as_json: bool) -> bool:
    """Audit executions; return whether all are intact."""
    intact, documents = True, []
    async for found in audit_executions(Home.of(settings), execution):
        intact = intact and not found.breaches
        if as_json:
            documents.append(describe(found))
            continue
        for breach in found.breaches:
            place = f"{found.execution_id}: event {breach.seq}"
            click.echo(f"{place}: {breach.message} [{breach.invariant}]")
        word = "broken" if found.breaches else "intact"
        shown = click.style(word, fg="red" if found.breaches else "green", bold=True)
        click.echo(f"{found.execution_id}: {count_of(found.events, 'event')}: {shown}")
    if as_json:
        click.echo(json.dumps({"executions": documents}))
    return intact


def _judge(file: SourceFile, kinds: Kinds, extensions: frozenset[str]) -> Verdict:
    loaded = load(file.content, kinds, extensions, net=False, inspect=inspect_code)
    if loaded.playbook is None:
        return Verdict(file, loaded, None, [])
    net = build_net(loaded.playbook)
    return Verdict(file, loaded, net, analyse(net))


def _describe(verdict: Verdict) -> JSON:
    return {
        "file": verdict.file.name,
        "sound": verdict.sound,
        "steps": len(verdict.net.steps) if verdict.net else None,
        "arcs": len(verdict.net.edges) if verdict.net else None,
        "findings": [msgspec.structs.asdict(found) for found in verdict.findings],
        "diagnostics": [
            msgspec.structs.asdict(found) for found in verdict.loaded.diagnostics
        ],
    }


def _print(verdict: Verdict) -> None:
    name = verdict.file.name
    if verdict.net is None:
        lines = verdict.file.lines
        for found in verdict.loaded.diagnostics:
            click.echo(format_diagnostic(found, name, lines) + "\n")
        words = count_words(verdict.loaded.diagnostics)
        click.echo(f"{name}: {click.style('invalid', fg='red', bold=True)}: {words}")
        return
    _print_findings(verdict)
    size = f"{count_of(len(verdict.net.steps), 'step')}, "
    size += count_of(len(verdict.net.edges), "arc")
    shown = click.style(*_word(verdict), bold=True)
    words = count_words(verdict.findings)
    click.echo(f"{name}: {size}: {shown}{f' ({words})' if words else ''}")


def _word(verdict: Verdict) -> tuple[str, str]:
    """Return the verdict and its colour; with a warning it is not called sound."""
    if not verdict.sound:
        return "unsound", "red"
    warned = any(found.severity == "warning" for found in verdict.findings)
    return ("no deadlock", "yellow") if warned else ("sound", "green")


def _print_findings(verdict: Verdict) -> None:
    """Print the findings; of equal hints only the first ``_MAX_HINTS``."""
    lines = verdict.file.lines if verdict.findings else []
    hints = Counter(found.rule for found in verdict.findings)
    shown: Counter[str] = Counter()
    for found in verdict.findings:
        shown[found.rule] += 1
        if found.severity == "hint" and shown[found.rule] > _MAX_HINTS:
            continue
        click.echo(format_diagnostic(found, verdict.file.name, lines))
        if found.witness[1:]:
            path = " → ".join(found.witness)
            click.echo(f"      {click.style('~', dim=True)} {path}")
        left = hints[found.rule] - _MAX_HINTS
        if found.severity == "hint" and shown[found.rule] == _MAX_HINTS and left > 0:
            click.echo(f"      … and {left} more like this; --json lists all")
        click.echo()
