"""What a broker does for transactions, by a driver without a client library: Produce v12 and EndTxn v5, as clients of KIP-890 send them.

- transactions of one producer, one after the other, with one record of 100 B in each of 1, 10, 100 partitions: transactions a second, and
  p50 and p99 of one, from its Produce to the answer that it is committed
- 1,000 producers at the same time on 50 connections, a record in one of 50 partitions each: transactions a second
- a million transactional ids, initialised before by as many requests: how long their coordinators load them ("loaded": Apache Kafka's by
  its own log lines, from the first "Loading" to the last "Finished loading"; Ottla's in a fresh process on the same directory), and from
  the start of the process until all 50 coordinators answer

A producer whose transaction before is still ending is told so (CONCURRENT_TRANSACTIONS) and asks again after 1 ms: that counts. Each
broker runs alone for the last. `--only` takes a part: "partitions", "producers", "ids".
"""

import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from crc32c import crc32c
from latency import percentile
from peers import APACHE_KAFKA, OTTLA, arguments, make_topic, peers_in_turn, running_peers
from report import Metric, Report, at_least_kafkas, at_most_kafkas

from ottla.coordinator.placement import coordinator_partition
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record
from ottla.protocol.records.batch import ATTRIBUTES_AT, CRC_AT, encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.waiting import wait_until

PRODUCE_VERSION, END_VERSION, INIT_VERSION = 12, 5, 4
EPOCH_AT: Final = 51
PARTITION_RESPONSE: Final = struct.Struct(">ih8s8s8s3s")
"""Of a partition that was written to: its number, the error, offset and times, no errors of records, no message, no tagged fields."""
AGAIN: Final = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""The transaction before is still ending; or, right after a topic was made, its leader does not know of it."""
COORDINATORS: Final = 50
TIMEOUT_MS: Final = 600_000
IN_FLIGHT: Final = 100
FAST, SHORT = ">= Apache Kafka", "<= Apache Kafka"
READY_SECONDS_MAX: Final = 120
LOAD_HERE = """
import sys, time
from ottla.broker.coordination.coordinators import GC_PAUSE
from ottla.coordinator.loading import load
from ottla.log.files import OsFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.transactions.records import TransactionReducer
files = OsFiles(sys.argv[1])
logs = [PartitionLog(files, name, LogSettings()) for name in files.list("") if name.startswith("__transaction_state-")]
for log in logs:
    log.open(0)
begin = time.perf_counter()
with GC_PAUSE.held():
    loaded = [load(log, TransactionReducer) for log in logs]
print(time.perf_counter() - begin)
print(sum(len(each.replayed) for each in loaded))
"""
LINE = re.compile(r"^\[([-0-9]+ [0-9:]+,[0-9]+)\] INFO .*(Loading|Finished loading) .*transaction metadata", re.MULTILINE)


@dataclass(frozen=True)
class Size:
    """How much is done."""

    partitions: tuple[int, ...]
    seconds: float
    producers: int
    connections: int
    ids: int


LARGE = Size(partitions=(1, 10, 100), seconds=4, producers=1_000, connections=50, ids=1_000_000)
SMALL = Size(partitions=(1, 3), seconds=0.1, producers=10, connections=2, ids=200)


def frame(key: int, version: int, body: bytes) -> bytes:
    """A request with a flexible header and no client id."""
    payload = struct.pack(">hhihB", key, version, 0, -1, 0) + body
    return len(payload).to_bytes(4) + payload


def varint(value: int) -> bytes:
    """An unsigned varint below 2^14."""
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80, value >> 7])


def text(value: str) -> bytes:
    """A compact string."""
    return varint(len(value) + 1) + value.encode()


class Producer:
    """One transactional id: the frames of its transactions, and what their answers say. `partitions` get a record each."""

    def __init__(self, name: str, topic: str, partitions: Sequence[int], answer: Any) -> None:
        assert answer.error_code == 0, answer
        self.id, self.epoch = int(answer.producer_id), int(answer.producer_epoch)
        self._partitions = partitions
        self._head = text(name) + struct.pack(">hi", -1, 30_000) + varint(2) + text(topic) + varint(len(partitions) + 1)
        self._end = text(name)
        record = Record(0, 1_700_000_000_000, None, b"x" * 100)
        self._batch = encode_batch([record], producer_id=self.id, producer_epoch=0, base_sequence=0, is_transactional=True)
        self._answer_bytes = 4 + 1 + len(varint(2) + text(topic) + varint(len(partitions) + 1))

    def produce(self) -> bytes:
        """The transaction's records."""
        batch = self._batch
        batch[EPOCH_AT : EPOCH_AT + 2] = self.epoch.to_bytes(2)
        batch[CRC_AT:ATTRIBUTES_AT] = crc32c(memoryview(batch)[ATTRIBUTES_AT:]).to_bytes(4)
        records = varint(len(batch) + 1) + bytes(batch) + b"\0"
        data = b"".join([part for number in self._partitions for part in (number.to_bytes(4), records)])
        return frame(ApiKey.PRODUCE, PRODUCE_VERSION, self._head + data + b"\0\0")

    def has_produced(self, answer: bytes) -> bool:
        """Whether they are written; else the transaction before is still ending."""
        at, code = self._answer_bytes, 0
        for _ in self._partitions:
            _, code, *_ = PARTITION_RESPONSE.unpack_from(answer, at)
            if code:
                break
            at += PARTITION_RESPONSE.size
        assert code == ErrorCode.NONE or code in AGAIN, ErrorCode(code)
        return code == ErrorCode.NONE

    def end(self) -> bytes:
        """The commit."""
        return frame(ApiKey.END_TXN, END_VERSION, self._end + struct.pack(">qhBB", self.id, self.epoch, 1, 0))

    def has_ended(self, answer: bytes) -> bool:
        """Whether it is committed; the next one has another epoch."""
        _, _, code, producer_id, epoch = struct.unpack_from(">iihqh", answer[:4] + answer[5:])
        assert code == ErrorCode.NONE or code in AGAIN, ErrorCode(code)
        if code == ErrorCode.NONE:
            self.id, self.epoch = producer_id, epoch
        return code == ErrorCode.NONE


def initialised(client: RawClient, name: str) -> Any:
    """The answer to InitProducerId, when its coordinator serves."""

    def ask() -> Any:
        fields = {"transactional_id": name, "transaction_timeout": TIMEOUT_MS, "producer_id": -1, "producer_epoch": -1}
        answer = client.call(ApiKey.INIT_PRODUCER_ID, INIT_VERSION, **fields)
        return answer if answer.error_code == 0 else None

    return wait_until(ask, f"a producer of {name}")


def find_coordinators(peer: Any) -> None:
    """FindCoordinator makes the topic."""
    with RawClient(peer.bootstrap_servers) as client:

        def are_there() -> bool:
            answer = client.call(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=[f"x{number}" for number in range(9)])
            return all(each.error_code == 0 for each in answer.coordinators)

        wait_until(are_there, "the coordinators of transactional ids")


def one_after_the_other(peer: Any, client: RawClient, producer: Producer, seconds: float) -> list[float]:
    """How long each transaction took, in seconds."""
    took = []
    over = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < over:
        for make, is_done in ((producer.produce, producer.has_produced), (producer.end, producer.has_ended)):
            client.send_bytes(make())
            while not is_done(client.receive_frame()):
                time.sleep(0.001)
                client.send_bytes(make())
        took.append(time.perf_counter() - begin)
    return took


def at_the_same_time(clients: Sequence[RawClient], producers: Sequence[list[Producer]], seconds: float) -> float:
    """Transactions a second of all; `producers` by connection."""
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for step in ("produce", "end"):
            waiting = [list(own) for own in producers]
            while any(waiting):
                for client, own in zip(clients, waiting, strict=True):
                    if own:
                        client.send_bytes(b"".join([each.produce() if step == "produce" else each.end() for each in own]))
                waiting = [
                    [
                        each
                        for each in own
                        if not (each.has_produced if step == "produce" else each.has_ended)(client.receive_frame())
                    ]
                    for client, own in zip(clients, waiting, strict=True)
                ]  # fmt: skip
                if any(waiting):
                    time.sleep(0.001)
        count += sum(map(len, producers))
    return count / (time.perf_counter() - begin)


def measure_partitions(report: Report, peer: Any, size: Size, number: int) -> None:
    with RawClient(peer.bootstrap_servers) as client:
        for partitions in size.partitions:
            topic = f"of-{partitions}"
            if number == 0:
                make_topic(peer, topic, partitions)
            producer = Producer(f"one-{partitions}", topic, range(partitions), initialised(client, f"one-{partitions}"))
            one_after_the_other(peer, client, producer, size.seconds / 4)
            took = one_after_the_other(peer, client, producer, size.seconds)
            name = f"one producer, {partitions} partitions"
            report.add(Metric(f"{name}, transactions", "/s", FAST, at_least_kafkas), peer.kind, len(took) / sum(took))
            report.add(Metric(f"{name}, p50", "ms", SHORT, at_most_kafkas), peer.kind, percentile(took, 0.5) * 1000)
            report.add(Metric(f"{name}, p99", "ms", SHORT, at_most_kafkas), peer.kind, percentile(took, 0.99) * 1000)


def measure_producers(report: Report, peer: Any, size: Size, number: int) -> None:
    if number == 0:
        make_topic(peer, "of-many", COORDINATORS)
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(peer.bootstrap_servers)) for _ in range(size.connections)]
        producers = [
            [
                Producer(name, "of-many", [own % COORDINATORS], initialised(client, name))
                for own in range(place, size.producers, size.connections)
                for name in [f"many-{own}"]
            ]
            for place, client in enumerate(clients)
        ]
        at_the_same_time(clients, producers, size.seconds / 4)
        rate = at_the_same_time(clients, producers, size.seconds)
    report.add(Metric(f"{size.producers:,} producers, transactions", "/s", FAST, at_least_kafkas), peer.kind, rate)


def ids_of(size: Size) -> Iterator[str]:
    return (f"transactional-id-{number}" for number in range(size.ids))


def fill(peer: Any, size: Size) -> None:
    """Initialise all ids."""
    find_coordinators(peer)
    with RawClient(peer.bootstrap_servers) as client:
        for name in {coordinator_partition(f"w{each}", COORDINATORS): f"w{each}" for each in range(500)}.values():
            initialised(client, name)
        frames = (
            frame(ApiKey.INIT_PRODUCER_ID, INIT_VERSION, text(name) + struct.pack(">iqhB", TIMEOUT_MS, -1, -1, 0)) for name in ids_of(size)
        )
        while batch := list(islice(frames, IN_FLIGHT)):
            client.send_bytes(b"".join(batch))
            for _ in batch:
                code = int.from_bytes(client.receive_frame()[9:11])
                assert code == 0, ErrorCode(code)


def wait_for_all(peer: Any, size: Size) -> None:
    """Returns when all coordinators have refused to end a transaction of a producer that has none: before they serve, they say so."""
    waiting = list({coordinator_partition(name, COORDINATORS): name for name in islice(ids_of(size), 2_000)}.values())
    fields = {"producer_id": 1 << 60, "producer_epoch": 0, "committed": True}
    with RawClient(peer.bootstrap_servers, timeout_seconds=60) as client:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while waiting:
            assert time.monotonic() < deadline, f"{peer.kind}: {len(waiting)} coordinators do not answer"
            answer = client.call(ApiKey.END_TXN, END_VERSION, transactional_id=waiting[-1], **fields)
            if answer.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                waiting.pop()
            else:
                time.sleep(0.002)


def load_here(data_dir: Path, ids: int) -> float:
    """Seconds, in a fresh process; `ids` must be there then, beside those that came first."""
    ran = subprocess.run([sys.executable, "-c", LOAD_HERE, str(data_dir)], stdout=subprocess.PIPE, text=True, check=True)
    seconds, found = ran.stdout.split()
    assert int(found) >= ids, f"{found} ids were loaded"
    return float(seconds)


def seconds_in_log(said: str) -> float:
    """From the first line to the last of those that Apache Kafka writes about its loading."""
    times = [datetime.strptime(time_, "%Y-%m-%d %H:%M:%S,%f") for time_, _ in LINE.findall(said)]
    assert times, "Apache Kafka wrote nothing about its loading"
    return (max(times) - min(times)).total_seconds()


def measure_ids(report: Report, peer: Any, size: Size) -> None:
    loaded = Metric(f"{size.ids:,} ids, loaded", "s", SHORT, at_most_kafkas)
    answers = Metric(f"{size.ids:,} ids, start until it answers", "s", SHORT, at_most_kafkas)
    peer.stop()
    said_before = len(peer.log_path.read_text()) if peer.kind == APACHE_KAFKA else 0
    begin = time.perf_counter()
    peer.start()
    wait_for_all(peer, size)
    report.add(answers, peer.kind, time.perf_counter() - begin)
    if peer.kind == APACHE_KAFKA:
        report.add(loaded, peer.kind, seconds_in_log(peer.log_path.read_text()[said_before:]))
        return
    peer.stop()
    report.add(loaded, OTTLA, load_here(peer.data_dir, size.ids))
    peer.start()


def main() -> None:
    wanted = arguments(__doc__, only=True)
    size = SMALL if wanted.small else LARGE
    report = Report("Transactions")
    parts = [measure for name, measure in (("partitions", measure_partitions), ("producers", measure_producers)) if wanted.only in name]
    names = [name for name in wanted.peers if name in (OTTLA, APACHE_KAFKA)]
    if parts:
        with running_peers(names) as peers:
            for peer in peers:
                find_coordinators(peer)
            for number in range(wanted.rounds):
                for peer in peers:
                    for measure in parts:
                        measure(report, peer, size, number)
    if wanted.only in "ids":
        for peer in peers_in_turn(names):
            begin = time.perf_counter()
            fill(peer, size)
            report.add(
                Metric(f"{size.ids:,} ids, InitProducerId", "/s", FAST, at_least_kafkas),
                peer.kind,
                size.ids / (time.perf_counter() - begin),
            )
            for _ in range(wanted.rounds):
                measure_ids(report, peer, size)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
