"""Declarations of tool kinds as data; the validator runs no tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from noetl.dsl.grammar.keychain import KEYCHAIN, KeychainKind
from noetl.dsl.grammar.records import Field, Shape
from noetl.types import JSON


class Input(msgspec.Struct, frozen=True):
    """Input of a kind; a template is accepted for any value."""

    shape: Shape
    doc: str
    required: bool = False
    literal: bool = False  # taken as written, never rendered (python code)
    guards: bool = False  # a mapping of conditions, evaluated one by one
    query: str | None = None  # "sql" or "shell": values belong in parameters


class Kind(msgspec.Struct, frozen=True):
    """Tool kind: its inputs, its knobs and the defaults of its knobs.

    ``one_of`` lists groups of which exactly one member must be given, ``at_most_one``
    groups of which at most one. The inputs of a ``recorded`` kind are written to the
    log, so they must not contain secrets.
    """

    name: str
    doc: str
    inputs: Mapping[str, Input]
    result: str
    row: str = "PIPE-21"  # the requirement of this kind
    knobs: Mapping[str, Field] = msgspec.field(default_factory=dict)
    defaults: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    one_of: tuple[tuple[str, ...], ...] = ()
    at_most_one: tuple[tuple[str, ...], ...] = ()
    any_input: bool = False
    recorded: bool = False
    notes: str = ""  # Markdown for the reference, after the tables


class Kinds(dict[str, Kind]):
    """Tool kinds by name, and kinds of keychain entries.

    ``elsewhere`` returns a hint for an unknown name; its first argument is ``tools`` or
    ``secrets``.
    """

    def __init__(
        self,
        tools: Iterable[Kind],
        keychain: Mapping[str, KeychainKind] = KEYCHAIN,
        elsewhere: Callable[[str, str], str | None] = lambda group, name: None,
    ) -> None:
        super().__init__((kind.name, kind) for kind in tools)
        self.keychain = keychain
        self.elsewhere = elsewhere
