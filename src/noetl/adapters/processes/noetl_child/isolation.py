"""Contained code: it cannot leave state behind, so that executions may share a process.

The module is a short allow-list; all other code gets a process of its execution.
Contained code can compute, and change objects that it has made. It can neither reach
nor read an object that outlives the call and could be changed, and has nothing that
runs on destruction: no classes, no generator functions, no asynchronous code.
"""

from __future__ import annotations

import _ast
import base64
import builtins
import collections
import datetime
import functools
import itertools
import json
import math
import re
import string
import time
from types import CodeType, ModuleType

from .faults import CODE

_NODES = frozenset(
    """
    Module Expr Assign AugAssign AnnAssign Delete For While If Try ExceptHandler Raise
    Assert Pass Break Continue Return FunctionDef Lambda arguments arg Global Nonlocal
    Import ImportFrom alias BoolOp NamedExpr BinOp UnaryOp IfExp Dict Set List Tuple
    ListComp SetComp DictComp GeneratorExp comprehension Compare Call keyword Starred
    FormattedValue JoinedStr Constant Attribute Subscript Slice Name Load Store Del
    And Or Add Sub Mult Div Mod Pow LShift RShift BitOr BitXor BitAnd FloorDiv Invert
    Not UAdd USub Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn
    """.split()  # noqa: SIM905
)
# Without those that look up names (getattr, vars, type), make code, open files or exit.
_BUILTINS = frozenset(
    """
    abs all any ascii bin bool bytearray bytes callable chr complex dict divmod
    enumerate filter float format frozenset hex int isinstance iter len list map max min
    next oct ord pow print range repr reversed round set slice sorted str sum tuple zip
    False None True
    """.split()  # noqa: SIM905
) | {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception)
}
# Functions without state of each module. The modules are imported before any code, in
# all processes: a file of the same name in the playbook's folder replaces none of them.
MODULES: dict[ModuleType, frozenset[str]] = {
    module: frozenset(names.split())
    for module, names in (
        (
            base64,
            """b16decode b16encode b32decode b32encode b64decode b64encode
            decode encode standard_b64decode standard_b64encode urlsafe_b64decode
            urlsafe_b64encode""",
        ),
        (collections, "Counter OrderedDict defaultdict deque"),
        (datetime, "MAXYEAR MINYEAR UTC date datetime time timedelta timezone tzinfo"),
        (functools, "cache cmp_to_key lru_cache partial reduce"),
        (
            itertools,
            """accumulate batched chain combinations combinations_with_replacement
            compress count cycle dropwhile filterfalse groupby islice pairwise
            permutations product repeat starmap takewhile tee zip_longest""",
        ),
        (json, "JSONDecodeError dumps loads"),
        (
            math,
            """acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh
            degrees dist e erf erfc exp exp2 expm1 fabs factorial floor fma fmod frexp
            fsum gamma gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp lgamma
            log log10 log1p log2 modf nan nextafter perm pi pow prod radians remainder
            sin sinh sqrt sumprod tan tanh tau trunc ulp""",
        ),
        (
            re,
            """A ASCII DOTALL I IGNORECASE M MULTILINE S VERBOSE X compile error escape
            findall finditer fullmatch match search split sub subn""",
        ),
        (
            string,
            """ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits
            octdigits printable punctuation whitespace""",
        ),
        (
            time,
            """ctime monotonic perf_counter sleep strftime strptime time time_ns
            timezone tzname""",
        ),
    )
}
# Methods and fields of values; not ``format``, which reads any attribute by its name.
ATTRIBUTES = frozenset(
    """
    add append appendleft args as_integer_ratio astimezone bit_count bit_length
    capitalize casefold center clear combine conjugate copy count ctime date day days
    decode denominator difference difference_update discard dst elements encode end
    endswith expand expandtabs extend extendleft find findall finditer fold from_bytes
    from_iterable fromhex fromisocalendar fromisoformat fromkeys fromordinal
    fromtimestamp fullmatch get group groupdict groups hex hour imag index insert
    intersection intersection_update is_integer isalnum isalpha isascii isdecimal
    isdigit isdisjoint isidentifier islower isnumeric isocalendar isoformat isoweekday
    isprintable isspace issubset issuperset istitle isupper items join keys lastgroup
    lastindex ljust lower lstrip maketrans match max maxlen microsecond microseconds min
    minute month most_common move_to_end now numerator partition pattern pop popitem
    popleft real remove removeprefix removesuffix replace resolution reverse rfind
    rindex rjust rotate rpartition rsplit rstrip search second seconds setdefault sort
    span split splitlines start startswith step stop strftime strip strptime sub subn
    subtract swapcase symmetric_difference symmetric_difference_update time timestamp
    timetuple timetz title to_bytes today toordinal total total_seconds translate tzinfo
    tzname union update upper utc utcoffset values weekday year zfill
    """.split()  # noqa: SIM905
).union(*MODULES.values())
_BY_NAME = {module.__name__: names for module, names in MODULES.items()}
_FORBIDDEN = frozenset(vars(builtins)) - _BUILTINS


def compile_contained(text: str) -> CodeType | None:
    """Return the compiled code; None if it is not contained or not valid."""
    try:
        flags: int = _ast.PyCF_ONLY_AST
        tree: _ast.Module = compile(text, CODE, "exec", flags, dont_inherit=True)
        if not all(map(is_allowed, nodes(tree))):
            return None
        code: CodeType = compile(tree, CODE, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None
    return code


def nodes(tree: _ast.AST) -> list[_ast.AST]:
    """Return all nodes, without recursion, since a tree may be deep."""
    found = [tree]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, _ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [each for each in value if isinstance(each, _ast.AST)]
    return found


def is_allowed(node: _ast.AST) -> bool:
    if type(node).__name__ not in _NODES:
        return False
    match node:
        case _ast.Name():
            return node.id not in _FORBIDDEN and is_plain(node.id)
        case _ast.Attribute():
            return isinstance(node.ctx, _ast.Load) and node.attr in ATTRIBUTES
        case _ast.Import():
            return all(each.name in _BY_NAME for each in node.names)
        case _ast.ImportFrom():
            names = _BY_NAME.get(node.module or "", frozenset())
            return not node.level and all(each.name in names for each in node.names)
        case _ast.alias():
            return is_plain(node.asname)
        case _ast.arg() | _ast.keyword():
            return is_plain(node.arg)
        case _ast.FunctionDef() | _ast.ExceptHandler():
            return is_plain(node.name)
        case _ast.Global() | _ast.Nonlocal():
            return all(map(is_plain, node.names))
        case _:
            return True


def is_plain(name: str | None) -> bool:
    return name is None or not name.startswith("__")
