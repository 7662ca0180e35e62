"""The home folder survives a power cut, and says what goes wrong in it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from noetl.adapters.secrets import private_files
from noetl.adapters.secrets.private_files import make_folder
from noetl.errors import ConfigError
from noetl.local.control_socket import ControlServer
from noetl.local.home import Home


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    folders: list[Path] = []
    monkeypatch.setattr(private_files, "sync_folder", folders.append)
    return folders


def test_the_folder_above_each_new_folder_is_synced(
    tmp_path: Path, synced: list[Path]
) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")

    assert synced == [tmp_path, tmp_path / "a"]
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_a_folder_is_created_in_one_that_may_not_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(private_files, "sync_folder", refuse)

    make_folder(tmp_path / "a")

    assert (tmp_path / "a").is_dir()


def test_a_home_that_cannot_be_created_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="cannot be created: Not a directory"):
        Home(tmp_path / "file" / "home").make()


async def test_a_control_socket_that_cannot_be_removed_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handle(_: object) -> None:
        """Take no order."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "injected")

    control = ControlServer(tmp_path / "log.db", handle)
    await control.open()
    with monkeypatch.context() as broken:
        broken.setattr(Path, "unlink", refuse)
        await control.close()

    again = ControlServer(tmp_path / "log.db", handle)
    await again.open()
    await again.close()
