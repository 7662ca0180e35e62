"""Labels of executions: short texts by name, which listings filter by (S-72)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

from msgspec import Meta

from noetl.dsl.node import shorten
from noetl.types import JSON

MAX_LABELS = 32
MAX_VALUE = 255
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?(?!\n)$"
_VALUE = r"^[^\x00-\x1f\x7f]+(?!\n)$"
NAME_RULE = (
    "a name has at most 63 letters, digits, '.', '_', '/' and '-', and begins and ends "
    "with a letter or digit"
)
VALUE_RULE = f"a value is text of 1 to {MAX_VALUE} characters, without line breaks"

LabelName = Annotated[str, Meta(pattern=f"^{_NAME}")]
LabelValue = Annotated[str, Meta(min_length=1, max_length=MAX_VALUE, pattern=_VALUE)]
Labels = Annotated[dict[LabelName, LabelValue], Meta(max_length=MAX_LABELS)]


def find_label_problems(labels: Mapping[str, JSON]) -> Iterator[tuple[str, str]]:
    """Yield the name of each label that is wrong, and a message about it.

    No message contains a value. The name is empty if there are too many labels.
    """
    if len(labels) > MAX_LABELS:
        yield "", f"there are {len(labels):,} labels, the limit is {MAX_LABELS}"
        return
    for name, value in labels.items():
        shown = shorten(name)
        if re.match(_NAME, name) is None:
            yield name, f"'{shown}' is not the name of a label: {NAME_RULE}"
        elif not isinstance(value, str):
            yield name, f"the label '{shown}' must be text; write it in quotes"
        elif not 1 <= len(value) <= MAX_VALUE or re.match(_VALUE, value) is None:
            yield name, f"the label '{shown}' is not valid: {VALUE_RULE}"


def read_labels(settings: tuple[str, ...]) -> dict[str, str]:
    """Parse ``name=value`` texts. Raises ``ValueError`` with what is wrong."""
    labels: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"'{shorten(setting)}' is not a label; write name=value")
        labels[name] = value
    for _, problem in find_label_problems(labels):
        raise ValueError(problem)
    return labels
