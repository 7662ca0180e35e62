"""Playbooks of the dialects in which parts are replaced by values of other shapes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from noetl import load
from noetl.adapters.tools import BUILTIN
from noetl.dialects.migration import migrate
from noetl.dsl.canonical import canonical

TESTS = Path(__file__).parents[2]
CLASSIC = [
    *sorted((TESTS / "playbooks" / "invalid").glob("classic-*.yaml")),
    *sorted((TESTS / "e2e" / "classic").glob("*.yaml")),
]
LEGACY = sorted((TESTS / "unit/dialects/legacy/playbooks").glob("*.yaml"))
SHAPES = ["x", "{{ a.b }}", "{{", 3, None, True, [], {}, [[]], [{}], {"kind": 3}]
CLASSIC_SHAPES = [
    *SHAPES,
    *({"kind": "python"}, {"auth": []}, ["{{ start }}"], {"do": {"do": 1}}),
]
LEGACY_SHAPES = [
    *SHAPES,
    *({"kind": "noop"}, {"to": "b"}, ["{{ work.data }}"], "  a\n\n b\n\n"),
]


def replace_part(
    pick: random.Random, document: Any, shapes: Sequence[Any], stop: float
) -> None:
    """Put a shape at a random depth; ``stop`` is the chance to stop above a leaf."""
    while True:
        keys = list(document if isinstance(document, dict) else range(len(document)))
        key = pick.choice(keys)
        inner = document[key]
        is_leaf = not isinstance(inner, dict | list) or not inner
        if is_leaf or pick.random() < stop:
            document[key] = pick.choice(shapes)
            return
        document = inner


@pytest.mark.parametrize("path", CLASSIC, ids=lambda path: path.stem)
def test_loading_a_classic_document_of_any_shape_raises_nothing(path: Path) -> None:
    pick = random.Random(path.stem)
    for _ in range(40):
        document = yaml.safe_load(path.read_text())
        for _ in range(pick.randint(1, 3)):
            replace_part(pick, document, CLASSIC_SHAPES, stop=0.3)
        load(yaml.safe_dump(document), extensions=frozenset({"classic"}))


@pytest.mark.spec("S-01")
@pytest.mark.parametrize("path", LEGACY, ids=lambda path: path.stem)
def test_migrating_a_legacy_playbook_of_any_shape_keeps_its_meaning(path: Path) -> None:
    pick = random.Random(path.stem)
    for _ in range(25):
        document = yaml.safe_load(path.read_text())
        replace_part(pick, document["workflow"], LEGACY_SHAPES, stop=0.2)
        style = pick.choice([None, False, True])
        text = yaml.safe_dump(document, default_flow_style=style, width=60)
        before, found = load(text).playbook, migrate(text, BUILTIN, frozenset())
        assert (found.text is None) == (before is None)
        if before is not None and found.text not in (None, text):
            assert not found.left
            after = load(found.text).playbook
            assert after is not None
            assert canonical(after)["workflow"] == canonical(before)["workflow"]
