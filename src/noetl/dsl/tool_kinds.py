"""What a tool kind declares about itself, as data: the validator runs no tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from noetl.dsl.grammar.keychain import KEYCHAIN, KeychainKind
from noetl.dsl.grammar.shape import Field, Shape
from noetl.types import JSON


class Input(msgspec.Struct, frozen=True):
    """One input of a kind. A template is welcome wherever a value is."""

    shape: Shape
    doc: str
    required: bool = False
    literal: bool = False  # taken as written, never rendered (python code)
    guards: bool = False  # a mapping of conditions, each to be asked by itself
    query: str | None = None  # "sql" or "shell": values belong into parameters


class Kind(msgspec.Struct, frozen=True):
    """A tool kind: its inputs, its knobs and the defaults of its knobs.

    ``one_of`` lists groups of which exactly one member must be given,
    ``at_most_one`` groups of which two together contradict each other. The inputs of
    one that is ``recorded`` are in the log, where no secret may go.
    """

    name: str
    doc: str
    inputs: Mapping[str, Input]
    result: str
    row: str = "PIPE-21"  # the requirement that asks for this kind
    knobs: Mapping[str, Field] = msgspec.field(default_factory=dict)
    defaults: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    one_of: tuple[tuple[str, ...], ...] = ()
    at_most_one: tuple[tuple[str, ...], ...] = ()
    any_input: bool = False
    recorded: bool = False
    notes: str = ""  # Markdown for the reference, after the tables


class Kinds(dict[str, Kind]):
    """What playbooks may name: tool kinds by name, and kinds of keychain entries.

    ``elsewhere`` says of a name that is not among them how it could become known;
    its first argument is ``tools`` or ``secrets``.
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
