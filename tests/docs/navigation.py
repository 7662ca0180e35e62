"""Reads the navigation of the site."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


class _Loader(yaml.SafeLoader):
    """Reads names of Python objects (`!!python/name:…`) as text."""


_Loader.add_multi_constructor(
    "tag:yaml.org,2002:python/name:", lambda loader, suffix, node: suffix
)


def read_navigation() -> list[object]:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = yaml.load(text, _Loader)["nav"]
    assert isinstance(navigation, list)
    return navigation


def leaves(entry: object) -> Iterator[str]:
    """The pages under an entry, in their order."""
    match entry:
        case str():
            yield entry
        case list():
            for child in entry:
                yield from leaves(child)
        case dict():
            for child in entry.values():
                yield from leaves(child)
