"""Names in the text of templates: found and replaced where they are read."""

from __future__ import annotations

import pytest

from noetl.dialects.template_rewrite import names_in, rename


def resolve(name: str, attributes: tuple[str, ...]) -> tuple[str, int] | None:
    if name == "a":
        return ("_outcomes.a", 1) if attributes[:1] == ("result",) else ("A", 0)
    return None


@pytest.mark.spec("C-34", "LEG-CASE-19")
@pytest.mark.parametrize(
    ("source", "renamed"),
    [
        pytest.param("{{ a }}", "{{ A }}", id="a name"),
        pytest.param("{{ a.result.x }}", "{{ _outcomes.a.x }}", id="with a key"),
        pytest.param("{{ a['result'] }}", "{{ _outcomes.a }}", id="in brackets"),
        pytest.param("a {{ 'a' ~ a }} a", "a {{ 'a' ~ A }} a", id="not in texts"),
        pytest.param("{{ b.a }}", "{{ b.a }}", id="not as an attribute"),
        pytest.param("{{ b | a(a) }}", "{{ b | a(A) }}", id="not as a filter"),
        pytest.param("{{ b is a }}", "{{ b is a }}", id="not as a test"),
        pytest.param("{{ b is not a }}", "{{ b is not a }}", id="nor denied"),
        pytest.param("{{ f(a=a) }}", "{{ f(a=A) }}", id="not as a keyword"),
        pytest.param("{{ {'a': a}[a] }}", "{{ {'a': A}[A] }}", id="in mappings"),
        pytest.param("{{ a == a }}", "{{ A == A }}", id="twice"),
        pytest.param("{% for a in b %}{{ a }}{% endfor %}", None, id="a loop's name"),
        pytest.param("{% set a = 1 %}{{ a }}", None, id="an assigned name"),
        pytest.param("{% if a %}x{% endif %}", "{% if A %}x{% endif %}", id="a tag"),
        pytest.param("x  {{- a -}}  y", "x  {{- A -}}  y", id="white space control"),
        pytest.param("{# a #}{{ a }}", "{# a #}{{ A }}", id="a comment"),
        pytest.param("{% raw %}{{ a }}{% endraw %}", None, id="raw text"),
        pytest.param("{{ 'a }} a", None, id="no template"),
        pytest.param("{{ a\r\n }}", "{{ A\r\n }}", id="other line ends"),
        pytest.param("{{ a\n}}\n", "{{ A\n}}\n", id="several lines"),
        pytest.param("{{ ä.a ~ a }}", "{{ ä.a ~ A }}", id="other letters"),
    ],
)
def test_rename(source: str, renamed: str | None) -> None:
    assert rename(source, resolve) == (source if renamed is None else renamed)


@pytest.mark.spec("C-34")
def test_names_with_their_keys() -> None:
    found = [(n.text, n.attributes) for n in names_in("{{ a.b['c'].d(e)[f] }}")]
    assert found == [("a", ("b", "c", "d")), ("e", ()), ("f", ())]
