"""``noetl verify``: what a playbook's net can run into, found without running it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass

import click
import msgspec

from noetl.commands.auditing import audit_executions, describe
from noetl.commands.printing import count_of, count_words, format_diagnostic
from noetl.commands.reading import SourceFile, find_playbooks
from noetl.config import read_extensions, read_plugins
from noetl.dialects import load
from noetl.dsl.kinds import Kinds
from noetl.dsl.load import Loaded
from noetl.home import Home
from noetl.net.analysis import analyse
from noetl.net.finding import Finding
from noetl.net.net import Net, build_net
from noetl.types import JSON

_SHOWN_HINTS = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """What there is to say about one file; ``net`` is None if it is invalid."""

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
    help="Check the log of an execution instead, or of all of them.",
)
@click.option("--extensions", metavar="NAMES", help="Dialects: legacy,classic.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    paths: tuple[str, ...],
    execution: str | None,
    extensions: str | None,
    as_json: bool,
) -> None:
    """Analyse a playbook's Petri net before anything runs.

    Looks for steps that no token reaches, arcs and gates that let none through,
    joins that can never fill, cycles without an exit, tokens that multiply, and
    failures that nobody handles; each with the way that leads there. Errors are only
    what certainly ends badly. Exit code: 0 sound, 1 errors were found or the playbook
    is invalid, 2 a path cannot be read.

    With --execution it checks what was stored: that no event was changed or removed,
    that the log can be replayed, and that the invariants of a run hold.

    \b
    Examples:
      noetl verify playbook.yaml
      noetl verify --json playbooks/
      noetl verify --execution all
    """
    if bool(paths) == bool(execution):
        raise click.UsageError("name playbooks, or an execution with --execution")
    if execution is not None:
        sys.exit(0 if asyncio.run(_audit(execution, as_json=as_json)) else 1)
    enabled, kinds = read_extensions(extensions), read_plugins().kinds
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


async def _audit(execution: str, *, as_json: bool) -> bool:
    """Whether everything is intact."""
    intact, documents = True, []
    async for found in audit_executions(Home.of(), execution):
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
    loaded = load(file.content, kinds, extensions)
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
    word = "sound" if verdict.sound else "unsound"
    shown = click.style(word, fg="green" if verdict.sound else "red", bold=True)
    words = count_words(verdict.findings)
    click.echo(f"{name}: {size}: {shown}{f' ({words})' if words else ''}")


def _print_findings(verdict: Verdict) -> None:
    """All of it, but of many hints of one kind only the first few."""
    lines = verdict.file.lines if verdict.findings else []
    hints = Counter(found.rule for found in verdict.findings)
    shown: Counter[str] = Counter()
    for found in verdict.findings:
        shown[found.rule] += 1
        if found.severity == "hint" and shown[found.rule] > _SHOWN_HINTS:
            continue
        click.echo(format_diagnostic(found, verdict.file.name, lines))
        if found.witness[1:]:
            path = " → ".join(found.witness)
            click.echo(f"      {click.style('~', dim=True)} {path}")
        left = hints[found.rule] - _SHOWN_HINTS
        if found.severity == "hint" and shown[found.rule] == _SHOWN_HINTS and left > 0:
            click.echo(f"      … and {left} more like this; --json lists all")
        click.echo()
