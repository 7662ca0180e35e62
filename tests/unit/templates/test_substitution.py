"""Other names in templates: exactly those that are read, or nothing at all."""

from __future__ import annotations

import pytest

from noetl.dialects.template_rewrite import substitute
from noetl.errors import TemplateError

pytestmark = pytest.mark.spec("C-34")

NAMES = {
    ("old",): "new.name",
    ("old", "data"): "(new.name.data | default(new.name))",
    ("job", "uuid"): "execution_id",
}
TEXTS = {"call.done": "step.done"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ old }}", "{{ new.name }}"),
        ("a {{ old.x[0] }} b", "a {{ new.name.x[0] }} b"),
        ("{{ old.data.x }}", "{{ (new.name.data | default(new.name)).x }}"),
        ("{{ x.old }} {{ x['old'] }}", "{{ x.old }} {{ x['old'] }}"),
        ("{{ {'old': old} }}", "{{ {'old': new.name} }}"),
        ("{{ x | default(old) }}", "{{ x | default(new.name) }}"),
        ("{{ x | join(d=old) }}", "{{ x | join(d=new.name) }}"),
        ("{{ old is defined }}", "{{ new.name is defined }}"),
        ("{{ job.uuid }}{{ job.id }}", "{{ execution_id }}{{ job.id }}"),
        ("{{ e == 'call.done' }}", "{{ e == 'step.done' }}"),
        ('{{ e in ["call.done"] }}', '{{ e in ["step.done"] }}'),
        ("{{- old -}} {# old #}", "{{- new.name -}} {# old #}"),
        (
            "{% if old %}{{ old }}{% endif %}",
            "{% if new.name %}{{ new.name }}{% endif %}",
        ),
        ("{% raw %}{{ old }}{% endraw %}", "{% raw %}{{ old }}{% endraw %}"),
        ("call.done old", "call.done old"),
    ],
)
def test_what_is_read_is_replaced(source: str, expected: str) -> None:
    assert substitute(source, NAMES, TEXTS) == expected


def test_a_name_that_the_template_sets_is_its_own() -> None:
    source = "{% for old in x %}{{ old }}{% endfor %}{{ job.uuid }}"

    assert substitute(source, NAMES, TEXTS).endswith(
        "{{ old }}{% endfor %}{{ execution_id }}"
    )


def test_ambiguous_names_are_refused() -> None:
    with pytest.raises(TemplateError, match="cannot be distinguished"):
        substitute("{{ job . uuid }}", NAMES, TEXTS)
