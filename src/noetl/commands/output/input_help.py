"""Inputs of a playbook in the help of a command: ``noetl run FILE --help``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import click

from noetl.dsl.model import Playbook
from noetl.dsl.node import shorten
from noetl.dsl.playbook_inputs import declared_inputs, schema_of
from noetl.dsl.schema_words import list_values, type_words, words_of_types
from noetl.dsl.secret_patterns import mask
from noetl.types import JSON

_SHOWN = 60
_GIVEN = "noetl.given"


class HelpWithInputs(click.Command):
    """A command whose help also lists the inputs of the playbook that is its FILE."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = [word for word in args if word not in ctx.help_option_names]
        if len(rest) < len(args):
            ctx.meta[_GIVEN] = _values_in(self, ctx, rest)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        given = ctx.meta.get(_GIVEN, {})
        file = given.get("file")
        if not isinstance(file, str):
            return
        playbook = _read(file, given.get("extensions"))
        with formatter.section(f"Inputs of {shorten(file, _SHOWN)}"):
            if playbook is None:
                text = f"The playbook is not valid: noetl validate {file}"
                formatter.write_text(text)
            elif lines := list(describe_inputs(playbook)):
                formatter.write_dl(lines)
            else:
                formatter.write_text("It has none.")


def _values_in(
    command: click.Command, ctx: click.Context, args: list[str]
) -> Mapping[str, JSON]:
    """Return arguments and options of a call, none of it if the call is wrong."""
    try:
        values, _, _ = command.make_parser(ctx).parse_args(args=args)
    except click.UsageError:
        return {}
    return values


def _read(file: str, extensions: str | None) -> Playbook | None:
    from noetl.commands.files.playbook_files import read_file
    from noetl.config import read_extensions, read_plugins, read_settings
    from noetl.dialects import load

    settings = read_settings()
    enabled = read_extensions(extensions, settings)
    content, kinds = read_file(file).content, read_plugins(settings).kinds
    return load(content, kinds, enabled).playbook


def describe_inputs(playbook: Playbook) -> Iterator[tuple[str, str]]:
    """Yield each input and its description: type, default, and the author's text."""
    declared = declared_inputs(playbook)
    required = (schema_of(playbook) or {}).get("required", ())
    for name in dict.fromkeys([*declared, *playbook.workload]):
        parts = list(_parts(declared.get(name, {}), playbook.workload, name))
        if name in required and not any(each.startswith("default") for each in parts):
            parts.append("required")
        about = str(declared.get(name, {}).get("description", ""))
        text = "; ".join(part for part in parts if part)
        yield shorten(name), f"{about} [{text}]".strip() if text else about


def _parts(
    schema: Mapping[str, JSON], workload: Mapping[str, JSON], name: str
) -> Iterator[str]:
    known = name in workload or "default" in schema
    default = workload.get(name, schema.get("default"))
    if "enum" in schema:
        yield f"one of {list_values(schema['enum'])}"
    elif "type" in schema:
        yield words_of_types(schema["type"])
    elif known and default is not None:
        yield type_words(default)
    if schema.get("secret") is True:
        yield "secret"
    elif known:
        shown = mask(json.dumps(default, ensure_ascii=False))
        yield f"default {shorten(shown, _SHOWN)}"
