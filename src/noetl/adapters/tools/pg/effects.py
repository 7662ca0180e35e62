"""Whether SQL can change anything: only what surely cannot is said to be read-only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from noetl.adapters.tools.pg.script import Statement, split
from noetl.adapters.tools.pg.tokens import Token, scan


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READING = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN"})
_FRAMES = frozenset({"BEGIN", "START", "COMMIT", "END"})
# Anywhere in a statement, even as a name: better one barrier too many.
_WRITING = _words(
    "INSERT UPDATE DELETE MERGE INTO TRUNCATE COPY CALL DO LOCK CREATE ALTER DROP "
    "GRANT REVOKE EXECUTE ANALYZE ANALYSE FOR"
)
# What may stand before a parenthesis without being a function.
_GRAMMAR = _words(
    "ALL AND ANY ARRAY AS BETWEEN BY CASE CUBE DISTINCT ELSE EXCEPT EXISTS FILTER FROM "
    "GROUPING HAVING ILIKE IN INTERSECT INTERVAL IS JOIN LATERAL LIKE LIMIT "
    "MATERIALIZED NOT OFFSET ON OR OVER PARTITION RECURSIVE ROLLUP ROW SELECT SETS "
    "SOME THEN TIME TIMESTAMP UNION USING VALUES WHEN WHERE WITH WITHIN "
    "BIT CHAR CHARACTER DEC DECIMAL FLOAT NUMERIC VARCHAR VARYING EXPLAIN"
)
# Functions of PostgreSQL that only compute. Any other may write.
_PURE = _words(
    "ABS AGE ARRAY_AGG ARRAY_APPEND ARRAY_LENGTH ARRAY_POSITION ARRAY_TO_JSON "
    "ARRAY_TO_STRING ASCII AVG BIT_AND BIT_OR BOOL_AND BOOL_OR BTRIM CAST CEIL CEILING "
    "CHAR_LENGTH CHARACTER_LENGTH CHR COALESCE CONCAT CONCAT_WS COUNT CUME_DIST "
    "DATE_BIN DATE_PART DATE_TRUNC DENSE_RANK EVERY EXP EXTRACT FIRST_VALUE FLOOR "
    "FORMAT GENERATE_SERIES GREATEST HASHTEXT INITCAP JSON_AGG JSON_ARRAY_LENGTH "
    "JSON_BUILD_ARRAY JSON_BUILD_OBJECT JSON_OBJECT_AGG JSONB_AGG JSONB_ARRAY_ELEMENTS "
    "JSONB_ARRAY_ELEMENTS_TEXT JSONB_ARRAY_LENGTH JSONB_BUILD_ARRAY JSONB_BUILD_OBJECT "
    "JSONB_EACH JSONB_EACH_TEXT JSONB_EXTRACT_PATH JSONB_EXTRACT_PATH_TEXT "
    "JSONB_OBJECT_AGG JSONB_OBJECT_KEYS JSONB_TO_RECORDSET JUSTIFY_INTERVAL LAG "
    "LAST_VALUE LEAD LEAST LEFT LENGTH LN LOG LOWER LPAD LTRIM MAKE_DATE MAKE_INTERVAL "
    "MAX MD5 MIN MOD MODE NOW NTH_VALUE NTILE NULLIF OCTET_LENGTH OVERLAY "
    "PERCENT_RANK PERCENTILE_CONT PERCENTILE_DISC PG_SLEEP POSITION POWER RANDOM RANK "
    "REGEXP_MATCH REGEXP_MATCHES REGEXP_REPLACE REPEAT REPLACE REVERSE RIGHT ROUND "
    "ROW_NUMBER ROW_TO_JSON RPAD RTRIM SHA256 SIGN SPLIT_PART SQRT STDDEV STRING_AGG "
    "STRING_TO_ARRAY STRPOS SUBSTR SUBSTRING SUM TO_CHAR TO_DATE TO_JSON TO_JSONB "
    "TO_NUMBER TO_TIMESTAMP TRANSLATE TRIM TRUNC UNNEST UPPER VARIANCE"
)


INSPECTED = 16 * 1024
"""Characters of SQL that are inspected on the event loop, before a call."""


def may_write(sql: str) -> bool:
    """Whether to record the start of a call before it runs; a text that would take
    long to inspect counts as one that writes."""
    return len(sql) > INSPECTED or not is_read_only(sql)


def is_read_only(sql: str) -> bool:
    """True only if nothing in the text can have an effect; doubt is an effect."""
    return only_reads(split(sql))


def only_reads(statements: Sequence[Statement]) -> bool:
    return all(reads(statement) for statement in statements)


def reads(statement: Statement) -> bool:
    first = statement.words[0] if statement.words else ""
    if first in _FRAMES:
        return True
    if first not in _READING:
        return False
    tokens = list(scan(statement.text))
    words = {token.text.upper() for token in tokens if token.kind == "word"}
    return not words & _WRITING and all(name in _PURE for name in calls(tokens))


def calls(tokens: Sequence[Token]) -> Iterator[str]:
    """What is called; a quoted or qualified name may be anything."""
    for at in range(1, len(tokens)):
        name = tokens[at - 1]
        if tokens[at].text != "(" or name.kind not in ("word", "quoted"):
            continue
        if at >= 2 and tokens[at - 2].text == ".":
            yield name.text.lower()
        elif name.kind == "quoted" or name.text.upper() not in _GRAMMAR:
            yield name.text.upper()
