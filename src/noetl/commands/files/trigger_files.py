"""Definitions of triggers from a YAML file or from options."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from noetl.commands.files.playbook_files import read_file, read_setting
from noetl.dsl.diagnostics import Report
from noetl.dsl.labels import read_labels
from noetl.dsl.node import Node
from noetl.dsl.source import read_source
from noetl.errors import ConfigError
from noetl.templates import is_template
from noetl.triggers.definition import Definition
from noetl.triggers.inputs import TriggerError
from noetl.triggers.parse import check, read_definition
from noetl.types import JSON


def read_trigger(file: str) -> dict[str, JSON]:
    """Read the definition in a file.

    Raises ``ConfigError`` with the position of the error.
    """
    report = Report()
    node = read_source(read_file(file).content, report, "trigger", "name: nightly")
    faults = [found for found in report if found.severity == "error"]
    if node is None or faults:
        first = faults[0]
        raise ConfigError(f"{file}:{first.line}:{first.column}: {first.message}")
    try:
        return _checked(node.plain())
    except TriggerError as error:
        line, column = _place(node, error.path)
        raise _fault(error, f"{file}:{line}:{column}: ") from None


def make_trigger(members: dict[str, JSON], settings: Sequence[str]) -> dict[str, JSON]:
    """Build the definition from options."""
    workload: dict[str, JSON] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if is_template(text):
            workload[name] = text
        else:
            name, workload[name] = read_setting("--set", setting)
    try:
        return _checked({**members, "workload": workload})
    except TriggerError as error:
        raise _fault(error, "") from None


def members_of(name: str | None, options: dict[str, JSON]) -> dict[str, JSON]:
    """Convert options to the members of a file."""
    if name is None or options["playbook"] is None:
        hint = "see noetl trigger create --help"
        raise ConfigError(f"expected a NAME and --playbook, or --file; {hint}")
    parts: dict[str, dict[str, JSON]] = {
        "schedule": {
            "cron": options["cron"],
            "zone": options["zone"],
            "catch_up": options["catch_up"],
            "jitter": options["jitter"],
            "overlap": False if options["no_overlap"] else None,
        },
        "webhook": {n: options[n] for n in ("verify", "header", "key", "rate")},
        "finished": {
            "path": options["finished"],
            "status": list(options["statuses"]) or None,
        },
    }
    chosen = {
        "schedule": options["cron"] is not None,
        "webhook": bool(options["webhook"]),
        "finished": options["finished"] is not None,
    }
    members: dict[str, JSON] = {"name": name, "playbook": options["playbook"]}
    if options["labels"]:
        members["labels"] = read_labels(tuple(options["labels"]))
    for part, values in parts.items():
        said = {key: value for key, value in values.items() if value is not None}
        if chosen[part]:
            members[part] = said
        elif said:
            option = {"schedule": "--cron", "webhook": "--webhook"}.get(
                part, "--finished"
            )
            named = next(iter(said)).replace("_", "-").replace("overlap", "no-overlap")
            raise ConfigError(f"--{named} needs {option}")
    return members


def _checked(document: JSON) -> dict[str, JSON]:
    definition = read_definition(document)
    check(definition, time.time())
    return _plain(definition)


def _plain(definition: Definition) -> dict[str, JSON]:
    found: dict[str, JSON] = msgspec.to_builtins(definition)
    return {name: value for name, value in found.items() if value is not None}


def _fault(error: TriggerError, place: str) -> ConfigError:
    path = f"{error.path}: " if error.path else ""
    hint = f"; {error.hint}" if error.hint else ""
    return ConfigError(f"{place}{path}{error.message}{hint}")


def _place(node: Node, path: str) -> tuple[int, int]:
    """Return the position of a member, or of its parent if it is missing."""
    mark = (node.line, node.column)
    for part in path.replace("[", ".").replace("]", "").split("."):
        if part in node.entries:
            mark, node = node.key_marks.get(part, mark), node.entries[part]
        elif part.isdigit() and int(part) < len(node.items):
            node = node.items[int(part)]
            mark = (node.line, node.column)
        else:
            break
    return mark
