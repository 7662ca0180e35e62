"""A release: one commit gives the same bytes, and its files vouch for each other."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = [
    *("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore"),
    *("requirements.lock", "deploy/requirements.lock", "deploy/build.lock"),
    *("deploy/sbom.cdx.json", "scripts/dist.py", "scripts/verify_dist.py"),
]
NAMED = {"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME"}
MOMENT = "2026-01-02T03:04:05Z"
ENVIRON = {
    **{name: value for name, value in os.environ.items() if name[:4] != "GIT_"},
    **dict.fromkeys([*NAMED, "GIT_COMMITTER_EMAIL"], "a"),
    **{"GIT_AUTHOR_DATE": MOMENT, "GIT_COMMITTER_DATE": MOMENT},
}

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="there is no git here")


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, env=ENVIRON, capture_output=True, text=True)


def git(checkout: Path, *args: str) -> str:
    done = run("git", "-C", checkout, *args)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def make_checkout(folder: Path) -> Path:
    """A small project with the build files of this one, committed at a fixed time."""
    for name in COPIED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "src" / "noetl").mkdir(parents=True)
    (folder / "src" / "noetl" / "__init__.py").write_text('"""Small."""\n')
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--no-verify", "-m", "small")
    return folder


def build(checkout: Path, into: Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, checkout / "scripts" / "dist.py", into)


def verify(folder: Path, *commit: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, ROOT / "scripts" / "verify_dist.py", folder, *commit)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    done = build(checkout, folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def release(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "release"))


def test_the_same_commit_gives_the_same_bytes(built: Path, tmp_path: Path) -> None:
    other = make_checkout(tmp_path / "elsewhere")
    (other / "src" / "noetl" / "__init__.py").touch()

    done = build(other, tmp_path / "again")

    assert done.returncode == 0, done.stderr
    names = {file.name for file in built.iterdir()}
    assert len(names) == 5
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (built / name).read_bytes()


def test_the_provenance_states_files_commit_and_locks(
    built: Path, checkout: Path
) -> None:
    (file,) = built.glob("*.provenance.json")
    statement = json.loads(file.read_text())
    definition = statement["predicate"]["buildDefinition"]
    source, *locks = definition["resolvedDependencies"]

    assert source["digest"] == {"gitCommit": git(checkout, "rev-parse", "HEAD")}
    assert definition["externalParameters"] == {"SOURCE_DATE_EPOCH": "1767323045"}
    digests = {each["name"]: each["digest"]["sha256"] for each in locks}
    assert digests.keys() > {"requirements.lock", "deploy/build.lock"}
    for each in (*locks, *statement["subject"]):
        name = each["name"]
        path = checkout / name if name in digests else built / name
        assert each["digest"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    ends = sorted(each["name"].rpartition(".")[2] for each in statement["subject"])
    assert ends == ["gz", "json", "whl"]


def test_the_bill_of_materials_is_beside_the_wheel(built: Path) -> None:
    (bill,) = built.glob("*.cdx.json")

    assert bill.read_bytes() == (ROOT / "deploy" / "sbom.cdx.json").read_bytes()


def test_nothing_is_built_from_files_that_are_not_committed(tmp_path: Path) -> None:
    other = make_checkout(tmp_path / "changed")
    (other / "src" / "noetl" / "more.py").write_text("")

    done = build(other, tmp_path / "into")

    assert done.returncode == 1
    assert "src/noetl/more.py" in done.stderr
    assert not (tmp_path / "into").exists()


def test_a_folder_with_files_is_left_alone(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")

    done = build(checkout, tmp_path)

    assert done.returncode == 1
    assert "is not empty" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_a_release_that_is_whole_is_verified(release: Path, checkout: Path) -> None:
    done = verify(release, git(checkout, "rev-parse", "HEAD"))

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("end", [".whl", ".tar.gz", ".cdx.json", ".provenance.json"])
def test_a_changed_file_is_found(release: Path, end: str) -> None:
    (file,) = release.glob(f"*{end}")
    file.write_bytes(file.read_bytes() + b"\n")

    done = verify(release)

    assert done.returncode == 1
    assert done.stderr.startswith(f"noetl: {file.name} does not have the hash")


def test_a_file_too_many_or_too_few_is_found(release: Path) -> None:
    (release / "extra.whl").write_text("x")
    (archive,) = release.glob("*.tar.gz")
    archive.unlink()

    done = verify(release)

    assert done.returncode == 1
    assert "extra.whl is not listed in SHA256SUMS" in done.stderr
    assert f"{archive.name} is listed in SHA256SUMS and missing" in done.stderr


def test_a_list_that_was_changed_with_its_file_is_found(release: Path) -> None:
    (file,) = release.glob("*.whl")
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_bytes(b"other")
    sums = release / "SHA256SUMS"
    after = hashlib.sha256(b"other").hexdigest()
    sums.write_text(sums.read_text().replace(before, after))

    done = verify(release)

    assert done.returncode == 1
    assert f"does not state the hash of {file.name}" in done.stderr


def test_another_commit_and_an_empty_folder_are_found(
    release: Path, tmp_path: Path
) -> None:
    assert "expected 0123" in verify(release, "0123").stderr
    (tmp_path / "empty").mkdir()
    assert "there is no SHA256SUMS" in verify(tmp_path / "empty").stderr
