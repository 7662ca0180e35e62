"""Power cuts: whatever a disk kept of unsynced writes, nothing acknowledged is lost.

``CRASH_SEED`` repeats a choice of images, though of another recording;
``scripts/crash_images.py`` judges them all.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from crash.disk import Disk, Record, crashes
from crash.images import Recording, judge_images
from crash.shim import missing
from crash.workload import PLANTED
from seeds import seed_of

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")
SEED = seed_of("CRASH_SEED")
SHARE = 0.06
"""Part of the moments of the recording whose images are judged."""


@pytest.fixture
def random(monkeypatch: pytest.MonkeyPatch) -> Random:
    monkeypatch.setenv("NOETL_HOME", "")  # the campaign sets it
    print(f"CRASH_SEED={SEED}")  # noqa: T201
    return Random(SEED)


def test_no_image_of_a_crash_lacks_what_was_acknowledged(
    tmp_path: Path, random: Random
) -> None:
    recording = Recording(tmp_path)

    tally = judge_images(recording, random, repeats=1, share=SHARE)

    assert tally.wrong == []
    assert set(tally.kinds) == {"lost", "kept", "torn", "some", "garbage"}
    assert tally.commits > 100
    assert tally.images > 500
    assert tally.continued > 5


@pytest.mark.parametrize("bug", PLANTED)
def test_images_show_a_missing_sync(tmp_path: Path, random: Random, bug: str) -> None:
    recording = Recording(tmp_path, bug)

    tally = judge_images(recording, random, repeats=1, share=0.2)

    assert tally.wrong


def records(*calls: tuple[str, str, int, bytes]) -> list[Record]:
    return [Record(call, f"/d/{name}", at, data) for call, name, at, data in calls]


def images_of(calls: list[Record]) -> dict[str, list[dict[str, bytes | None]]]:
    disk = Disk("/d")
    for call in calls:
        disk.take(call._replace(path=call.path.removesuffix("/")))
    found: dict[str, list[dict[str, bytes | None]]] = {}
    for crash in crashes(disk, Random(1), 50):
        image = dict(disk.image(crash.kept, crash.folders))
        del image["/d"]
        found.setdefault(crash.kind, []).append(image)
    return found


NEW = (("C", "a", 0, b""), ("W", "a", 0, b"x" * 1024))


def test_a_file_without_a_synced_folder_may_be_gone() -> None:
    images = images_of(records(*NEW, ("S", "a", 0, b"")))

    assert images["lost"] == [{}]
    assert images["kept"] == [{"/d/a": b"x" * 1024}]


def test_unsynced_writes_may_be_lost_torn_or_garbage() -> None:
    synced = (*NEW, ("S", "a", 0, b""), ("S", "", 0, b""))
    images = images_of(records(*synced, ("W", "a", 256, b"y" * 768)))

    assert images["lost"] == [{"/d/a": b"x" * 1024}]
    assert images["torn"] == [{"/d/a": b"x" * 256 + b"y" * 256 + b"x" * 512}]
    assert {image["/d/a"] for image in images["some"]} > {b"x" * 1024}
    assert all(image["/d/a"][:256] == b"x" * 256 for image in images["garbage"])


def test_an_unsynced_removal_or_new_name_may_be_undone() -> None:
    synced = (*NEW, ("S", "a", 0, b""), ("S", "", 0, b""))
    moved = Record("R", "/d/a", 0, b"/d/b")
    removed = records(("U", "a", 0, b""))

    assert images_of([*records(*synced), moved])["lost"] == [{"/d/a": b"x" * 1024}]
    assert images_of([*records(*synced), moved])["kept"] == [{"/d/b": b"x" * 1024}]
    assert images_of([*records(*synced), *removed])["lost"] == [{"/d/a": b"x" * 1024}]
    assert images_of([*records(*synced), *removed])["kept"] == [{}]
