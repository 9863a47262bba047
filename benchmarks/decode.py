"""How fast fetched records become Arrow columns: million records and gigabytes a second, of one core's CPU time.

Records of 100 B and 1 kB (key of 12 bytes, value that looks like text) in batches of 16 kB, 8 MB of them: all seven columns of Spark's
Kafka source, the value alone, the offset alone; none, lz4, zstd; batches of one record; and commits of the offsets topic as typed columns.
Beside it aiokafka's compiled parser reads the same bytes: its records are Python objects, and making columns of them is not counted.
Checksums are compared by both.
"""

import random
import time
from collections.abc import Callable
from typing import NamedTuple

import cramjam
from aiokafka.record.memory_records import MemoryRecords
from peers import OTTLA, arguments
from report import Metric, Report, at_least

from ottla.columnar import COLUMNS, GROUP_RECORD_TYPES, GroupRecordDecoder, RecordBatchDecoder
from ottla.groups.log.records import OffsetRecord, encode_key, encode_value
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.model import Record
from ottla.protocol.records.batch import HEADER_BYTES, encode_batch, seal
from ottla.protocol.records.compression import Codec

AIOKAFKA = "aiokafka"
BUFFER_BYTES, BUFFER_BYTES_SMALL = 8 << 20, 1 << 18
BATCH_BYTES, LZ4_BLOCK_BYTES = 16 * 1024, 64 * 1024
KEY_BYTES, KINDS = 12, 8
RUNS = 5
"""Of each round the fastest of so many runs counts: what else the machine does only takes away."""
TYPED = ("group", "topic", "topic_partition", "committed_offset", "commit_timestamp")
WORDS = [random.Random(0).randbytes(5).hex() for _ in range(500)]


class Case(NamedTuple):
    """One kind of records, how many a batch, and what is made of them."""

    name: str
    make: Callable[[random.Random, int], Record]
    plain_bytes: int
    per_batch: int
    codec: Codec = Codec.NONE
    columns: tuple[str, ...] = COLUMNS
    is_group: bool = False
    records_min: float = 0.0

    def buffer(self, bytes_min: int) -> tuple[bytes, int]:
        """Fetched bytes of at least so many plain bytes, and how many records they hold."""
        rng, buffer, count = random.Random(1), bytearray(), 0
        kinds = [encode([self.make(rng, number) for number in range(self.per_batch)], self.codec) for _ in range(KINDS)]
        while count * self.plain_bytes < bytes_min:
            batch = kinds[count // self.per_batch % KINDS]
            batch[:8] = count.to_bytes(8)  # as a broker does; the checksum does not cover it
            buffer += batch
            count += self.per_batch
        return bytes(buffer), count


def encode(records: list[Record], codec: Codec) -> bytearray:
    """A batch as clients write it: their lz4 frames have no checksums of blocks, which the batch's own makes needless."""
    if codec is not Codec.LZ4:
        return encode_batch(records, codec=codec)
    batch = encode_batch(records)
    plain = bytes(batch[HEADER_BYTES:])
    batch[HEADER_BYTES:] = b"\x04\x22\x4d\x18\x60\x40\x82"
    for at in range(0, len(plain), LZ4_BLOCK_BYTES):
        block = bytes(cramjam.lz4.compress_block(plain[at : at + LZ4_BLOCK_BYTES], store_size=False))
        batch += len(block).to_bytes(4, "little") + block
    batch += bytes(4)
    batch[8:12], batch[22] = (len(batch) - 12).to_bytes(4), codec
    seal(batch)
    return batch


def record_of(value_bytes: int) -> Callable[[random.Random, int], Record]:
    def make(rng: random.Random, offset: int) -> Record:
        value = " ".join(rng.choice(WORDS) for _ in range(value_bytes // 11 + 1)).encode()[:value_bytes]
        return Record(offset, 1_700_000_000_000 + offset // 4, b"key-%08d" % rng.randrange(10**8), value)

    return make


def commit(rng: random.Random, offset: int) -> Record:
    value = OffsetValue(offset=rng.randrange(10**9), leader_epoch=3, metadata="", commit_timestamp_ms=1_700_000_000_000, topic_id=b"i" * 16)
    group, topic = f"service-{rng.randrange(200)}", f"orders-{rng.randrange(50)}"
    record = OffsetRecord(group_id=group, topic=topic, partition=rng.randrange(20), value=value)
    return Record(offset, 1_700_000_000_000, encode_key(record), encode_value(record))


def cases() -> list[Case]:
    """What is measured."""
    made = []
    for size, name, target in ((100, "100 B", 24.0), (1000, "1 kB", 11.0)):
        make, total = record_of(size), size + KEY_BYTES
        per_batch = BATCH_BYTES // total
        made.append(Case(f"{name}, 7 columns", make, total, per_batch, records_min=target))
        made.append(Case(f"{name}, value", make, total, per_batch, columns=("value",)))
        made.append(Case(f"{name}, offset", make, total, per_batch, columns=("offset",)))
        made += [Case(f"{name}, 7 columns, {codec.name.lower()}", make, total, per_batch, codec) for codec in (Codec.LZ4, Codec.ZSTD)]
    made.append(Case("100 B, 7 columns, a batch a record", record_of(100), 100 + KEY_BYTES, 1))
    for columns, name in ((TYPED, f"{len(TYPED)} columns"), (tuple(GROUP_RECORD_TYPES), "all columns")):
        for per_batch in (1, 20):
            made.append(
                Case(f"commits, {name}, {per_batch} a batch", commit, 73, per_batch, columns=columns, is_group=True, records_min=3.0)
            )
    return made


def decode(case: Case, buffer: bytes) -> int:
    """The number of rows of all Arrow batches."""
    decoder: GroupRecordDecoder | RecordBatchDecoder
    decoder = GroupRecordDecoder(0, columns=case.columns) if case.is_group else RecordBatchDecoder("topic", 0, columns=case.columns)
    return sum(batch.num_rows for batch in decoder.decode(buffer))


def iterate(case: Case, buffer: bytes) -> int:
    """The number of records, by aiokafka."""
    records, count = MemoryRecords(buffer), 0
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        for _ in batch:
            count += 1
    return count


READERS = {OTTLA: decode, AIOKAFKA: iterate}


def seconds(reader: Callable[[Case, bytes], int], case: Case, buffer: bytes, count: int) -> float:
    """The CPU time of the fastest of some runs."""
    fastest = float("inf")
    for _ in range(RUNS):
        begin = time.process_time()
        assert reader(case, buffer) == count
        fastest = min(fastest, time.process_time() - begin)
    return fastest


def main() -> None:
    wanted = arguments(__doc__, only=True)
    report = Report("Decoding", rival=AIOKAFKA)
    report.note("per second of CPU time; GB of keys and values, uncompressed; aiokafka's records are not made columns")
    for case in cases():
        if wanted.only not in case.name:
            continue
        buffer, count = case.buffer(BUFFER_BYTES_SMALL if wanted.small else BUFFER_BYTES)
        target = (f">= {case.records_min:.0f}", at_least(case.records_min)) if case.records_min else ("", None)
        records, volume = Metric(case.name, "M records/s", *target), Metric(f"the same, {case.name}", "GB/s")
        for _ in range(wanted.rounds):
            for peer, reader in READERS.items():
                took = seconds(reader, case, buffer, count)
                report.add(records, peer, count / took / 1e6)
                report.add(volume, peer, count * case.plain_bytes / took / 1e9)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
