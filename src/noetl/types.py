"""Aliases that every layer shares."""

from __future__ import annotations

from typing import Any, TypeAlias

JSON: TypeAlias = Any
"""A value that JSON can hold: None, bool, int, float, str, list or dict of the same.

``Any`` because a recursive alias would make every reader narrow at each level.
"""
