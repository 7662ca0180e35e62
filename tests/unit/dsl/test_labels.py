"""Labels: names, values, and how many."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl.dsl.labels import MAX_LABELS, Labels, find_label_problems, read_labels

pytestmark = pytest.mark.spec("S-72")


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({"team": "sales", "a.b/c_d-1": "ü =,"}, None),
        ({"": "x"}, "'' is not the name of a label"),
        ({"-a": "x"}, "'-a' is not the name of a label"),
        ({"a b": "x"}, "'a b' is not the name of a label"),
        ({"a" * 63: "x"}, None),
        ({"a" * 64: "x"}, "is not the name of a label"),
        ({"a\n": "x"}, "is not the name of a label"),
        ({"n": 1}, "the label 'n' must be text; write it in quotes"),
        ({"n": ""}, "the label 'n' is not valid: a value is text of 1 to 255"),
        ({"n": "x" * 255}, None),
        ({"n": "x" * 256}, "the label 'n' is not valid"),
        ({"n": "a\nb"}, "the label 'n' is not valid"),
        ({"n": "a\n"}, "the label 'n' is not valid"),
        ({f"n{i}": "x" for i in range(MAX_LABELS)}, None),
        ({f"n{i}": "x" for i in range(33)}, "there are 33 labels, the limit is 32"),
    ],
)
def test_labels_are_bounded_by_the_same_rule_everywhere(
    labels: dict[str, Any], problem: str | None
) -> None:
    found = [message for _, message in find_label_problems(labels)]

    assert len(found) == (problem is not None)
    if problem is None:
        assert msgspec.convert(labels, Labels) == labels
        return
    assert problem in found[0]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(labels, Labels)


def test_a_label_is_written_as_name_and_value() -> None:
    assert read_labels(("team=a", "sum=1+1=2")) == {"team": "a", "sum": "1+1=2"}
    with pytest.raises(ValueError, match="'team' is not a label; write name=value"):
        read_labels(("team",))
