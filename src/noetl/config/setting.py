"""A setting: its name, how it is read, and where its value comes from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import msgspec

from noetl.types import JSON

T = TypeVar("T")
Origin = Literal["default", "file", "environment", "noetl up", "server"]


PREFIX = "NOETL_"
VARIABLE = "NOETL_CONFIG"
FILE = "config.toml"
MASK = "***"


class Setting(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """What is known of a setting before anybody sets it.

    ``parse`` takes text, or what TOML has for it, and the folder that relative paths
    start from. It raises ``ValueError``, and ``words`` say what was expected, or
    ``ConfigError`` if it has more to say.
    """

    name: str
    words: str
    doc: str
    parse: Callable[[JSON, Path], T]
    default: Callable[[], T]
    default_words: str
    secret: bool = False

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


class Value(msgspec.Struct, frozen=True):
    """The effective value; ``place`` is the variable, or file and line.

    The origin is also what started the server of this home, where the default of a
    setting depends on that.
    """

    setting: Setting[Any]
    value: Any
    origin: Origin
    place: str | None = None

    def shown(self) -> JSON:
        """For people and for JSON; a secret only says that it is there."""
        if self.setting.secret:
            return None if self.value is None else MASK
        if isinstance(self.value, frozenset | tuple):
            return sorted(self.value)
        return str(self.value) if isinstance(self.value, Path) else self.value
