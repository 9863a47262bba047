"""How fast applications get records: Ottla's consumer beside confluent-kafka, kafka-python and aiokafka, from one broker.

Records of 100 B and 1 kB in 4 partitions; not compressed, lz4, zstd; one by one (`poll`, `getone`), many at a time (`consume`, `getmany`;
kafka-python's `poll` gives many), and as Arrow batches (`poll_arrow`, beside confluent-kafka's `consume`). The application adds up the
offset and the length of the value of each record. Every reader is a process of its own (consumer_reader.py) that reads a small topic
first; checksums are compared by all. Records/s, seconds of CPU time for a million records, and the most memory of the process.
"""

import argparse
import itertools
import json
import random
import subprocess
import sys
from typing import Any, NamedTuple

from confluent_kafka import Producer
from peers import APACHE_KAFKA, HERE, OTTLA, QUIET, make_topic, running_peers
from report import Metric, Report, at_least_times

CONFLUENT, AIOKAFKA, KAFKA_PYTHON = "confluent-kafka", "aiokafka", "kafka-python"
CLIENTS = (OTTLA, CONFLUENT, AIOKAFKA, KAFKA_PYTHON)
PARTITIONS = 4
SIZES = ((100, "100 B", 1_000_000), (1_000, "1 kB", 300_000))
SIZES_SMALL = ((100, "100 B", 20_000), (1_000, "1 kB", 5_000))
CODECS = ("none", "lz4", "zstd")
WARM_UP = 20_000
READER_SECONDS_MAX = 600
WORDS = [random.Random(0).randbytes(5).hex() for _ in range(500)]
DIFFERENT_VALUES = 2_000


class Way(NamedTuple):
    """One way to get records; `readers`: who has it, each with the name of its reader. Ottla's target is so many times the rival's rate."""

    name: str
    readers: dict[str, str]
    rival: str
    times: float


WAYS = (
    Way("poll", {OTTLA: "ottla-poll", CONFLUENT: "confluent-poll"}, CONFLUENT, 1.0),
    Way("consume", {OTTLA: "ottla-consume", CONFLUENT: "confluent-consume", KAFKA_PYTHON: "kafka-python-poll"}, CONFLUENT, 1.0),
    Way("poll_arrow", {OTTLA: "ottla-arrow", CONFLUENT: "confluent-consume"}, CONFLUENT, 5.0),
    Way("getone", {OTTLA: "ottla-getone", AIOKAFKA: "aiokafka-getone"}, AIOKAFKA, 3.0),
    Way("getmany", {OTTLA: "ottla-getmany", AIOKAFKA: "aiokafka-getmany"}, AIOKAFKA, 3.0),
)


class Load(NamedTuple):
    """The records of a topic."""

    topic: str
    count: int
    value_bytes: int


def fill(peer: Any, load: Load, size: int, codec: str) -> Load:
    """Write `count` records whose values have `size` bytes, more or less; the load with the bytes of all values."""
    rng = random.Random(size)
    values = [" ".join(rng.choices(WORDS, k=size // 11 + 1)).encode()[: size + rng.randrange(-9, 10)] for _ in range(DIFFERENT_VALUES)]
    make_topic(peer, load.topic, PARTITIONS)
    settings = {"compression.type": codec, "linger.ms": 20, "enable.idempotence": True, "queue.buffering.max.messages": 1_000_000}
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, **QUIET, **settings})
    value_bytes = 0
    for number in range(load.count):
        value = values[rng.randrange(DIFFERENT_VALUES)]
        value_bytes += len(value)
        while True:
            try:
                producer.produce(load.topic, value, b"key-%08d" % rng.randrange(10**8), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(300) == 0
    return load._replace(value_bytes=value_bytes)


def read(peer: Any, reader: str, warm_up: Load, load: Load) -> dict[str, float] | None:
    """One measurement, in a process of its own; None when the client lacks a package for the codec."""
    command = [sys.executable, str(HERE / "consumer_reader.py"), reader, peer.bootstrap_servers, str(PARTITIONS)]
    command += [warm_up.topic, str(warm_up.count), load.topic, str(load.count)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=READER_SECONDS_MAX, check=False)
    if "UnsupportedCodecError" in ran.stderr:
        print(f"{reader}: left out, {ran.stderr.splitlines()[-1]}", file=sys.stderr)
        return None
    assert ran.returncode == 0, f"{reader}: {ran.stdout}{ran.stderr}"
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    offsets = sum(sum(range((load.count + PARTITIONS - 1 - partition) // PARTITIONS)) for partition in range(PARTITIONS))
    assert (found["value_bytes"], found["offsets"]) == (load.value_bytes, offsets), f"{reader}: {found}"
    return found


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="little work, done in seconds: shows that it runs, not how fast")
    parser.add_argument("--rounds", type=int, help="how often each client is measured, in turn (default: 3, small: 1)")
    parser.add_argument("--broker", choices=[OTTLA, APACHE_KAFKA], default=OTTLA, help="whose records are read (default: %(default)s)")
    parser.add_argument("--peers", default=",".join(CLIENTS), help="which clients to measure, separated by commas (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write every single measurement there")
    parser.add_argument("--only", default="", metavar="TEXT", help="measure only the rows with this in their names")
    parsed = parser.parse_args()
    parsed.peers = parsed.peers.split(",")
    if unknown := set(parsed.peers) - set(CLIENTS):
        parser.error(f"unknown peers: {', '.join(sorted(unknown))}")
    parsed.rounds = parsed.rounds or (1 if parsed.small else 3)
    return parsed


def main() -> None:
    wanted = parse_arguments()
    report = Report(f"Consumers of {wanted.broker}", rival=CONFLUENT)
    report.note("in brackets the ratio to confluent-kafka, of getone and getmany to aiokafka")
    names = itertools.count()
    with running_peers([wanted.broker]) as brokers:
        (peer,) = brokers
        for size, size_name, count in SIZES_SMALL if wanted.small else SIZES:
            for codec in CODECS:
                ways = [way for way in WAYS if wanted.only in f"{way.name}, {size_name}, {codec}"]
                if ways:
                    warm_up = fill(peer, Load(f"warm-up-{next(names)}", WARM_UP, 0), size, codec)
                    load = fill(peer, Load(f"load-{next(names)}", count, 0), size, codec)
                    for _ in range(wanted.rounds):
                        measure(report, peer, ways, wanted.peers, (warm_up, load), f"{size_name}, {codec}")
    report.finish(wanted.json)


def measure(report: Report, peer: Any, ways: list[Way], clients: list[str], loads: tuple[Load, Load], cell: str) -> None:
    """One round: every client in turn."""
    measured: dict[str, dict[str, float] | None] = {}
    for way in ways:
        rate = Metric(f"{way.name}, {cell}", "records/s", f">= {way.times:g} times", at_least_times(way.times), way.rival)
        cpu = Metric(f"{way.name}, {cell}, CPU", "s/M records", rival=way.rival)
        memory = Metric(f"{way.name}, {cell}, memory", "MB", rival=way.rival)
        for client, reader in way.readers.items():
            if client in clients:
                if reader not in measured:  # confluent-kafka's consume is a rival twice
                    measured[reader] = read(peer, reader, *loads)
                found, count = measured[reader], loads[1].count
                if found is not None:
                    report.add(rate, client, count / found["seconds"])
                    report.add(cpu, client, found["cpu_seconds"] / count * 1e6)
                    report.add(memory, client, found["peak_mb"])


if __name__ == "__main__":
    main()
