"""A release takes its notes from the fragments of ``changes/``."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from release import VERSIONED, main, read_fragments  # noqa: E402


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in [*VERSIONED, "CHANGELOG.md"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changes = tmp_path / "changes"
    changes.mkdir()
    (changes / "README.md").write_text("How to write one.\n")
    (changes / "b.fixed.md").write_text("A bug.\nOn two lines.\n")
    (changes / "a.added.md").write_text("A thing.\n")
    return tmp_path


def test_the_fragments_of_this_checkout_can_be_released() -> None:
    assert read_fragments(ROOT / "changes")


def test_every_file_has_the_version_of_the_package() -> None:
    found = {
        name: {*re.findall(pattern, (ROOT / name).read_text(), re.MULTILINE)}
        for name, pattern in VERSIONED.items()
    }

    assert len(set.union(*found.values())) == 1, found
    assert all(found.values())


def test_a_release_moves_the_fragments_into_the_changelog(checkout: Path) -> None:
    main(checkout, "9.8.7", write=True)

    text = (checkout / "CHANGELOG.md").read_text()
    new = "## 9.8.7\n\n### Added\n\n- A thing.\n\n### Fixed\n\n- A bug.\n  On two"
    assert text.index(new) < text.index("\n## 0.1.0\n")
    assert [each.name for each in (checkout / "changes").iterdir()] == ["README.md"]
    for name, pattern in VERSIONED.items():
        found = re.findall(pattern, (checkout / name).read_text(), re.MULTILINE)
        assert {*found} == {"9.8.7"}


def test_a_trial_changes_nothing(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.read_bytes() for file in checkout.rglob("*.*")}

    main(checkout, "9.8.7", write=False)

    assert capsys.readouterr().out.startswith("## 9.8.7\n")
    assert {file: file.read_bytes() for file in checkout.rglob("*.*")} == before


@pytest.mark.parametrize(
    ("version", "fragment", "said"),
    [
        ("0.1.0", None, "is not after 0.1.0"),
        ("1.0", None, "not a version"),
        ("9.0.0", "a.new.md", "a.new.md: expected"),
    ],
)
def test_a_mistake_is_refused(
    checkout: Path, version: str, fragment: str | None, said: str
) -> None:
    if fragment is not None:
        (checkout / "changes" / fragment).write_text("A text.\n")

    with pytest.raises(SystemExit, match=said):
        main(checkout, version, write=True)

    assert (checkout / "changes" / "a.added.md").exists()
