"""Short forms of the campaigns of real faults (``scripts/fault_campaigns.py``)."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from faults.clocks import HOUR, Clock, why_no_library
from faults.disks import why_no_disk
from faults.full_home import run_full_home
from faults.proxies import Link

ASK = "import time, datetime; print(time.time(), datetime.datetime.now().timestamp())"


@pytest.mark.skipif(why_no_disk() is not None, reason=why_no_disk() or "")
def test_a_server_whose_disk_is_full_accepts_nothing_and_loses_nothing(
    tmp_path: Path,
) -> None:
    part = run_full_home(7, 1.0, tmp_path / "home", lambda _: None)

    assert part.wrong == []
    assert part.faults["disk filled"] >= 1
    assert part.figures["operations"] > 0


@pytest.mark.skipif(why_no_library() is not None, reason=why_no_library() or "")
def test_the_clock_of_a_process_is_shifted_and_runs_faster(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")

    def ask() -> list[float]:
        command = [sys.executable, "-I", "-S", "-c", ASK]
        said = subprocess.check_output(command, env=clock.environ(), text=True)
        return [float(each) - time.time() for each in said.split()]

    assert all(abs(shift) < 60 for shift in ask())
    clock.set(-24 * HOUR)
    assert all(abs(shift + 24 * HOUR) < 60 for shift in ask())
    clock.set(speed=1e6)
    assert all(shift > 60 for shift in ask())


def test_a_healed_link_passes_all_bytes_of_new_connections() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    link = Link(listening.getsockname()[1])

    def meet() -> tuple[socket.socket, socket.socket]:
        calling = socket.create_connection(("127.0.0.1", link.port))
        return calling, listening.accept()[0]

    with closing(link), listening:
        near, far = meet()
        far.sendall(b"one")
        assert near.recv(9) == b"one"
        link.silence("back")
        near.sendall(b"two")
        assert far.recv(9) == b"two", "the other direction is whole"
        far.sendall(b"lost")
        while not link.harmed:
            time.sleep(0.01)
        link.heal()
        with near, far:
            assert near.recv(9) == b"", "its connection has ended, and nothing is late"
        near, far = meet()
        with near, far:
            near.sendall(b"three")
            assert far.recv(9) == b"three"
