"""Nets from a few lines of YAML."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from nets import read_net

from noetl.net.net import Net


@pytest.fixture(scope="session")
def net_of() -> Callable[[str], Net]:
    """A function from the lines of a workflow to its net."""
    return read_net
