"""A locked file says who lives: who looks does not stop who begins."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from noetl.local.process_files import held_text, take, write


def test_what_the_holder_wrote_is_read_while_it_lives(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    assert held_text(file) is None
    descriptor = take(file)
    write(descriptor, b"longer than the next")
    write(descriptor, b"me")

    assert held_text(file) == b"me"
    with pytest.raises(BlockingIOError):
        take(file)
    os.close(descriptor)
    assert held_text(file) is None


def test_taking_a_lock_waits_for_a_shared_lock(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.touch()
    looking = os.open(file, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    done = threading.Timer(0.05, os.close, [looking])
    done.start()

    os.close(take(file))
    done.join()
