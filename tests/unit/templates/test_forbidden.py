"""What templates may not use, refused before anything runs."""

from __future__ import annotations

import pytest

from noetl.errors import TemplateError
from noetl.templates import compile_template


@pytest.mark.spec("S-34", "S-32")
@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        pytest.param("{{ 10**10000000 }}", "`**` is not available; multiply", id="**"),
        pytest.param("{{ 'a' | center(9) }}", "unknown filter 'center'", id="center"),
        pytest.param("{{ 'a'.ljust(9) }}", "unknown method 'ljust'", id="ljust"),
        pytest.param("{{ 'a'.zfill(9) }}", "unknown method 'zfill'", id="zfill"),
        pytest.param("{{ 'a'.format(1) }}", "unknown method 'format'", id="str.format"),
        pytest.param(
            "{{ 'a' | wordwrap }}", "unknown filter 'wordwrap'", id="wordwrap"
        ),
        pytest.param("{{ lipsum() }}", "'lipsum' is not available", id="lipsum"),
        pytest.param("{{ '%s' % 1 }}", "use the format filter", id="% on text"),
        pytest.param("{{ ''.__class__ }}", "'__class__' is not available", id="dunder"),
        pytest.param("{{ x['__class__'] }}", "'__class__'", id="dunder in brackets"),
        pytest.param("{{ __builtins__ }}", "'__builtins__'", id="dunder name"),
        pytest.param("{{ x | attr('__class__') }}", "unknown filter 'attr'", id="attr"),
        pytest.param(
            "{{ x | map('attr', 'y') }}", "unknown filter 'attr'", id="mapped attr"
        ),
        pytest.param("{{ x | map(attribute='__class__') }}", "'__class__'", id="map"),
        pytest.param("{{ x | sort(attribute='a,b.__c') }}", "'__c'", id="sort"),
        pytest.param("{{ x | sort(true, true, '__c') }}", "'__c'", id="by position"),
        pytest.param("{{ x | groupby('__c') }}", "'__c'", id="groupby"),
        pytest.param("{{ x | selectattr('__c') }}", "'__c'", id="selectattr"),
        pytest.param("{{ x | join(',', '__c') }}", "'__c'", id="join"),
        pytest.param("{{ x | sum('__c') }}", "'__c'", id="sum"),
        pytest.param("{{ self }}", "'self' is not available", id="self"),
        pytest.param("{{ cycler(1) }}", "'cycler' is not available", id="cycler"),
        pytest.param("{{ joiner() }}", "'joiner' is not available", id="joiner"),
        pytest.param("{{ namespace() }}", "'namespace' is not", id="namespace"),
        pytest.param("{{ super() }}", "'super' is not available", id="super"),
        pytest.param("{{ caller() }}", "'caller' is not available", id="caller"),
        pytest.param("{{ x.append(1) }}", "unknown method 'append'", id="append"),
        pytest.param("{{ x.update({}) }}", "unknown method 'update'", id="update"),
        pytest.param(
            "{{ dict.update(x, {}) }}", "unknown method 'update'", id="dict.update"
        ),
        pytest.param("{{ x.pop() }}", "unknown method 'pop'", id="pop"),
        pytest.param("{{ x['pop']() }}", "unknown method 'pop'", id="pop in brackets"),
        pytest.param("{{ x()() }}", "only methods", id="a call of a call"),
        pytest.param("{{ x[0]() }}", "only methods", id="a call of an item"),
        pytest.param("{{ x.get(*y) }}", "*arguments", id="star arguments"),
        pytest.param("{{ x | join(**y) }}", "*arguments", id="double star arguments"),
        pytest.param("{% include '/etc/passwd' %}", "{% include %} is", id="include"),
        pytest.param("{% import 'x' as y %}", "{% import %} is not", id="import"),
        pytest.param("{% from 'x' import y %}", "{% from %} is not", id="from"),
        pytest.param("{% extends 'x' %}", "{% extends %} is not", id="extends"),
        pytest.param("{% block x %}{% endblock %}", "{% block %} is", id="block"),
        pytest.param("{% macro x() %}{% endmacro %}", "{% macro %} is", id="macro"),
        pytest.param("{% call x() %}{% endcall %}", "{% call %} is not", id="call"),
        pytest.param("{% filter upper %}{% endfilter %}", "{% filter %}", id="filter"),
        pytest.param("{% with x=1 %}{% endwith %}", "{% with %} is not", id="with"),
        pytest.param("{% do x %}", "{% do %} is not available", id="do"),
        pytest.param("{%- do x %}", "{% do %} is not available", id="do, trimmed"),
        pytest.param("{% autoescape true %}{% endautoescape %}", "auto", id="escape"),
        pytest.param(
            "{% for x in y recursive %}{% endfor %}", "recursive", id="deep for"
        ),
        pytest.param(
            "{% set x %}a{% endset %}", "use {% set name = value %}", id="set"
        ),
        pytest.param("{% set ns.x = 1 %}", "namespaces are not", id="namespace set"),
        pytest.param("{% set loop = 1 %}", "'loop' cannot be set", id="loop"),
        pytest.param("{% set __x = 1 %}", "'__x' is not available", id="set dunder"),
        pytest.param("{% for self in x %}{% endfor %}", "cannot be set", id="for self"),
        pytest.param("{{ x is callable }}", "unknown test 'callable'", id="callable"),
        pytest.param("{{ x is filter }}", "unknown test 'filter'", id="filter test"),
    ],
)
def test_refused_when_compiled(source: str, sentence: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(source)

    assert caught.value.kind == "template.forbidden"
    assert sentence in caught.value.message


@pytest.mark.spec("S-34", "S-32")
@pytest.mark.parametrize(
    "source",
    [
        pytest.param("{{ x['_' ~ '_class__'] }}", id="a computed key"),
        pytest.param(
            "{{ ['a'] | map(attribute='_' ~ '_class__') }}", id="an attribute"
        ),
        pytest.param(
            "{{ [x] | sort(attribute='a,_' ~ '_class__') }}", id="two of them"
        ),
        pytest.param("{{ [x] | map('at' ~ 'tr', 'a') }}", id="a filter's name"),
        pytest.param("{{ [x] | select('calla' ~ 'ble') }}", id="a test's name"),
        pytest.param("{{ x.s % 1 }}", id="% on text"),
    ],
)
def test_refused_when_run(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(source).render({"x": {"a": 1, "s": "%s"}})

    assert caught.value.kind == "template.forbidden"


@pytest.mark.spec("S-34")
def test_data_may_have_any_key() -> None:
    scope = {"x": {"self": 1, "cycler": 2, "pop": 3, "class": 4}}
    source = "{{ [x.self, x.cycler, x.pop, x.class] }}"

    assert compile_template(source).render(scope) == [1, 2, 3, 4]


@pytest.mark.spec("S-32")
@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("{{ x | uper }}", "did you mean 'upper'?"),
        ("{{ x is defnied }}", "did you mean 'defined'?"),
        ("{{ x.uper() }}", "did you mean 'upper'?"),
        ("{{ x | map('lowr') }}", "did you mean 'lower'?"),
        ("{{ x | select('evn') }}", "did you mean 'even'?"),
        ("{{ x | selectattr('a', 'equalt') }}", "did you mean 'equalto'?"),
    ],
)
def test_the_nearest_name_is_offered(source: str, hint: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(source)

    assert caught.value.hint == hint


@pytest.mark.spec("TPL-01", "S-32")
@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        pytest.param("{{ a", "unexpected end of template", id="unclosed"),
        pytest.param("{{ }}", "Expected an expression", id="empty"),
        pytest.param("{{ a b }}", "expected token", id="two words"),
        pytest.param("{{ (a }}", "unexpected '}'", id="unbalanced"),
        pytest.param("{{ a ! b }}", "unexpected char '!'", id="strange sign"),
        pytest.param("{% if a %}", "Unexpected end of template", id="unclosed if"),
        pytest.param("{% nonsense %}", "unknown tag 'nonsense'", id="unknown tag"),
        pytest.param("{% endfor %}", "unknown tag 'endfor'", id="stray end"),
        pytest.param("one\n{{ a b }}", "line 2: expected token", id="names the line"),
        pytest.param("{{ 1_ }}", "not a valid template", id="odd number"),
        pytest.param("{{ 'a' | upper(1) }}", "it is upper", id="too many arguments"),
        pytest.param(
            "{{ 'a' | replace('b') }}", "it is replace(old, new", id="too few"
        ),
        pytest.param(
            "{{ 1 | round(digits=1) }}", "it is round(precision", id="keyword"
        ),
        pytest.param("{{ 1 is divisibleby }}", "it is divisibleby(num)", id="test"),
        pytest.param("{{ 1e999 }}", "not a JSON number", id="infinite number"),
        pytest.param("{{ " + "9" * 2000 + " }}", "not a JSON number", id="huge number"),
        pytest.param("{{ " + "9" * 5000 + " }}", "not a valid template", id="huger"),
        pytest.param("{{ '\\ud800' }}", "surrogate", id="escaped half character"),
        pytest.param("{{ '\ud800' }}", "surrogate", id="half character"),
        pytest.param("{{ '\\x' }}", "not a valid template", id="bad escape"),
    ],
)
def test_invalid_templates(source: str, sentence: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(source)

    assert caught.value.kind == "template.error"
    assert sentence in caught.value.message
