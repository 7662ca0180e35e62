"""Playbooks written as their interesting part only."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent, indent

import pytest

from noetl import Loaded, Playbook, load

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"

Document = Callable[..., str]
Accept = Callable[..., Playbook]


def write(workflow: str, root: str = "") -> str:
    """A whole document around these steps; ``root`` holds more root keys."""
    return HEAD + dedent(root) + "workflow:\n" + indent(dedent(workflow), "  ")


@pytest.fixture(scope="session")
def document() -> Document:
    return write


@pytest.fixture(scope="session")
def accept() -> Accept:
    """The playbook of a document that must be valid."""

    def read(workflow: str, root: str = "", **options: object) -> Playbook:
        loaded: Loaded = load(write(workflow, root), **options)  # type: ignore[arg-type]
        assert loaded.playbook is not None, loaded.diagnostics
        return loaded.playbook

    return read


@pytest.fixture(scope="session")
def say() -> Callable[..., list[tuple[str, str, int, int]]]:
    """What is said about a document: code, severity, line and column of each."""

    def read(text: str | bytes, **options: object) -> list[tuple[str, str, int, int]]:
        found = load(text, **options).diagnostics  # type: ignore[arg-type]
        return [(each.code, each.severity, each.line, each.column) for each in found]

    return read
