"""How long a group coordinator takes to load a million commits when the broker starts, after a clean stop.

Committed by requests, 100 partitions each: once for a million keys (5,000 groups, 200 partitions each), and 100 times for 10,000 keys (50
groups); spread over the 50 partitions of the offsets topic, uncompressed and lz4 (`offsets.topic.compression.codec`).

- "loaded": reading the logs until the last coordinator has everything. Apache Kafka's by its own log lines, from the first "Scheduling
  loading" to the last "Finished loading"; Ottla's in a fresh process on the same directory, one partition after the other, with the
  import of Numba and of the compiled code, which was compiled before
- "answers": from the start of the process until each of the 50 coordinators has answered an OffsetFetch
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from peers import APACHE_KAFKA, OTTLA, arguments, make_topic, peers_in_turn
from report import Metric, Report, at_most

from ottla.coordinator.placement import coordinator_partition
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from tests.support.clients.group_frames import commit_frame

OFFSET_FETCH_VERSION = 7
OFFSETS_PARTITIONS = 50
TARGET, IS_MET = "<= 2 s", at_most(2)
TOPICS, PARTITIONS = 2, 100
IN_FLIGHT = 20
REFERENCE_BACKEND = "ottla, reference backend"
CODECS = {"uncompressed": "0", "lz4": "3"}
READY_SECONDS_MAX = 120

LOAD_HERE = """
import sys, time
from ottla.broker.coordination.coordinators import GC_PAUSE
from ottla.coordinator.loading import load
from ottla.log.files import OsFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
files = OsFiles(sys.argv[1])
logs = [PartitionLog(files, name, LogSettings()) for name in files.list("") if name.startswith("__consumer_offsets-")]
for log in logs:
    log.open(0)
begin = time.perf_counter()
if sys.argv[2] == "reference":
    from ottla.groups.log.replayed_state import ReferenceReducer as Reducer
else:
    from ottla.groups.log.arrow.loading import CompiledReducer as Reducer
with GC_PAUSE.held():
    loaded = [load(log, Reducer) for log in logs]
print(time.perf_counter() - begin)
print(sum(len(found) for each in loaded for topics in each.replayed.offsets.values() for found in topics.values()))
"""
LINE = re.compile(r"^\[([-0-9]+ [0-9:]+,[0-9]+)\] INFO .*(Scheduling|Finished) loading of metadata from __consumer_offsets-", re.MULTILINE)


@dataclass(frozen=True)
class Shape:
    """So many groups commit all their partitions so many times."""

    groups: int
    repeats: int

    @property
    def commits(self) -> int:
        return self.groups * TOPICS * PARTITIONS * self.repeats

    @property
    def name(self) -> str:
        return f"{self.commits:,} commits of {self.groups * TOPICS * PARTITIONS:,} keys"

    def names(self) -> list[str]:
        return [f"group-{number}" for number in range(self.groups)]

    def frames(self) -> Iterator[bytes]:
        """The requests, as they are sent."""
        for offset in range(self.repeats):
            for group in self.names():
                for topic in range(TOPICS):
                    yield commit_frame(group.encode(), -1, b"", b"topic-%d" % topic, range(PARTITIONS), offset)


def fill(peer: Any, shape: Shape) -> None:
    for topic in range(TOPICS):
        make_topic(peer, f"topic-{topic}", PARTITIONS)
    wait_for_all(peer, shape)
    with RawClient(peer.bootstrap_servers, timeout_seconds=60) as client:
        frames = shape.frames()
        while batch := list(islice(frames, IN_FLIGHT)):
            client.send_bytes(b"".join(batch))
            for _ in batch:
                client.receive_frame()
        for group in (shape.names()[0], shape.names()[-1]):
            answer = client.call(ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, group_id=group, topics=None, require_stable=False)
            found = [part.committed_offset for topic in answer.topics for part in topic.partitions]
            assert found == [shape.repeats - 1] * (TOPICS * PARTITIONS), f"{peer.kind}: {group} has {len(found)} offsets"


def wait_for_all(peer: Any, shape: Shape) -> None:
    """Returns when a group in each partition of the offsets topic has been answered without an error."""
    waiting = list({coordinator_partition(group, OFFSETS_PARTITIONS): group for group in shape.names()}.values())
    with RawClient(peer.bootstrap_servers, timeout_seconds=60) as client:
        client.call(ApiKey.FIND_COORDINATOR, 3, key_type=0, key=waiting[0])  # FindCoordinator makes the topic
        deadline = time.monotonic() + READY_SECONDS_MAX
        while waiting:
            assert time.monotonic() < deadline, f"{peer.kind}: {len(waiting)} coordinators do not answer"
            answer = client.call(ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, group_id=waiting[-1], topics=[], require_stable=False)
            if answer.error_code == ErrorCode.NONE:
                waiting.pop()
            else:
                time.sleep(0.002)


def load_here(data_dir: Path, backend: str, keys: int) -> float:
    """Seconds, in a fresh process; `keys` must be there then."""
    ran = subprocess.run([sys.executable, "-c", LOAD_HERE, str(data_dir), backend], stdout=subprocess.PIPE, text=True, check=True)
    seconds, found = ran.stdout.split()
    assert int(found) == keys, f"{found} offsets were loaded"
    return float(seconds)


def seconds_in_log(said: str) -> float:
    """From the first line to the last of those that Apache Kafka writes about its loading."""
    times = [datetime.strptime(time_, "%Y-%m-%d %H:%M:%S,%f") for time_, _ in LINE.findall(said)]
    assert len(times) >= 2 * OFFSETS_PARTITIONS, f"Apache Kafka wrote {len(times)} lines"
    return (max(times) - min(times)).total_seconds()


def measure(report: Report, peer: Any, shape: Shape, codec: str) -> None:
    loaded = Metric(f"{shape.name}, {codec}, loaded", "s", TARGET, IS_MET)
    answers = Metric(f"{shape.name}, {codec}, start until it answers", "s")
    peer.stop()
    said_before = len(peer.log_path.read_text()) if peer.kind == APACHE_KAFKA else 0
    begin = time.perf_counter()
    peer.start()
    wait_for_all(peer, shape)
    report.add(answers, peer.kind, time.perf_counter() - begin)
    if peer.kind == APACHE_KAFKA:
        report.add(loaded, peer.kind, seconds_in_log(peer.log_path.read_text()[said_before:]))
        return
    peer.stop()
    for kind, backend in ((OTTLA, "compiled"), (REFERENCE_BACKEND, "reference")):
        report.add(loaded, kind, load_here(peer.data_dir, backend, shape.groups * TOPICS * PARTITIONS))
    peer.start()


def main() -> None:
    wanted = arguments(__doc__, only=True)
    shapes = (Shape(50, 1), Shape(5, 10)) if wanted.small else (Shape(5_000, 1), Shape(50, 100))
    subprocess.run([sys.executable, "-c", "from ottla.groups.log.arrow.loading import load_kernels; load_kernels()"], check=True)
    report = Report("Load")
    for shape in shapes:
        for codec, number in CODECS.items():
            if wanted.only not in f"{shape.name}, {codec}":
                continue
            for peer in peers_in_turn(wanted.peers, {"offsets.topic.compression.codec": number}):
                fill(peer, shape)
                for _ in range(wanted.rounds):
                    measure(report, peer, shape, codec)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
