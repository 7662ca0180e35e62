"""Which files tools may open: below allowed folders, and nothing hidden."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from noetl.adapters.files import Files, Roots
from noetl.adapters.host import HostPolicy
from noetl.errors import ToolError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "home" / "deep").mkdir(parents=True)
    (root / "a.csv").write_text("a")
    (root / "home" / "token").write_text("t")
    (tmp_path / "secret").write_text("s")
    (root / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "pipe")
    return root


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../secret", "files.roots"),
        ("/etc/passwd", "files.roots"),
        ("link", "files.roots"),
        ("home/token", "files.roots"),
        ("./home/../home/token", "files.roots"),
        ("pipe", "regular"),
        (".", "regular"),
        ("missing", "No such file"),
        ("a\0b", "not the path"),
        ("", "not the path"),
    ],
)
def test_only_regular_files_below_the_roots_are_opened(
    path: str, why: str, root: Path
) -> None:
    roots = Roots(str(root), [str(root)], [str(root / "home")])

    with roots.open_file("a.csv", "path") as file:
        assert file.read() == b"a"
    with pytest.raises(ToolError, match=why) as raised:
        roots.open_file(path, "path")
    assert str(root) not in raised.value.message


def test_a_hidden_folder_wins_over_every_root(root: Path) -> None:
    home = root / "home"
    for roots in ((root,), (home,), (home / "deep",), (root, home)):
        policy = HostPolicy(roots=tuple(map(str, roots)), hidden=(str(home),))
        with pytest.raises(ToolError, match=r"files\.roots"):
            Files(policy).roots(None).locate(str(home / "deep" / "x"), "path")
        assert not any(
            str(home).startswith(each) or each.startswith(str(home))
            for each in Files(policy).roots(None).visible().folders
        )


def test_what_is_beside_a_hidden_folder_stays_visible(root: Path) -> None:
    (root / "data").mkdir()
    policy = HostPolicy(roots=(str(root),), hidden=(str(root / "home" / "deep"),))

    seen = Files(policy).roots(None).visible()

    assert seen.folders == [str(root / "data")]
    assert seen.files == [str(root / "a.csv"), str(root / "home" / "token")]


def test_the_folder_of_a_playbook_counts_where_the_policy_says_so(root: Path) -> None:
    with_folder = Files(HostPolicy(playbook_folder=True)).roots(str(root))
    without = Files(HostPolicy()).roots(str(root))

    assert with_folder.locate("a.csv", "path") == str(root / "a.csv")
    with pytest.raises(ToolError, match=r"relative.*files\.roots"):
        without.locate("a.csv", "path")
    with pytest.raises(ToolError, match=r"files\.roots"):
        without.locate(str(root / "a.csv"), "path")


def test_a_relative_path_begins_in_the_only_root(root: Path, tmp_path: Path) -> None:
    one = Files(HostPolicy(roots=(str(root),))).roots(None)
    two = Files(HostPolicy(roots=(str(root), str(tmp_path)))).roots(None)

    assert one.locate("a.csv", "path") == str(root / "a.csv")
    with pytest.raises(ToolError, match="relative"):
        two.locate("a.csv", "path")
