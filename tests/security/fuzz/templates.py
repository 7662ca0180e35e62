"""Throw generated and mutated templates at the evaluator; nothing may escape it.

    python tests/security/fuzz/templates.py --count 200000 --seed 1

Checked for each: only ``TemplateError`` leaves, with a known kind; the scope is
unchanged; results are JSON; the budget is kept. Printed: the worst time and the peak
memory of a single evaluation.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import re
import sys
import time
import tracemalloc
from collections import Counter
from typing import Any

from noetl.errors import TemplateError
from noetl.templates import (
    FILTERS,
    METHODS,
    TESTS,
    Budget,
    Entry,
    Template,
    Undefined,
)

KINDS = {f"template.{k}" for k in ("error", "undefined", "budget", "forbidden")}
MEASURE_MEMORY_EVERY = 50

SCOPE: dict[str, Any] = {
    "ctx": {
        "n": 7,
        "s": "Some text\nwith lines, and ünïcode",
        "rows": [{"id": i, "c": "xyz"[i % 3], "o": {"k": i}} for i in range(50)],
        "nothing": None,
        "items": 3,
        "deep": [[[[[[1]]]]]],
        "when": "2026-01-02T03:04:05Z",
        "b64": "WsO8cmljaA==",
        "js": '{"a": [1, 2.5, null]}',
    },
    "workload": {"long": "ab " * 20_000, "many": list(range(5_000)), "big": 2**4000},
    "args": {"x": 0, "y": -1, "f": 1e308, "t": True},
}

ATOMS = [
    "ctx",
    "ctx.n",
    "ctx.s",
    "ctx.rows",
    "ctx.rows[0]",
    "ctx.rows[-1].c",
    "ctx.nothing",
    "ctx.items",
    "ctx.deep",
    "ctx.when",
    "ctx.b64",
    "ctx.js",
    "ctx.gone",
    "ctx.gone.a",
    "workload.long",
    "workload.many",
    "workload.big",
    "args.x",
    "args.y",
    "args.f",
    "args.t",
    "nowhere",
    "0",
    "1",
    "-1",
    "2",
    "10",
    "255",
    "1000",
    "99999",
    "1.5",
    "1e300",
    "''",
    "'a'",
    "'abc'",
    "'id'",
    "'c'",
    "'%s'",
    "'%d'",
    "'%Y'",
    "'%5.2f'",
    "','",
    "'",
    "'",
    "'__class__'",
    "'odd'",
    "'upper'",
    "'{{'",
    "[]",
    "{}",
    "[1,2,3]",
    "['b','a']",
    "{'a':1}",
    "(1,2)",
    "true",
    "false",
    "none",
    "range(5)",
    "range(9999)",
    "dict",
    "self",
    "now()",
    "loop",
    "x",
]
OPERATORS = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "~",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "and",
    "or",
    "not in",
    "**",
]
NAMES = [*FILTERS, "attr", "center", "random"]
METHOD_ENTRIES: list[tuple[str, Entry | None]] = [
    *(item for c in METHODS.values() for item in c.items())
]
METHOD_ENTRIES += [("append", None), ("format", None)]
TEST_NAMES = [n for n in TESTS if n.isidentifier()] + ["callable"]
PIECES = [
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "'",
    '"',
    "|",
    ".",
    ",",
    ":",
    "~",
    "-",
    "+",
    "*",
    "**",
    "__class__",
    "\\",
    "\x00",
]
PIECES += ["is", "not", "if", "else", "for", "set", "endif", "raw", "é", "\ud800", "\n"]


# What fits together: N a number, T text, L a list, M a mapping, B true or false.
FORMS = {
    "N": """ctx.n|args.x|args.y|workload.big|1|2.5|99|9999|args.f|<N> + <N>|<N> - <N>
<N> * <N>|<N> / <N>|<N> // <N>|<N> % <N>|-(<N>)|(<L>)~length|(<T>)~length|(<L>)~sum
(<N>)~round(<N>)|(<N>)~int|(<T>)~int(0, 16)|(<T>)~float|(<N>)~abs|(<T>).count(<T>)
(<T>).find(<T>)|(<L>)~first|(<L>)~max|(<T>)~wordcount|ctx.when~timestamp|<N> or <N>
<N> if <B> else <N>|(<M>).get(<T>, <N>)|(<L>).index(<N>)|(<L>).count(<N>)""",
    "T": """ctx.s|workload.long|ctx.when|'abc'|' '|''|','|'é\\n'|<T> ~ <T>|<T> + <T>
<T> ~ <N>|(<T>) * (<N>)|(<T>)~upper|(<T>).title()|(<T>)~title|(<T>)~trim(<T>)
(<T>).strip(<T>)
(<T>)~replace(<T>, <T>)|(<T>).replace(<T>, <T>, <N>)|(<T>)~truncate(<N>)|(<T>)[<N>]
(<T>)~indent(<N>, true)|'%s %5s' ~format(<T>, <N>)|(<T>)~urlencode|(<M>)~urlencode
(<T>)~b64encode|(<T>)~sha256|(<L>)~join(<T>)|(<T>).join((<T>).split())|(<L>)~tojson
(<M>)~tojson(2)|(<T>)[<N>:<N>]|(<T>)~reverse|<N>~datetime|<N>~datetime('%Y %j %H')
ctx.when~date_add(days=<N>)|(<T>).partition(<T>)[0]|(<L>)~string|(<T>)~capitalize
(<T>).swapcase()|(<T>).removeprefix(<T>)|(<T>) if <B> else (<T>)""",
    "L": """ctx.rows|workload.many|ctx.deep|[]|[1, 2, 3]|['b', 'A']|[<N>, <T>, <L>]
range(9)|range(<N>)|(<L>) + (<L>)|(<L>) * 3|(<L>) * (<N>)|(<L>)~list|(<T>)~list
(<L>)~reverse
(<L>)~sort|(<L>)~sort(attribute='id')|(<L>)~sort(true, true, 'c,id')|(<L>)~unique
(<L>)~unique(attribute='c')|(<L>)~batch(<N>, <N>)|(<L>)~slice(<N>, <N>)|(<L>)[<N>:]
(<L>)~map(attribute='o.k')|(<L>)~map('string')|(<L>)~map('default', <N>)|(<L>)[::-1]
(<L>)~map('replace', <T>, <T>)|(<L>)~select('odd')|(<L>)~select|(<L>)~reject('in', <L>)
(<L>)~selectattr('id', '>', <N>)|(<L>)~rejectattr('c', 'eq', 'x')|(<L>)~groupby('c')
(<T>).split(<T>)|(<T>)~split|(<T>).splitlines()|(<M>).items()|(<M>)~dictsort|(<M>).keys()
(<L>)~map('map', 'upper')|(<L>)~map(attribute=0)|(<L>)~sum(start=[])|[<L>, <L>]""",
    "M": """ctx|args|{}|{'a': <N>, 'b': <L>}|{<T>: <T>}|(<M>)~combine(<M>)
ctx.js~fromjson|(<L>)~first|{'a': <M>, 'b': <M>}|ctx.rows[<N>]""",
    "B": """true|args.t|<N> < <N>|<N> == <N>|<T> in <T>|<N> in (<L>)|(<L>) == (<L>)
not (<B>)|(<M>) == (<M>)|<T> < <T>|(<L>) < (<L>)|<B> and <B>|<B> or <B>|<N> is odd
<T> is lower
(<L>) is in (<L>)|ctx.gone is defined|<N> is divisibleby(<N>)|<T> is string""",
}
CHOICES = {
    kind: [
        f.replace("~", " | ") if " ~ " not in f else f
        for f in forms.replace("\n", "|").split("|")
    ]
    for kind, forms in FORMS.items()
}
MARK = re.compile("<([NTLMB])>")


class Grammar:
    """Makes templates from the grammar, and spoils some of them."""

    def __init__(self, random: random.Random) -> None:
        self._random = random

    def template(self) -> str:
        choose = self._random.random()
        if choose < 0.3:
            source = "{{ " + self.fitting(self._random.choice("NTLMB"), 5) + " }}"
        elif choose < 0.5:
            source = "{{ " + self.expression(self._random.randint(1, 5)) + " }}"
        elif choose < 0.7:
            source = "text {{ " + self.expression(3) + " }} more {{ ctx.n }}\n"
        else:
            source = self.statements(3)
        return self.mutate(source) if self._random.random() < 0.25 else source

    def fitting(self, kind: str, depth: int) -> str:
        """An expression whose parts go together."""
        forms = CHOICES[kind]
        form = self._random.choice(forms if depth > 0 else forms[:3])
        return MARK.sub(lambda mark: self.fitting(mark.group(1), depth - 1), form)

    def expression(self, depth: int) -> str:
        pick = self._random.choice
        if depth <= 0 or self._random.random() < 0.15:
            return pick(ATOMS)
        inner = depth - 1
        form = self._random.randrange(13)
        one = self.expression(inner)
        if form <= 2:
            return f"({one} {pick(OPERATORS)} {self.expression(inner)})"
        if form <= 5:
            name = pick(NAMES)
            return f"({one} | {name}{self.arguments(inner, FILTERS.get(name))})"
        if form == 6:
            name, entry = pick(METHOD_ENTRIES)
            return f"({one}).{name}{self.arguments(inner, entry) or '()'}"
        if form == 7:
            name = pick(TEST_NAMES)
            return f"({one} is {name}{self.arguments(inner, TESTS.get(name))})"
        if form == 8:
            return f"({one})[{self.expression(inner)}]"
        if form == 9:
            return f"({one})[{self.expression(inner)}:{pick(ATOMS)}]"
        if form == 10:
            return f"[{one}, {self.expression(inner)}]"
        if form == 11:
            return f"{{'k': {one}, {pick(ATOMS)}: {self.expression(inner)}}}"
        return f"({one} if {self.expression(inner)} else {pick(ATOMS)})"

    def arguments(self, depth: int, entry: Entry | None = None) -> str:
        """Arguments that fit, mostly: else nothing but their number is tried."""
        for _ in range(8):
            count = self._random.choice((0, 0, 1, 1, 2, 3))
            named: tuple[str, ...] = ()
            if entry is not None and entry.parameters and self._random.random() < 0.3:
                named = (self._random.choice(entry.parameters).name,)
            if entry is None or entry.accepts(count, named):
                break
        parts = [self.expression(min(depth, 1)) for _ in range(count)]
        parts += [f"{name}={self.expression(1)}" for name in named]
        return f"({', '.join(parts)})" if parts else ""

    def statements(self, depth: int) -> str:
        parts = []
        for _ in range(self._random.randint(1, 3)):
            form = self._random.randrange(5)
            inner = self.statements(depth - 1) if depth > 0 else "."
            value = self.expression(2)
            if self._random.random() < 0.7:
                value = self.fitting(self._random.choice("NTLLLMB"), 3)
            if form == 0:
                parts.append(f"{{% set x = {value} %}}")
            elif form == 1:
                parts.append(f"{{% for x in {value} %}}{inner}{{% endfor %}}")
            elif form == 2:
                parts.append(f"{{% if {value} %}}{inner}{{% else %}}-{{% endif %}}")
            elif form == 3:
                grow = self._random.choice(
                    ("x ~ x", "[x, x]", "x + x", "{'a':x,'b':x}")
                )
                times = self._random.randint(1, 40)
                parts.append(
                    f"{{% set x = {value} %}}" + f"{{% set x = {grow} %}}" * times
                )
            else:
                parts.append(f"{{{{ {value} }}}}{{{{ x }}}}")
        return "".join(parts)

    def mutate(self, source: str) -> str:
        for _ in range(self._random.randint(1, 4)):
            at = self._random.randrange(len(source) + 1)
            form = self._random.randrange(4)
            if form == 0:
                source = source[:at] + self._random.choice(PIECES) + source[at:]
            elif form == 1:
                source = source[:at] + source[at + self._random.randint(1, 5) :]
            elif form == 2:
                part = source[at : at + self._random.randint(1, 20)]
                source = source[:at] + part * self._random.randint(2, 300) + source[at:]
            else:
                source = (
                    source[:at] + chr(self._random.randrange(0x250)) + source[at + 1 :]
                )
        return source


def expect_kind(error: TemplateError) -> str:
    assert error.kind in KINDS, error.kind
    assert error.message, error.kind
    return error.kind


def check(source: str) -> str:
    """Compile and evaluate in every way; return what happened."""
    try:
        template = Template(source)
    except TemplateError as error:
        return expect_kind(error)
    end = "value"
    for evaluate in (template.render, template.holds, template.evaluate):
        budget = Budget()
        try:
            result = evaluate(SCOPE, budget)
        except TemplateError as error:
            end = expect_kind(error)
        else:
            if not isinstance(result, Undefined):
                json.dumps(result, allow_nan=False).encode()
        assert 0 <= budget.steps <= 200_000, budget.steps
    return end


def run(source: str) -> tuple[str, float]:
    """What happened, and the processor time of compiling and three evaluations."""
    started = time.process_time()
    end = check(source)
    return end, time.process_time() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    grammar = Grammar(random.Random(options.seed))
    before = json.dumps(SCOPE)
    ends: Counter[str] = Counter()
    worst, peak = (0.0, ""), (0, "")
    gc.freeze()
    for number in range(options.count):
        source = grammar.template()
        try:
            end, elapsed = run(source)
            if elapsed > worst[0]:  # again, lest it was the machine
                worst = max(worst, (min(elapsed, run(source)[1]), source))
            if number % MEASURE_MEMORY_EVERY == 0:
                tracemalloc.start()
                check(source)
                peak = max(peak, (tracemalloc.get_traced_memory()[1], source))
                tracemalloc.stop()
        except BaseException:
            where = f"seed {options.seed}, template {number}"
            print(f"{where}: {source!r}", file=sys.stderr)
            raise
        ends[end] += 1
        if number % 1000 == 0:
            assert json.dumps(SCOPE) == before, source
    assert json.dumps(SCOPE) == before
    counts = ", ".join(f"{kind} {count}" for kind, count in ends.most_common())
    print(
        f"{options.count} templates, seed {options.seed}: clean; {counts}; worst "
        f"{worst[0] * 1000:.1f} ms to compile and evaluate three times, peak "
        f"{peak[0] / 1e6:.1f} MB"
    )
    print(f"slowest: {worst[1][:300]!r}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
