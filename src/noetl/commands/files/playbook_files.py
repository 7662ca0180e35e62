"""Search and reading of playbook files, and of the inputs that a command is given."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from noetl.dsl.normalize import deep_merge
from noetl.errors import ConfigError
from noetl.types import JSON

_OPENING = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*|\r)?\n|(?:---|%)[^\n]*\n)*([ \t]*)(\{?)"
)
_KEY = (
    rb"""["']?(?:apiVersion["']?[ \t]*:[ \t]*["']?noetl\.io/"""
    rb"""|kind["']?[ \t]*:[ \t]*["']?Playbook\b)"""
)
SUFFIXES = {".yaml", ".yml"}
_MAX_BYTES = 16 * 1024 * 1024  # above the limit of a playbook, to report the real size


class SourceFile(msgspec.Struct, frozen=True):
    """A file under the name that the user gave, with its bytes."""

    name: str
    content: bytes

    @property
    def lines(self) -> list[str]:
        return self.content.decode("utf-8-sig", "replace").splitlines()


def read_file(name: str) -> SourceFile:
    """Read a file, or standard input for ``-``. Raises ``ConfigError``."""
    if name == "-":
        return SourceFile("<stdin>", sys.stdin.buffer.read(_MAX_BYTES))
    try:
        with Path(name).open("rb") as stream:
            return SourceFile(name, stream.read(_MAX_BYTES))
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such file") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{name}: cannot be read: {reason}") from None


def folder_of(name: str) -> str | None:
    """Return the folder of the file; None for standard input."""
    return str(Path(name).resolve().parent) if name not in ("-", "<stdin>") else None


def find_playbooks(names: Iterable[str]) -> tuple[list[SourceFile], int]:
    """Read the named files, and the playbooks in named folders.

    Also returns the number of YAML files in folders that are not playbooks.
    """
    files: list[SourceFile] = []
    skipped = 0
    for name in names:
        if name == "-" or not os.path.isdir(name):
            files.append(read_file(name))
            continue
        for path in sorted(Path(name).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            source = read_file(str(path))
            if is_playbook(source.content):
                files.append(source)
            else:
                skipped += 1
    return files, skipped


def is_playbook(content: bytes) -> bool:
    """Return whether the root has one of the two keys, also with syntax errors.

    The root's keys have the indentation of the first line that is not a comment.
    """
    opening = _OPENING.match(content)
    if opening is None:
        return False
    margin = rb"[{ \t]*" if opening[2] else re.escape(opening[1])
    key = re.compile(b"^" + margin + _KEY, re.MULTILINE)
    return key.search(content[opening.start(1) :]) is not None


def read_inputs(file: str | None, settings: Sequence[str]) -> dict[str, JSON]:
    """Read ``--workload``, then apply each ``--set`` to it."""
    inputs: JSON = {}
    if file is not None:
        inputs = _read_yaml(read_file(file).content, f"--workload {file}")
        if not isinstance(inputs, Mapping):
            raise ConfigError(f"--workload {file}: expected a mapping")
    for setting in settings:
        name, value = read_setting("--set", setting)
        for part in reversed(name.split(".")):
            value = {part: value}
        inputs = deep_merge(inputs, value)
    return dict(inputs)


def read_setting(option: str, setting: str) -> tuple[str, JSON]:
    """Parse ``a.b=v``: the name, and the value as YAML."""
    name, equals, text = setting.partition("=")
    if not equals or not name or "" in name.split("."):
        raise ConfigError(f"{option} {setting}: write it as name=value")
    return name, _read_yaml(text.encode(), f"{option} {name}")


def _read_yaml(text: bytes, origin: str) -> JSON:
    from noetl.dsl.diagnostics import Report
    from noetl.dsl.source import read_source

    if not text.strip():
        return ""
    report = Report()
    node = read_source(text, report)
    problems = [found for found in report if found.severity == "error"]
    if node is None or problems:
        raise ConfigError(f"{origin}: {problems[0].message}")
    return node.plain()
