"""Links through the kernel: two network namespaces with a wire for each link."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Literal

from faults.proxies import Direction, Link
from noetl.adapters import poolers

NEW_NETWORK = 0x40000000  # CLONE_NEWNET
HERE = Path("/proc/thread-self/ns/net")
Side = Literal["near", "far"]
SLOW = ["tbf", "rate", "128kbit", "burst", "4kb", "latency", "400ms"]
LOSSY = ["tbf", "rate", "256kbit", "burst", "2kb", "limit", "4kb"]
"""A queue of two packets: what does not fit is lost."""
SLOW_NETEM = ["netem", "delay", "500ms", "100ms"]
LOSSY_NETEM = ["netem", "loss", "30%"]


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Namespaces:
    """The two ends of all wires. The kernel removes the wires with the namespaces."""

    def __init__(self) -> None:
        self.names: dict[Side, str] = {
            "near": f"noetl-near-{os.getpid()}",
            "far": f"noetl-far-{os.getpid()}",
        }
        self._wires = 0
        for name in self.names.values():
            ip("netns", "add", name)
        self.why_no_netem = self._try_netem()

    def _try_netem(self) -> str | None:
        """Return why packets cannot be delayed and lost at random."""
        try:
            self.shape("near", "lo", ["netem", "delay", "1ms"])
        except OSError as error:
            return str(error)
        return None

    def shape(self, side: Side, wire: str, how: list[str] | None) -> None:
        """Give a wire this queue, or none of its own."""
        command = ["tc", "-n", self.names[side], "qdisc"]
        words = (
            ["del", "dev", wire, "root"] if how is None else ["replace", "dev", wire]
        )
        words += [] if how is None else ["root", *how]
        done = subprocess.run([*command, *words], capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"tc qdisc {' '.join(words)}: {done.stderr.strip()}")

    def add_wire(self) -> tuple[str, str, str]:
        """Return the name of a new wire, and the addresses of its near and far end."""
        self._wires += 1
        name = f"wire{self._wires}"
        ends = (f"10.77.{self._wires}.1", f"10.77.{self._wires}.2")
        near, far = self.names["near"], self.names["far"]
        peer = ["peer", "name", name, "netns", far]
        ip("-n", near, "link", "add", name, "type", "veth", *peer)
        for names, end in zip((near, far), ends, strict=True):
            ip("-n", names, "addr", "add", f"{end}/30", "dev", name)
            ip("-n", names, "link", "set", name, "up")
        return name, *ends

    @contextmanager
    def inside(self, side: Side) -> Iterator[None]:
        """Let this thread make sockets of a namespace; they stay there."""
        libc = ctypes.CDLL(None, use_errno=True)
        with (
            HERE.open() as home,
            Path(f"/run/netns/{self.names[side]}").open() as there,
        ):
            if libc.setns(there.fileno(), NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                assert libc.setns(home.fileno(), NEW_NETWORK) == 0

    def resent(self) -> int:
        """Return how many segments were sent again, since their first copy was lost."""
        total = 0
        for side in ("near", "far"):
            with self.inside(side):
                lines = Path("/proc/thread-self/net/snmp").read_text().splitlines()
            names, values = (line.split() for line in lines if line.startswith("Tcp:"))
            total += int(values[names.index("RetransSegs")])
        return total

    def close(self) -> None:
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=True)


def why_no_namespaces() -> str | None:
    """Return why links cannot be made by the kernel here."""
    try:
        tried = Namespaces()
    except (OSError, FileNotFoundError) as error:
        return str(error)
    try:
        tried.add_wire()
        with tried.inside("near"):
            return None
    except (OSError, AssertionError) as error:
        return str(error)
    finally:
        tried.close()


class Wire(Link):
    """A link whose bytes pass a wire of the kernel, in packets that get lost.

    A connection outlives a short cut, as it does in a real network.
    """

    def __init__(self, port: int, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._wire, self._near, self._far = namespaces.add_wire()
        self._broken: list[Direction] = []
        self._is_shaped = False
        super().__init__(port)

    @property
    def far_end(self) -> str:
        """Host and port for programs inside of the near namespace."""
        return f"{self._far}:{self._far_port}"

    async def _prepare(self, stack: AsyncExitStack) -> None:
        """Listen at the far end of the wire, and pass on from there."""
        with self._namespaces.inside("far"):
            listening = socket.create_server((self._far, 0))
        self._far_port = listening.getsockname()[1]
        passing = await asyncio.start_server(self._relay, sock=listening)
        stack.callback(passing.close)

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        _notice_silence(writer.get_extra_info("socket"))
        await self._join(reader, writer, super()._dial)

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        with self._namespaces.inside("near"):
            calling = socket.socket()
        calling.setblocking(False)
        _notice_silence(calling)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(calling, (self._far, self._far_port))
        return await asyncio.open_connection(sock=calling)

    def cut(self, *, is_cut: bool = True) -> None:
        state = "down" if is_cut else "up"
        name = self._namespaces.names["near"]
        ip("-n", name, "link", "set", self._wire, state)
        self.is_cut = is_cut

    def silence(self, direction: Direction) -> None:
        self._lose("add", direction)
        self._broken.append(direction)

    def _lose(self, what: str, direction: Direction) -> None:
        side: Side = "near" if direction == "there" else "far"
        to = self._far if side == "near" else self._near
        rule = ("rule", what, "pref", "1", "to", to, "blackhole")
        ip("-n", self._namespaces.names[side], *rule)

    def slow_down(self, seconds: float) -> None:
        self._shape(SLOW_NETEM if self._namespaces.why_no_netem is None else SLOW)

    def lose_some(self) -> None:
        self._shape(LOSSY_NETEM if self._namespaces.why_no_netem is None else LOSSY)

    def _shape(self, how: list[str] | None) -> None:
        for side in ("near", "far"):
            self._namespaces.shape(side, self._wire, how)
        self._is_shaped = how is not None

    def heal(self) -> None:
        if self.is_cut:
            self.cut(is_cut=False)
        while self._broken:
            self._lose("del", self._broken.pop())
        if self._is_shaped:
            self._shape(None)


def _notice_silence(line: socket.socket) -> None:
    """Give a wire's socket the options that NoETL gives its own connections."""
    for level, name, value in poolers.OPTIONS:
        line.setsockopt(getattr(socket, level), getattr(socket, name), value)
