"""A worker reads a playbook that its server validated: the same model, no rules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.tools import BUILTIN
from noetl.dialects import load, load_validated
from noetl.dsl.model import Playbook

EXAMPLES = Path(__file__).parents[3] / "examples"
TEXTS = [
    file.read_bytes()
    for file in sorted(EXAMPLES.rglob("*.yaml"))
    if load(file.read_bytes(), BUILTIN).playbook is not None
]


def content(playbook: Playbook | None) -> str:
    """All fields; places in the text are other objects each time."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(playbook))


def test_the_model_is_the_same() -> None:
    assert TEXTS, "there are examples"
    for text in TEXTS:
        found = load_validated(text, BUILTIN).playbook
        assert content(found) == content(load(text, BUILTIN).playbook)


def test_no_rule_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("noetl.dsl.load.check", forbidden)
    assert load_validated(TEXTS[0], BUILTIN).playbook is not None
    with pytest.raises(AssertionError):
        load(TEXTS[0], BUILTIN)


def test_a_text_without_the_shape_of_a_playbook_is_not_loaded() -> None:
    text = b"apiVersion: noetl.io/v2\nkind: Playbook\nworkflow: 7\n"
    assert load_validated(text, BUILTIN).playbook is None
