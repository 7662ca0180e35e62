"""Limits of templates and of the values that they make."""

from __future__ import annotations

SOURCE_BYTES = 16 * 1024
NODES = 2_000
DEPTH = 60
BRACKETS = 32
"""Fewer than ``DEPTH``: each bracket costs the parser some fifteen Python frames."""

TOKENS = 3 * NODES

STEPS = 200_000
DECISION = 2 * STEPS
"""Steps of all templates that are evaluated for one decision: the arcs of a step, its
admission, the inputs of a task. They are counted, so that the same playbook and values
exceed it on every machine (I-09)."""

MISSING = 20
"""Undefined names that one decision notes."""

SIZE = 262_144
"""Characters of a text, or items of a list, that a template makes."""

BITS = 4_096
LARGEST_INTEGER = 1 << BITS
NESTING = 100
"""Levels of lists and mappings in a value that a template makes or compares."""

RANGE = 10_000
WHOLE_RANGE = 2**53
"""Length of a range that is not built; the loop over it has its own limits."""

WIDTH = 1_000
"""The widest field of the ``format`` filter."""

CHARS_PER_STEP = 64
"""Characters of text that cost one step."""
