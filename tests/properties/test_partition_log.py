"""A log against a perfect model: whatever is appended, rolled, closed, killed and reopened, it reads as a list of batches would."""

import bisect
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.log.append import Appended, ErrorCode, LogRefusal
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch, split_batches
from ottla.protocol.records.compression import Codec

NOW_MS = 1_000_000


class LogAndModel(RuleBasedStateMachine):
    """`batches`: the stored bytes; `records`: all of them. Producer 5's batches are numbered without a gap from 0."""

    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFiles()
        self.batches: list[bytes] = []
        self.records: list[Record] = []
        self.sequences: list[tuple[int, int, int]] = []  # first sequence, count, first offset
        self.next_sequence = 0

    @initialize(segment_bytes=st.integers(min_value=300, max_value=4000), interval=st.sampled_from([1, 100, 500, 4096]))
    def begin(self, segment_bytes: int, interval: int) -> None:
        self.settings = LogSettings(segment_bytes=segment_bytes, index_interval_bytes=interval, segment_ms=500)
        self.open()

    def open(self) -> None:
        self.log = PartitionLog(self.files, "t-0", self.settings)
        self.log.open(NOW_MS)

    def batch(self, timestamps: list[int], size: int, codec: Codec, **given: Any) -> bytearray:
        records = [Record(number, timestamp_ms, b"k", bytes(size)) for number, timestamp_ms in enumerate(timestamps)]
        return encode_batch(records, codec=codec, **given)

    def append(self, batch: bytearray, timestamps: list[int], size: int) -> None:
        offset = len(self.records)
        if len(batch) > self.settings.segment_bytes:
            refused = self.log.append(batch, now_ms=NOW_MS)
            assert isinstance(refused, LogRefusal)
            assert refused.error is ErrorCode.RECORD_LIST_TOO_LARGE
            return
        assert self.log.append(batch, now_ms=NOW_MS) == Appended(offset, offset + len(timestamps) - 1, -1, 0)
        self.batches.append(bytes(batch))
        self.records += [Record(offset + number, timestamp_ms, b"k", bytes(size)) for number, timestamp_ms in enumerate(timestamps)]

    times = st.lists(st.integers(min_value=0, max_value=NOW_MS), min_size=1, max_size=6)

    @rule(timestamps=times, size=st.integers(min_value=0, max_value=300), codec=st.sampled_from(list(Codec)))
    def append_some(self, timestamps: list[int], size: int, codec: Codec) -> None:
        self.append(self.batch(timestamps, size, codec), timestamps, size)

    @rule(timestamps=times)
    def append_as_producer(self, timestamps: list[int]) -> None:
        offset = len(self.records)
        batch = self.batch(timestamps, 5, Codec.NONE, producer_id=5, producer_epoch=0, base_sequence=self.next_sequence)
        self.append(batch, timestamps, 5)
        if len(self.records) > offset:
            self.sequences.append((self.next_sequence, len(timestamps), offset))
            self.next_sequence += len(timestamps)

    @precondition(lambda self: self.sequences)
    @rule()
    def repeat_the_last_batch(self) -> None:
        sequence, count, offset = self.sequences[-1]
        batch = self.batch([1] * count, 5, Codec.NONE, producer_id=5, producer_epoch=0, base_sequence=sequence)
        answer = self.log.append(batch, now_ms=NOW_MS)
        assert isinstance(answer, Appended)
        assert (answer.base_offset, answer.last_offset) == (offset, offset + count - 1)

    @precondition(lambda self: self.sequences)
    @rule(gap=st.integers(min_value=1, max_value=100))
    def leave_a_gap(self, gap: int) -> None:
        batch = self.batch([1], 5, Codec.NONE, producer_id=5, producer_epoch=0, base_sequence=self.next_sequence + gap)
        refused = self.log.append(batch, now_ms=NOW_MS)
        assert isinstance(refused, LogRefusal)
        assert refused.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.log.close(clean=clean)
        self.open()

    @rule(data=st.data(), max_bytes=st.integers(min_value=1, max_value=5000), at_least_one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, at_least_one: bool) -> None:
        offset = data.draw(st.integers(min_value=-1, max_value=len(self.records) + 1))
        answer = self.log.read(offset, max_bytes, at_least_one=at_least_one)
        if not 0 <= offset <= len(self.records):
            assert answer is None
            return
        assert answer is not None
        found = [header for _, header in split_batches(answer)]
        assert sum(header.size_bytes for header in found) == len(answer)
        if offset == len(self.records):
            assert answer == b""
            return
        bases = [header.base_offset for header in self.headers()]
        first = bisect.bisect_right(bases, offset) - 1
        assert b"".join(self.batches[first:]).startswith(answer)
        assert len(answer) <= max_bytes or (at_least_one and len(found) == 1)
        if at_least_one or len(self.batches[first]) <= max_bytes:
            assert found

    def headers(self) -> list[Any]:
        return [header for batch in self.batches for _, header in split_batches(batch)]

    @rule(timestamp_ms=st.integers(min_value=0, max_value=NOW_MS + 1))
    def look_up_a_time(self, timestamp_ms: int) -> None:
        late = [(record.timestamp_ms, record.offset) for record in self.records if record.timestamp_ms >= timestamp_ms]
        assert self.log.timestamps().first_at(timestamp_ms) == (late[0] if late else None)

    @rule()
    def look_up_the_latest(self) -> None:
        latest = max(((record.timestamp_ms, -record.offset) for record in self.records), default=None)
        assert self.log.timestamps().latest() == (None if latest is None else (latest[0], -latest[1]))

    @rule(data=st.data())
    def scan(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(min_value=0, max_value=len(self.records)))
        assert list(self.log.read_records(offset)) == self.records[offset:]

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "log"):
            assert self.log.log_end_offset == len(self.records)
            assert self.log.size_bytes == sum(map(len, self.batches))


TestLogAndModel = LogAndModel.TestCase
TestLogAndModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
