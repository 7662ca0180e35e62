"""Pages say what happens: their commands are run, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from demo_api import ROOT, DemoApi
from transcripts import Reader, renew

ELSEWHERE = {
    "write-a-plug-in.md",  # tests/e2e/plugins
    "run-a-server.md",  # tests/e2e/test_server.py
    "give-others-access.md",  # tests/e2e/test_access.py
    "cluster-on-one-machine.md",  # tests/e2e/test_up.py
    "deploy.md",  # tests/packaging/test_deploy.py
    "release.md",  # tests/packaging/test_release.py
    "telemetry.md",  # tests/packaging/test_monitoring.py
    "ui.md",  # about pages, not commands
}
PAGES = [
    "README.md",
    "docs/tutorial/first-playbook.md",
    "docs/tutorial/api-to-database.md",
    *sorted(
        f"docs/how-to/{page.name}"
        for page in (ROOT / "docs/how-to").glob("*.md")
        if page.name not in ELSEWHERE
    ),
]


@pytest.fixture
def api() -> Iterator[DemoApi]:
    api = DemoApi()
    yield api
    api.stop()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_its_commands_print(
    page: str, tmp_path: Path, api: DemoApi
) -> None:
    shown = list(Reader(tmp_path, api).follow((ROOT / page).read_text()))

    assert len(shown) >= 2
    wrong = [each for each in shown if not each.true]
    assert not wrong, "run make golden and read the difference"


def test_an_output_that_is_not_true_is_seen_and_renewed(
    tmp_path: Path, api: DemoApi
) -> None:
    page = "```console\n$ noetl --version\nnoetl 0.0.0\n\n$ noetl list\n```\n"
    (version, _) = Reader(tmp_path, api).follow(page)
    (tmp_path / "again").mkdir()
    renewed = renew(page, tmp_path / "again", api)

    assert not version.true
    assert "noetl 0.0.0" not in renewed
    assert "\n$ noetl list\nno executions yet" in renewed
    assert renewed.endswith("\n```\n")
