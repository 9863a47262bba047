"""A compacted log's whole life against a plain list: appends, retention, deletion, cleaning, restarts of every kind.

The oracle is a list of records and one sentence a rule; the log must read the same at every step, same records at the same offsets.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.log.append import Appended
from ottla.log.cleaner.backend import SLOT_BYTES, CleaningBackend, OffsetMap, ReferenceBackend
from ottla.log.cleaner.candidates import assess
from ottla.log.cleaner.cleaning import clean
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec
from tests.support.kit.cleaning import append_from_client

START_MS = 1_000_000
FOR_EVER_MS = 1 << 60


class Life(RuleBasedStateMachine):
    """`records`: all that were appended and not cleaned or deleted since, oldest first. `newest_ms`: of the last record or start."""

    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFiles()
        self.records: list[Record] = []
        self.cleaned_to = 0
        self.checkpoint: tuple[int, int] | None = None
        self.now_ms = START_MS

    def backend(self) -> CleaningBackend:
        return ReferenceBackend()

    @initialize(
        segment_bytes=st.integers(min_value=250, max_value=2500),
        retention_bytes=st.sampled_from([-1, 2000, 6000]),
        retention_ms=st.sampled_from([-1, 0, 5_000]),
        slots=st.integers(min_value=3, max_value=30),
    )
    def begin(self, segment_bytes: int, retention_bytes: int, retention_ms: int, slots: int) -> None:
        self.settings = LogSettings(
            segment_bytes=segment_bytes,
            index_interval_bytes=300,
            cleanup_policy="compact,delete" if max(retention_bytes, retention_ms) >= 0 else "compact",
            retention_bytes=retention_bytes,
            retention_ms=retention_ms,
            delete_retention_ms=FOR_EVER_MS,
            min_cleanable_dirty_ratio=0,
        )
        self.slots = slots
        self.open()

    def open(self) -> None:
        self.log = PartitionLog(self.files, "t-0", self.settings)
        start, recovery_point = self.checkpoint or (0, None)
        self.log.open(self.now_ms, log_start_offset=start, recovery_point=recovery_point)
        self.newest_ms = self.now_ms

    @rule(passed_ms=st.integers(min_value=1, max_value=4_000))
    def pass_time(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    keys = st.lists(st.integers(min_value=0, max_value=9), min_size=1, max_size=5)

    @rule(keys=keys, codec=st.sampled_from(list(Codec)), is_deletion=st.booleans(), producer=st.sampled_from([-1, 5, 6]))
    def append(self, keys: list[int], codec: Codec, is_deletion: bool, producer: int) -> None:
        offset = self.log.log_end_offset
        value = None if is_deletion else b"v%d" % offset
        records = [Record(number, self.now_ms + number, b"k%d" % key, value) for number, key in enumerate(keys)]
        given: dict[str, Any] = (
            {} if producer < 0 else {"producer_id": producer, "producer_epoch": 0, "base_sequence": self.sequence(producer)}
        )
        answer = append_from_client(self.log, encode_batch(records, codec=codec, **given), now_ms=self.now_ms)
        assert isinstance(answer, Appended), answer
        assert answer.base_offset == offset, "no offset is given twice"
        self.records += [record._replace(offset=offset + record.offset) for record in records]
        self.newest_ms = max(self.newest_ms, records[-1].timestamp_ms)
        if producer >= 0:
            self.sequences()[producer] = self.sequence(producer) + len(keys)

    def sequences(self) -> dict[int, int]:
        if not hasattr(self, "_sequences"):
            self._sequences: dict[int, int] = {}
        return self._sequences

    def sequence(self, producer: int) -> int:
        return self.sequences().get(producer, 0)

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.checkpoint = (self.log.log_start_offset, self.log.recovery_point)
        self.log.close(clean=clean)
        self.open()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        before = data.draw(st.integers(min_value=self.log.log_start_offset, max_value=self.log.log_end_offset))
        assert self.log.delete_records(before) == before
        self.forget_below(before)

    @rule()
    def expire(self) -> None:
        before = self.log.log_start_offset
        for _ in range(2):  # what has to be synced first goes when it is asked for again
            self.log.sync_rolled()
            for path in self.log.expire_segments(self.now_ms):
                self.files.remove(path)
        retention_bytes, retention_ms = self.settings.retention_bytes, self.settings.retention_ms
        kept, kept_ms = self.log.log_start_offset, self.now_ms - retention_ms
        if retention_bytes < 0 and retention_ms < 0:
            assert kept == before
        if retention_bytes < 0:
            assert all(record.timestamp_ms < kept_ms for record in self.records if record.offset < kept), "nothing goes before its time"
        else:
            assert self.log.size_bytes < retention_bytes + self.settings.segment_bytes
        self.forget_below(kept)
        if retention_ms >= 0 and self.newest_ms < kept_ms:
            assert not self.records, "all are too old"

    def forget_below(self, offset: int) -> None:
        self.records = [record for record in self.records if record.offset >= offset]

    @rule(is_stopped=st.booleans())
    def clean(self, is_stopped: bool) -> None:
        self.log.sync_rolled()
        view = self.log.snapshot()
        chosen = assess(view, self.cleaned_to, self.now_ms, first_timestamp_ms=lambda _: None)
        if chosen.first_dirty_offset >= chosen.first_uncleanable_offset:
            return
        swaps: list[int] = []

        def swap(base_offset: int, replaced: Any) -> bool:
            swaps.append(base_offset)
            deleted = self.log.swap_segments(base_offset, replaced)
            for path in deleted or ():
                self.files.remove(path)
            return deleted is not None

        done = clean(
            self.files,
            view,
            first_dirty_offset=chosen.first_dirty_offset,
            first_uncleanable_offset=chosen.first_uncleanable_offset,
            backend=self.backend(),
            offset_map=OffsetMap(self.slots * SLOT_BYTES),
            now_ms=self.now_ms,
            swap=swap,
            is_stopped=lambda: is_stopped and len(swaps) > 1,
        )
        self.checkpoint = (self.log.log_start_offset, self.log.recovery_point)
        if done.is_complete:
            self.cleaned_to = done.end_offset
            last = {record.key: record.offset for record in self.records if record.offset < done.end_offset}
            self.records = [record for record in self.records if record.offset >= done.end_offset or last[record.key] == record.offset]
        else:
            # Stopped in the middle: whatever is gone has a later value.
            self.cleaned_to = done.end_offset
            left = list(self.log.read_records(self.log.log_start_offset))
            latest = {record.key: record.offset for record in self.records}
            gone = set(self.records) - set(left)
            assert all(latest[record.key] > record.offset for record in gone)
            self.records = left

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(min_value=self.log.log_start_offset, max_value=self.log.log_end_offset))
        assert list(self.log.read_records(offset)) == [record for record in self.records if record.offset >= offset]

    @invariant()
    def reads_as_the_oracle(self) -> None:
        if hasattr(self, "log"):
            assert list(self.log.read_records(self.log.log_start_offset)) == self.records


class ColumnarLife(Life):
    """The same with the compiled backend."""

    def backend(self) -> CleaningBackend:
        from ottla.log.compiled.cleaning import CompiledBackend

        return CompiledBackend()


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=settings.default.max_examples // 2, stateful_step_count=40, deadline=None)
TestColumnarLife = ColumnarLife.TestCase
TestColumnarLife.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
