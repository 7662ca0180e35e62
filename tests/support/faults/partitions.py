"""A scenario in which parts of a cluster do not reach each other."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit, urlunsplit

from faults.clients import Clients
from faults.cluster import Cluster
from faults.namespaces import Namespaces, Wire
from faults.ordeal import Scenario
from faults.parts import Part
from faults.proxies import Link

FLAP_S = 0.2


def through(address: str, link: Link) -> str:
    """Return an address with the port of the link."""
    parts = urlsplit(address)
    head, _, _ = parts.netloc.rpartition(":")
    return urlunsplit(parts._replace(netloc=f"{head}:{link.port}"))


class LinkedCluster(Cluster):
    """A cluster in which each server and each worker has links of its own.

    ``links`` are by the names of both ends: ``("worker0", "server1")``.
    """

    def __init__(self, folder: Path, servers: int, workers: int) -> None:
        self.links: dict[tuple[str, str], Link] = {}
        super().__init__(folder, servers, workers, nats=True)

    def link(self, name: str, other: str, address: str) -> str:
        """Return the address of ``other`` as ``name`` knows it."""
        if (name, other) not in self.links:
            port = urlsplit(address).port or 0
            self.links[name, other] = self._make_link(port)
        return through(address, self.links[name, other])

    def _make_link(self, port: int) -> Link:
        return Link(port)

    def environ_of(self, name: str) -> dict[str, str]:
        environ = super().environ_of(name)
        for variable, other in (("DATABASE", "postgres"), ("NATS", "nats")):
            address = environ.get(f"NOETL_{variable}")
            if address is not None:
                environ[f"NOETL_{variable}"] = self.link(name, other, address)
        return environ

    def command_of(self, name: str) -> list[str]:
        command = super().command_of(name)
        if name.startswith("server"):
            return command
        for place, word in enumerate(command):
            if word in self.urls:
                server = self.servers[self.urls.index(word)]
                command[place] = self.link(name, server, word)
        return command

    def close(self) -> None:
        super().close()
        for link in self.links.values():
            link.close()


class WiredCluster(LinkedCluster):
    """A cluster whose links are wires of the kernel."""

    def __init__(self, folder: Path, servers: int, workers: int) -> None:
        self.namespaces = Namespaces()
        super().__init__(folder, servers, workers)

    def _make_link(self, port: int) -> Link:
        return Wire(port, self.namespaces)

    def close(self) -> None:
        super().close()
        self.namespaces.close()


class Partition(Scenario):
    """One link, or all links of one kind, are cut, slow, lossy, deaf in one direction,
    or come and go. Clients reach all servers all the time."""

    name: ClassVar[str] = "partition"
    at_least: ClassVar[int] = 3
    required: ClassVar[frozenset[str]] = frozenset(
        {"worker-server cut", "server-postgres cut", "server-nats cut", "pieces harmed"}
    )

    def __init__(self) -> None:
        self._harms = self._take_turns()
        self._links: list[Link] = []

    def open(self, folder: Path) -> Cluster:
        return LinkedCluster(folder, 2, 3)

    def _take_turns(self) -> Iterator[tuple[str, str]]:
        """Every kind of link meets every kind of harm."""
        kinds = ("worker-server", "server-postgres", "server-nats")
        while True:
            for harm in ("cut", "deaf", "flapping", "mute", "slow", "lossy"):
                for kind in kinds:
                    yield kind, harm

    async def strike(self, cluster: Cluster, dice: random.Random) -> str:
        assert isinstance(cluster, LinkedCluster)
        self._links = [*cluster.links.values()]
        kind, harm = next(self._harms)
        one, other = kind.split("-")
        found = [
            link
            for names, link in sorted(cluster.links.items())
            if names[0].startswith(one) and names[1].startswith(other)
        ]
        some = found if dice.random() < 0.5 else [dice.choice(found)]
        seconds = dice.choice((0.3, 1.0, 3.0))  # also longer than a lease
        for link in some:
            match harm:
                case "cut":
                    link.cut()
                case "deaf":
                    link.silence("back")
                case "mute":
                    link.silence("there")
                case "slow":
                    link.slow_down(dice.choice((0.1, 0.5, 2.0)))
                case "lossy":
                    link.lose_some()
        if harm == "flapping":
            for _ in range(round(seconds / FLAP_S)):
                for link in some:
                    link.cut(is_cut=not link.is_cut)
                await asyncio.sleep(FLAP_S)
        else:
            await asyncio.sleep(seconds)
        for link in some:
            link.heal()
        await asyncio.sleep(dice.uniform(0.1, 0.6))
        return f"{kind} {harm}"

    def inspect(self, part: Part, clients: Clients) -> Iterable[str]:
        harmed = sum(link.harmed for link in self._links)
        if harmed:
            part.figures["pieces harmed"] = harmed
        return ()


class WirePartition(Partition):
    """The same in network namespaces: packets are lost, and connections outlive it."""

    name: ClassVar[str] = "partition of namespaces"
    required: ClassVar[frozenset[str]] = frozenset(
        {"worker-server cut", "server-postgres cut", "segments sent again"}
    )

    def open(self, folder: Path) -> Cluster:
        self._cluster = WiredCluster(folder, 2, 3)
        return self._cluster

    def limits(self) -> list[str]:
        why = self._cluster.namespaces.why_no_netem
        return [] if why is None else [f"small queues (tbf) instead of netem: {why}"]

    def inspect(self, part: Part, clients: Clients) -> Iterable[str]:
        resent = self._cluster.namespaces.resent()
        if resent:
            part.figures["segments sent again"] = resent
        return ()
