"""The demo API, fresh for every test, and ``noetl`` with an empty home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from demo_api import DemoApi, Noetl
from intact import findings


@pytest.fixture(scope="session")
def running_api() -> Iterator[DemoApi]:
    api = DemoApi()
    yield api
    api.stop()


@pytest.fixture
def api(running_api: DemoApi) -> DemoApi:
    assert running_api.post("/reset").status == 200
    return running_api


@pytest.fixture
def noetl(tmp_path: Path) -> Iterator[Noetl]:
    """Whatever an example stores is intact."""
    home = tmp_path / "home"
    yield Noetl(home)
    assert findings(home) == []
