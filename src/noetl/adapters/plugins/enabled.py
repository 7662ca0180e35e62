"""What is enabled, and what is not and could be."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from noetl.adapters.tools import BUILTIN
from noetl.dsl.grammar.keychain import KEYCHAIN
from noetl.dsl.kinds import Kinds

if TYPE_CHECKING:
    from noetl.plugins import QuantumPlugin, ResultPlugin, SecretPlugin, ToolPlugin


class Plugins(msgspec.Struct, frozen=True, dict=True):
    """What is enabled, by the names that playbooks and settings use."""

    tools: Mapping[str, ToolPlugin] = msgspec.field(default_factory=dict)
    secrets: Mapping[str, SecretPlugin] = msgspec.field(default_factory=dict)
    results: Mapping[str, ResultPlugin] = msgspec.field(default_factory=dict)
    quantum: Mapping[str, QuantumPlugin] = msgspec.field(default_factory=dict)

    @cached_property
    def kinds(self) -> Kinds:
        """What playbooks may name: what is built in, and what is enabled."""
        tools = [*BUILTIN.values(), *(each.kind for each in self.tools.values())]
        keychain = {name: each.kind for name, each in self.secrets.items()}
        return Kinds(tools, {**KEYCHAIN, **keychain}, how_to_enable)


def how_to_enable(group: str, name: str) -> str | None:
    """Of a name that is not known: a package that is installed may bring it."""
    from noetl.adapters.plugins.packages import bringing  # slow, and seldom needed

    found = bringing(f"noetl.{group}", name)
    if not found:
        return None
    packages = " or ".join(found)
    return (
        f"{packages} brings it, and is not enabled: add it to the setting plugins "
        f"(NOETL_PLUGINS={found[0]})"
    )
