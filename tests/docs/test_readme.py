"""The playbook of the README; its commands are run by ``test_transcripts.py``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl import load

README = (Path(__file__).parents[2] / "README.md").read_text()


@pytest.mark.spec("ROOT-01")
def test_the_playbook_of_the_readme_has_nothing_to_complain_about() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    loaded = load(text)
    assert loaded.valid
    assert loaded.diagnostics == ()
