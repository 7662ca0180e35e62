"""Writes the reference pages that come from code; `--check` only names stale ones.

A page is a function without arguments that returns Markdown. To add one, write the
function (a long one into `scripts/pages`), list it in PAGES, and add the page to
`mkdocs.yml`. SECTIONS are the last sections of pages that are written by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click
from pages.access import access
from pages.directives import directives
from pages.errors import errors
from pages.events import events
from pages.http_api import http_api
from pages.invariants import invariants
from pages.keychain import keychain
from pages.markdown import table
from pages.playbook_tests import playbook_tests
from pages.python_api import python_api
from pages.sql import sql
from pages.templates import reference_markdown

from noetl.dsl.grammar.earlier_forms import Retired
from noetl.dsl.grammar.records import Shape

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
NOTE = "Generated from code by `make docs`; do not edit."


def main(arguments: list[str]) -> int:
    stale = list(stale_pages())
    if "--check" in arguments:
        for path, _ in stale:
            print(f"{path.name} is out of date; run: make docs", file=sys.stderr)
        return 1 if stale else 0
    for path, text in stale:
        path.write_text(text, encoding="utf-8")
        print(f"written: {path.name}")
    return 0


def stale_pages() -> Iterator[tuple[Path, str]]:
    """Return the pages whose file differs from the code, with the right text."""
    for name, (title, body) in PAGES.items():
        path = FOLDER / name
        text = f"# {title}\n\n{NOTE}\n\n{body().strip()}\n"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            yield path, text
    for name, (title, body) in SECTIONS.items():
        path = FOLDER / name
        page = path.read_text(encoding="utf-8")
        before, found, _ = page.partition(f"\n## {title}\n")
        if not found:
            raise LookupError(f"{name} has no section '{title}' to write")
        text = f"{before}{found}\n{NOTE}\n\n{body().strip()}\n"
        if page != text:
            yield path, text


def language() -> str:
    """Return the page of every key of a playbook, from the grammar."""
    from noetl.dsl.grammar.schema import RECORDS

    known = {record.name for record in RECORDS}
    parts = [
        "The keys of a playbook, mapping by mapping. The last column names the row of "
        "the [checklist](conformance.md) that defines the key."
    ]
    for record in RECORDS:
        keys = [
            (
                f"`{key}`" + (" (required)" if field.missing else ""),
                link_record(field.shape, known),
                field.doc,
                field.code,
            )
            for key, field in record.fields.items()
        ]
        parts += [f"### {record.name}", table("| key | value | meaning | row |", keys)]
        if record.retired:
            parts.append(retired_keys(record.retired))
    return "\n\n".join(parts)


def link_record(shape: Shape, known: set[str]) -> str:
    record = shape.record or (shape.items.record if shape.items else None)
    return f"{shape}: [{record}](#{record})" if record in known else str(shape)


def retired_keys(retired: Mapping[str, Retired]) -> str:
    """Return the refused keys; those with the same replacement share a row."""
    groups: dict[Retired, list[str]] = {}
    for key, reason in retired.items():
        groups.setdefault(reason, []).append(f"`{key}`")
    return table(
        "| refused | instead | accepted by | row |",
        (
            (
                ", ".join(keys),
                reason.replacement,
                reason.dialect or "no dialect",
                reason.code,
            )
            for reason, keys in groups.items()
        ),
    )


def rules() -> str:
    """Return the page of all checks of the validator and the net, from docstrings."""
    from noetl.dsl.rules import RULES
    from noetl.net.checks import CHECKS

    return "\n\n".join(
        [
            "## Of the text (`noetl validate`)",
            "Besides these, every key is checked against "
            "[the language](specification.md#every-key).",
            table(
                "| rule | row | severity | says |",
                (
                    (f"`{rule.name}`", rule.code, rule.severity, rule.doc)
                    for rule in sorted(RULES, key=lambda rule: rule.name)
                ),
            ),
            "## Of the net (`noetl verify`)",
            "`noetl validate` reports the findings about arcs that never fire and "
            "about cycles too, since they are certain.",
            "\n".join(f"- {' '.join((c.__doc__ or '').split())}" for c in CHECKS),
        ]
    )


def tools() -> str:
    """Return the page of the built-in tool kinds, from their declarations."""
    from noetl.adapters.tools import BUILTIN

    parts = [
        "A task is `kind`, `spec` and the kind's inputs at the same level. Inputs may "
        "be templates unless they are marked as taken literally."
    ]
    for kind in BUILTIN.values():
        parts += [f"## {kind.name}", kind.doc]
        if kind.inputs:
            parts.append(
                table(
                    "| input | value | meaning |",
                    (
                        (
                            f"`{name}`" + (" (required)" if given.required else ""),
                            given.shape,
                            given.doc + (" Taken literally." if given.literal else ""),
                        )
                        for name, given in kind.inputs.items()
                    ),
                )
            )
        if kind.knobs:
            parts.append(
                table(
                    "| knob under `spec` | value | meaning |",
                    (
                        (f"`{n}`", knob.shape, knob.doc)
                        for n, knob in kind.knobs.items()
                    ),
                )
            )
        parts.append(f"Result: {kind.result}")
        if kind.notes:
            parts.append(kind.notes.strip())
    return "\n\n".join(parts)


def templates() -> str:
    """Return the page of template functions and size limits."""

    from noetl.templates import limits

    bounds = [
        ("source of a template", f"{limits.SOURCE_BYTES:,} bytes"),
        ("nodes, and levels of nesting", f"{limits.NODES:,} and {limits.DEPTH}"),
        ("steps of one evaluation", f"{limits.STEPS:,}"),
        ("characters of a text, items of a list", f"{limits.SIZE:,}"),
        ("bits of a whole number", f"{limits.BITS:,}"),
        ("items of `range`", f"{limits.RANGE:,}"),
        ("items of `range` as the whole of `loop.in`", f"{limits.WHOLE_RANGE:,}"),
    ]
    return (
        f"## Bounds\n\n{table('| what | at most |', bounds)}\n\n{reference_markdown()}"
    )


def commands() -> str:
    """Return the page of the command line, as `--help` prints it."""
    from noetl.clictl import noetl

    return "\n\n".join(help_pages(noetl, "noetl", None))


def help_pages(
    command: click.Command, name: str, parent: click.Context | None
) -> Iterator[str]:
    settings = {"terminal_width": 88, **command.context_settings}
    context = click.Context(command, parent=parent, info_name=name, **settings)
    text = command.get_help(context)
    yield f"## {context.command_path}\n\n```text\n{text}\n```"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None and not found.hidden:
                yield from help_pages(found, child, context)


def settings() -> str:
    """Return the page of every setting, from the table that reads them."""
    from noetl.config import FILE, SETTINGS, VARIABLE

    rows = [
        (
            f"`{each.name}`",
            f"`{each.variable}`",
            each.words + (" (a secret)" if each.secret else ""),
            each.default_words,
            each.doc,
        )
        for each in SETTINGS
    ]
    return (
        "A setting is an environment variable, or a key of a TOML file: `slots = 4` in "
        "the file is `NOETL_SLOTS=4` in the environment. The environment wins over the "
        "file, and the file over the default; an empty variable is as good as none. "
        f"The file is the one of `noetl --config FILE`, or of `{VARIABLE}`, or else "
        f"`{FILE}` in the home, if it is there. `noetl config` prints what holds, and "
        "where each value comes from.\n\n"
        + table("| setting | variable | value | default | meaning |", rows)
    )


PAGES: dict[str, tuple[str, Callable[[], str]]] = {
    "directives.md": ("Task rules and directives", directives),
    "rules.md": ("Checks", rules),
    "tools.md": ("Tool kinds", tools),
    "keychain.md": ("Keychain kinds", keychain),
    "templates.md": ("Templates", templates),
    "playbook-tests.md": ("Playbook tests", playbook_tests),
    "commands.md": ("Command line", commands),
    "http-api.md": ("HTTP API", http_api),
    "python-api.md": ("Python API", python_api),
    "settings.md": ("Settings", settings),
    "access.md": ("Roles and permissions", access),
    "errors.md": ("Errors", errors),
    "events.md": ("Events", events),
    "invariants.md": ("Invariants", invariants),
    "sql.md": ("Tables for SQL", sql),
}

SECTIONS: dict[str, tuple[str, Callable[[], str]]] = {
    "specification.md": ("Every key", language),
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
