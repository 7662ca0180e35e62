"""``noetl verify``: analysis of a playbook's net without running it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass

import click
import msgspec

from noetl.adapters.processes.code_inspection import inspect_code
from noetl.commands.files.playbook_files import SourceFile, find_playbooks
from noetl.commands.output.diagnostics import count_of, count_words, format_diagnostic
from noetl.commands.settings import pass_settings
from noetl.config import Settings, read_extensions, read_plugins
from noetl.dialects import load
from noetl.dsl.load import Loaded
from noetl.dsl.tool_kinds import Kinds
from noetl.local.home import Home
from noetl.net.checks import analyse
from noetl.net.finding import Finding
from noetl.net.net import Net, build_net
from noetl.types import JSON

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
    help="Check this stored execution instead, or all of them.",
)
@click.option(
    "--archive", is_flag=True, help="Check the archive of NOETL_ARCHIVE_URL instead."
)
@click.option("--extensions", metavar="NAMES", help="Dialects: legacy,classic.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings,
    paths: tuple[str, ...],
    execution: str | None,
    archive: bool,
    extensions: str | None,
    as_json: bool,
) -> None:
    """Analyse a playbook's Petri net before anything runs.

    It finds steps that no token reaches, arcs and gates that never pass a token, joins
    that can never fill, cycles without an exit, tokens that multiply, and failures
    without a handler; each with a path that leads there. An error is reported only if
    the outcome is certain. Exit code: 0 sound, 1 errors were found or the playbook is
    invalid, 2 a path cannot be read.

    With --execution it checks what is stored: no event was changed or removed, the
    invariants of a run hold, and commands, leases, timers, snapshots, listings and
    stored values agree with the log. It reads the logs of this home, and the database
    of NOETL_DATABASE or of noetl up, also while a server runs. Each finding has the
    execution, the event, what was expected and what to do. Exit code: 0 intact, 1
    something was found, 2 there is no such execution, 3 the database is not reached.

    With --archive it checks what servers have archived: the digests of all files, the
    hash chain of every log, all values, and that no execution is there twice. Exit
    code: 0 intact, 1 something was found.

    \b
    Examples:
      noetl verify playbook.yaml
      noetl verify --json playbooks/
      noetl verify --execution all
      noetl verify --archive
    """
    if bool(paths) + bool(execution) + archive != 1:
        message = "name playbooks, or an execution with --execution, or --archive"
        raise click.UsageError(message)
    if archive:
        from noetl.commands.archive import verify_archive

        sys.exit(0 if verify_archive(settings, as_json=as_json) else 1)
    if execution is not None:
        # Stores are not needed to analyse a file.
        from noetl.commands.local.verification import verify_executions

        home = Home.of(settings)
        work = verify_executions(home, settings, execution, as_json=as_json)
        sys.exit(0 if asyncio.run(work) else 1)
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
