"""``groupby``: items with the same attribute, together."""

from __future__ import annotations

from noetl.templates.catalog import FILTERS
from noetl.templates.evaluation import Evaluation
from noetl.templates.filters.attributes import attribute_getter, sort_key
from noetl.templates.filters.lists import arrange
from noetl.templates.values import Group, iterate
from noetl.types import JSON


@FILTERS.add(
    "groupby",
    example="{{ [{'c': 'x', 'n': 1}, {'c': 'x', 'n': 2}] | groupby('c') }}",
)
def groupby(
    run: Evaluation,
    value: JSON,
    attribute: JSON,
    default: JSON = None,
    case_sensitive: bool = False,
) -> list[JSON]:
    """A list of [grouper, list], sorted; also as .grouper and .list."""
    key = sort_key(run, attribute, case_sensitive, default)
    spelled = attribute_getter(run, attribute, default)
    items = iterate(run, value)
    groups: list[JSON] = []
    previous: list[JSON] = []
    for item in arrange(run, items, [key(item) for item in items]):
        mark = [key(item)]
        if not groups or mark != previous:
            groups.append(Group([spelled(item), []]))
            previous = mark
        groups[-1][1].append(item)
    return groups
