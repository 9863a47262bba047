"""A topic with the records of a busy `__consumer_offsets`, as large as wanted, made once and kept in the cache.

Written as segments beside a stopped broker, with Ottla's own encoder: groups, topics, metadata, sizes of batches and codecs vary. A few
thousand batches are encoded for real and then repeated with new offsets, so that 50 million records take a minute; what a reader has to do
is the same.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from ottla.cli.processes import OttlaProcess
from ottla.groups.log.records import OffsetRecord, encode_key, encode_value
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec

TOPIC, PARTITIONS = "offsets", 50
START_MS = 1_760_000_000_000
BATCH_SIZES = (1, 2, 8, 20, 50, 100)
CODECS = (*(Codec.NONE,) * 6, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY, Codec.GZIP)
"""Coordinators write uncompressed unless offsets.topic.compression.codec says otherwise."""
RECORDS_ENCODED = 100_000
TOMBSTONES = 0.01
GROUPS, TOPICS = 2_000, 300
_SEGMENT = "00000000000000000000.log"


def _batches(rng: random.Random) -> Iterator[tuple[int, bytes]]:
    """Encoded batches, each with its number of records: a group commits some partitions of a topic."""
    made, at_ms = 0, START_MS
    while made < RECORDS_ENCODED:
        size = rng.choice(BATCH_SIZES)
        group, topic = f"service-{rng.randrange(GROUPS)}", f"orders.{rng.randrange(TOPICS)}.events"
        topic_id, metadata = topic.encode().ljust(16, b".")[:16], rng.choice(["", "", "", "host-7:worker-3"])
        at_ms += rng.randrange(20)
        records = []
        for partition in range(size):
            is_tombstone = rng.random() < TOMBSTONES
            value = OffsetValue(rng.randrange(10**9), 3, metadata, at_ms, topic_id=topic_id)
            record = OffsetRecord(group_id=group, topic=topic, partition=partition, value=None if is_tombstone else value)
            records.append(Record(partition, at_ms, encode_key(record), encode_value(record)))
        yield size, bytes(encode_batch(records, codec=rng.choice(CODECS)))
        made += size


def _write(path: Path, batches: list[tuple[int, bytes]], count: int) -> None:
    """A segment of at least so many records: the batches over and over, each with its own base offset."""
    offset = 0
    with path.open("wb") as file:
        while offset < count:
            chunk = bytearray()
            for size, batch in batches:
                chunk += offset.to_bytes(8)
                chunk += memoryview(batch)[8:]  # the checksum does not cover the base offset
                offset += size
                if offset >= count:
                    break
            file.write(chunk)


def make(directory: Path, count: int) -> None:
    """A data directory with this many records in TOPIC; nothing if it is there already."""
    done = directory / f"has-{count}-records"
    if done.exists():
        return
    shutil.rmtree(directory, ignore_errors=True)
    data = directory / "data"
    broker = OttlaProcess(data)
    broker.start()
    from peers import make_topic

    make_topic(broker, TOPIC, PARTITIONS, {"retention.ms": "-1"})
    broker.stop()
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (data / name).unlink(missing_ok=True)
    rng = random.Random(14)
    sets = [list(_batches(rng)) for _ in range(5)]
    for partition in range(PARTITIONS):
        folder = data / f"{TOPIC}-{partition}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        _write(folder / _SEGMENT, sets[partition % len(sets)], count // PARTITIONS)
    done.touch()
