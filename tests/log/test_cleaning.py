"""The cleaner on one log: what is left, in which files, in how many passes, and what stops it."""

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from struct import pack
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.log.records import OffsetRecord, encode_key, encode_value
from ottla.log.cleaner.backend import SLOT_BYTES, BatchRetention, OffsetMap, ReferenceBackend, ReferenceChunk
from ottla.log.cleaner.candidates import assess
from ottla.log.cleaner.cleaning import BatchRetentions, Cleaned, Transactions, clean, first_timestamp_ms, group_segments, skipped
from ottla.log.file_system import Files, MemoryFiles
from ottla.log.log_reading import LogSnapshot
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import BatchHeader, empty_batch, encode_batch, read_header, split_batches
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import ControlType
from tests.support.kit.cleaning import append_from_client, clean_now, records
from tests.support.kit.faulty_files import overwrite

NOW_MS = 1_000_000


class Case:
    """A log in memory, a batch a record, and short ways to fill, clean and read it."""

    def __init__(self, **settings: Any) -> None:
        self.files: Files = MemoryFiles()
        self.settings = LogSettings(cleanup_policy="compact", **{"segment_bytes": 200, "delete_retention_ms": 500, **settings})
        self.log = self.open()

    def open(self) -> PartitionLog:
        log = PartitionLog(self.files, "t-0", self.settings)
        log.open(NOW_MS)
        return log

    def add(self, key: str, value: str | None, **batch: Any) -> int:
        record = Record(0, NOW_MS, key.encode(), None if value is None else value.encode())
        answer = self.log.append(encode_batch([record], **batch), now_ms=NOW_MS, from_client=False)
        self.log.flush()
        return answer.base_offset  # type: ignore[union-attr]

    def roll(self) -> None:
        """Begin a segment that takes what comes next, so that all before it can be cleaned."""
        settings, self.log.settings = self.settings, LogSettings(cleanup_policy="compact", segment_bytes=1)
        self.add("last", "x")
        self.log.settings = settings

    def headers(self, offset: int = 0) -> list[BatchHeader]:
        data = self.log.read(offset, 1 << 20)
        assert data is not None
        return [header for _, header in split_batches(data)]

    def left(self) -> dict[int, str]:
        return {record.offset: (record.key or b"").decode() for record in records(self.log)}

    def clean(self, now_ms: int = NOW_MS, **options: Any) -> Cleaned:
        return clean_now(self.files, self.log, now_ms=now_ms, **options)

    def clean_with(
        self, swap: Callable[[int, Sequence[int]], bool], view: LogSnapshot | None = None, checkpoint: int | None = None, **options: Any
    ) -> Cleaned:
        view = view or self.log.snapshot()
        found = assess(view, checkpoint, NOW_MS, first_timestamp_ms=partial(first_timestamp_ms, self.files))
        return clean(
            self.files,
            view,
            first_dirty_offset=found.first_dirty_offset,
            first_uncleanable_offset=found.first_uncleanable_offset,
            backend=ReferenceBackend(),
            offset_map=OffsetMap(SLOT_BYTES * 100),
            now_ms=NOW_MS,
            swap=swap,
            **options,
        )

    def swap(self, base_offset: int, replaced: Sequence[int]) -> bool:
        return self.log.swap_segments(base_offset, replaced) is not None

    def names(self, *endings: str) -> list[str]:
        return [name for name in self.files.list("t-0") if name.endswith(endings)]


def test_of_six_messages_with_three_keys_the_last_three_offsets_stay() -> None:
    case = Case()
    for number, key in enumerate(["K1", "K2", "K1", "K1", "K3", "K2"]):
        case.add(key, f"v{number}")
    case.roll()
    case.clean()
    assert [(record.offset, record.key, record.value) for record in records(case.log)] == [
        (3, b"K1", b"v3"),
        (4, b"K3", b"v4"),
        (5, b"K2", b"v5"),
        (6, b"last", b"x"),
    ]


def test_a_consumer_that_commits_100_a_thousand_times_leaves_one_message() -> None:
    case = Case(segment_bytes=10_000)
    for number in range(1000):
        commit = OffsetRecord(
            group_id="g",
            topic="t",
            partition=0,
            value=OffsetValue(offset=100, leader_epoch=-1, metadata="", commit_timestamp_ms=NOW_MS + number),
        )
        case.log.append_records([Record(0, NOW_MS, encode_key(commit), encode_value(commit))], now_ms=NOW_MS)
    case.log.flush()
    case.roll()
    case.clean()
    assert [record.offset for record in records(case.log)] == [999, 1000]


def test_it_survives_a_restart_and_a_second_cleaning_changes_nothing() -> None:
    case = Case()
    for number in range(20):
        case.add(f"k{number % 4}", f"{number}")
    case.roll()
    first = case.clean()
    expected = case.left()
    assert (first.end_offset, expected) == (20, {16: "k0", 17: "k1", 18: "k2", 19: "k3", 20: "last"})
    case.log.close()
    case.log = case.open()
    assert case.left() == expected
    case.clean()
    assert case.left() == expected


def test_neighbours_become_one_segment_with_its_own_indexes() -> None:
    case = Case(index_interval_bytes=1)
    for number in range(12):
        case.add(f"k{number % 2}", "v")
    case.roll()
    case.log.settings = LogSettings(segment_bytes=10_000, index_interval_bytes=1)
    case.clean()
    assert case.names(".log") == ["00000000000000000000.log", "00000000000000000012.log"]
    assert case.files.size("t-0/00000000000000000000.index") == 8
    assert case.log.timestamps().first_at(0) == (NOW_MS, 10)
    assert [header.base_offset for header in case.headers(11)] == [11]


def test_more_keys_than_the_map_holds_take_several_passes() -> None:
    case = Case()
    for number in range(60):
        case.add(f"k{number % 30}", f"{number}")
    case.roll()
    done = case.clean(slots=11)
    assert (done.passes, done.end_offset, done.map_utilization) == (7, 60, 9 / 11)
    assert list(case.left()) == [*range(30, 60), 60]


def test_only_what_is_dirty_is_indexed() -> None:
    case = Case()
    for number in range(8):
        case.add(f"k{number}", "v")
    case.roll()
    done = case.clean(checkpoint=5)
    assert (done.read_records, done.end_offset) == (8, 8)
    assert done.indexed_bytes < done.read_bytes
    assert len(case.left()) == 9


def test_offsets_without_a_record_at_the_end_of_the_range_count_as_cleaned() -> None:
    case = Case()
    for _ in range(4):
        case.add("k", "v")
    assert case.log.snapshot().active_base_offset == 2
    case.clean()
    for _ in range(2):
        case.add("k", "v")
    case.roll()
    case.clean(checkpoint=2)
    view = case.log.snapshot()
    assert [segment.base_offset for segment in view.segments] == [0, 2, 4]
    done = clean(
        case.files,
        view,
        first_dirty_offset=0,
        first_uncleanable_offset=4,
        backend=ReferenceBackend(),
        offset_map=OffsetMap(SLOT_BYTES * 100),
        now_ms=NOW_MS,
        swap=case.swap,
    )
    assert (done.end_offset, done.passes, list(case.left())) == (4, 1, [5, 6])


def test_small_buffers_grow_to_the_batch() -> None:
    case = Case(segment_bytes=10_000)
    for number in range(6):
        case.add("k", "v" * 400 * (number % 3))
    case.roll()
    throttled: list[int] = []
    done = case.clean_with(case.swap, io_buffer_bytes=100, throttle=throttled.append)
    assert list(case.left()) == [5, 6]
    assert sum(throttled) == done.indexed_bytes + done.read_bytes + done.written_bytes
    assert done.indexed_bytes == done.read_bytes > done.written_bytes > 0


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_of_many_records_are_thinned_out(codec: Codec) -> None:
    case = Case(segment_bytes=2000)
    for start in range(0, 60, 6):
        some = [Record(number, NOW_MS + number, b"k%d" % ((start + number) % 7), b"v" * 20) for number in range(6)]
        append_from_client(case.log, encode_batch(some, codec=codec), now_ms=NOW_MS)
    case.log.flush()
    case.roll()
    before = {record.offset: record for record in records(case.log)}
    case.clean()
    after = records(case.log)
    assert [record.offset for record in after] == [*range(53, 60), 60]
    assert all(before[record.offset] == record for record in after)


def test_tombstones_stay_until_their_horizon() -> None:
    case = Case()
    case.add("a", "1")
    case.add("b", "1")
    case.add("a", None)
    case.roll()
    case.clean(NOW_MS)
    assert case.left() == {1: "b", 2: "a", 3: "last"}
    case.clean(NOW_MS + 499)
    assert case.left() == {1: "b", 2: "a", 3: "last"}
    case.clean(NOW_MS + 500)
    # The last batch of what was cleaned stays, without records, so that the end of the range is known.
    assert case.left() == {1: "b", 3: "last"}
    assert [header.last_offset for header in case.headers()] == [1, 2]


def test_the_last_batch_of_a_live_producer_stays_and_its_sequence_goes_on_after_a_restart() -> None:
    case = Case()
    case.add("a", "1", producer_id=7, producer_epoch=0, base_sequence=0)
    case.add("a", "2")
    case.add("b", "1")
    case.roll()
    case.clean()
    assert case.left() == {1: "a", 2: "b", 3: "last"}
    header = case.headers()[0]
    assert (header.base_offset, header.record_count, header.producer_id, header.base_sequence) == (0, 0, 7, 0)
    case.log.close(clean=False)
    for name in case.names(".snapshot"):
        case.files.remove(f"t-0/{name}")
    case.log = case.open()
    batch = encode_batch([Record(0, NOW_MS, b"a", b"3")], producer_id=7, producer_epoch=0, base_sequence=1)
    assert append_from_client(case.log, batch, now_ms=NOW_MS).base_offset == 4  # type: ignore[union-attr]


@pytest.mark.parametrize("pieces", range(12))
def test_a_stopped_cleaning_leaves_no_file_and_no_key_behind(pieces: int) -> None:
    case = Case()
    for number in range(12):
        case.add(f"k{number % 2}", "v")
    case.roll()
    before = case.left()
    pulls = iter(range(pieces))
    done = case.clean_with(case.swap, is_stopped=lambda: next(pulls, None) is None)
    assert (done.is_complete, done.end_offset, case.names(".cleaned")) == (False, 0, [])
    assert (done.read_bytes == 0 and case.left() == before) == (pieces <= 6)
    assert {10: "k0", 11: "k1", 12: "last"}.items() <= case.left().items() <= before.items()
    case.clean()
    assert list(case.left()) == [10, 11, 12]


def test_a_refused_swap_ends_the_cleaning() -> None:
    case = Case()
    for number in range(12):
        case.add(f"k{number % 2}", "v")
    case.roll()
    asked: list[tuple[int, Sequence[int]]] = []

    def refuse(base_offset: int, replaced: Sequence[int]) -> bool:
        asked.append((base_offset, replaced))
        return False

    done = case.clean_with(refuse)
    assert (done.is_complete, done.end_offset, asked) == (False, 0, [(0, [0])])
    assert case.names(".cleaned", ".swap") == []


def test_segments_that_are_gone_meanwhile_stop_the_cleaning_without_an_error() -> None:
    case = Case()
    for _ in range(6):
        case.add("k", "v")
    case.roll()

    def swap(base_offset: int, replaced: Sequence[int]) -> bool:
        swapped = case.swap(base_offset, replaced)
        for name in case.names(".log")[1:]:
            case.files.remove(f"t-0/{name}")
        return swapped

    view = case.log.snapshot()
    done = case.clean_with(swap)
    assert (done.is_complete, done.end_offset, case.names(".cleaned")) == (False, 0, [])
    case.files.remove_directory("t-0")
    assert not case.clean_with(case.swap, view).is_complete


@pytest.mark.parametrize("name", ["rename", "sync", "sync_directory"])
def test_a_step_that_fails_leaves_no_file_behind_and_the_log_as_it_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case()
    for _ in range(6):
        case.add("k", "v")
    case.roll()
    before = case.left()

    def fail(*_: str) -> None:
        raise StorageError("the disk reports an error")

    monkeypatch.setattr(case.files, name, fail)
    with pytest.raises(StorageError, match="the disk reports"):
        case.clean_with(case.swap)
    assert (case.left(), case.names(".cleaned", ".swap", ".deleted")) == (before, [])


def test_a_log_that_moves_away_before_its_files_are_ready_stops_the_cleaning(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case()
    for _ in range(6):
        case.add("k", "v")
    case.roll()
    sync_directory = case.files.sync_directory

    def move_first(directory: str) -> None:
        case.files.remove_directory("t-0")
        sync_directory("")

    monkeypatch.setattr(case.files, "sync_directory", move_first)
    monkeypatch.setattr(case.files, "rename", lambda *_: pytest.fail("nothing is there to be renamed"))
    done = case.clean_with(lambda *_: pytest.fail("nothing is there to be swapped"))
    assert not done.is_complete


def spoil(case: Case, name: str, at: int, data: bytes) -> None:
    overwrite(case.files, f"t-0/{name}", at, data)


@pytest.mark.parametrize(
    ("at", "data"),
    [(70, b"\xff"), (16, b"\x01"), (8, (1 << 20).to_bytes(4)), (8, bytes(4)), (71 + 8, (200).to_bytes(4)), (71, (1 << 40).to_bytes(8))],
    ids=["a record", "the format", "a length beyond the end", "no length", "the last length", "an offset"],
)
def test_damage_is_reported_and_nothing_is_swapped(at: int, data: bytes) -> None:
    case = Case()
    for _ in range(6):
        case.add("k", "v")
    case.roll()
    view = case.log.snapshot()
    spoil(case, "00000000000000000000.log", at, data)
    with pytest.raises(StorageError, match=r"00000000000000000000\.log cannot be cleaned: it is damaged"):
        case.clean_with(case.swap)
    assert case.names(".cleaned", ".deleted", ".swap") == []
    assert case.log.snapshot() == view


def test_a_file_that_is_cut_off_is_damage() -> None:
    case = Case()
    for _ in range(6):
        case.add("k", "v")
    case.roll()
    view = case.log.snapshot()
    file = case.files.open("t-0/00000000000000000000.log")
    file.truncate(file.size - 1)
    assert case.log.snapshot() == view
    with pytest.raises(StorageError, match="before its"):
        case.clean_with(case.swap)


def test_an_index_that_is_missing_or_damaged_is_not_needed() -> None:
    for data in (None, b"damaged"):
        case = Case(segment_bytes=500, index_interval_bytes=1)
        for number in range(14):
            case.add(f"k{number}", "v")
        case.roll()
        view = case.log.snapshot()
        for name in case.names(".index"):
            case.files.remove(f"t-0/{name}")
            if data is not None:
                case.files.open(f"t-0/{name}").append(data)
        assert case.clean_with(lambda *_: False, view, checkpoint=3).indexed_bytes == sum(s.size_bytes for s in view.segments)


def test_what_the_offset_map_held_before_is_forgotten() -> None:
    case = Case()
    case.add("k", "v")
    case.roll()
    offset_map = OffsetMap(SLOT_BYTES * 100)
    offset_map.put(b"k", 5)
    done = clean(
        case.files,
        case.log.snapshot(),
        first_dirty_offset=0,
        first_uncleanable_offset=1,
        backend=ReferenceBackend(),
        offset_map=offset_map,
        now_ms=NOW_MS,
        swap=case.swap,
    )
    assert (done.end_offset, done.kept_records, case.left()) == (1, 1, {0: "k", 1: "last"})


def test_nothing_to_clean_is_no_pass() -> None:
    case = Case()
    assert case.clean() == Cleaned(0)


def test_the_time_of_the_first_batch_is_read_from_its_header() -> None:
    case = Case()
    case.add("k", "v")
    case.roll()
    (segment,) = case.log.snapshot().segments
    assert first_timestamp_ms(case.files, segment) == NOW_MS
    case.files.open("t-0/00000000000000000000.log").truncate(60)
    assert first_timestamp_ms(case.files, segment) is None


def test_offsets_rise_in_what_was_written() -> None:
    case = Case()
    for number in range(30):
        case.add(f"k{number % 7}", "v")
    case.roll()
    case.clean()
    assert all(one < other for one, other in pairwise(case.left()))


def test_a_swap_that_was_never_made_leaves_nothing_that_a_restart_would_take_for_one() -> None:
    case = Case(segment_bytes=300)
    for number in range(12):
        case.add("k", f"v{number}")
    case.roll()

    def fails(*_: object) -> bool:
        raise StorageError("the recovery points cannot be written: the disk is full")

    with pytest.raises(StorageError, match="full"):
        case.clean_with(fails, case.log.snapshot(), checkpoint=0)
    assert not case.names(".swap")
    assert not case.names(".cleaned")


RETENTION_NOW_MS = 5000


class Abort(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int


class End(NamedTuple):
    epoch: int
    last_offset: int


def data(offset: int, producer_id: int, *, is_transactional: bool = True, last_offset: int | None = None) -> bytes:
    records = [Record(offset, 1000, b"k", b"v")]
    batch = encode_batch(
        records, base_offset=offset, last_offset=last_offset, producer_id=producer_id, base_sequence=0, is_transactional=is_transactional
    )
    return bytes(batch)


def marker(offset: int, producer_id: int, control_type: int, *, epoch: int = 0, horizon_ms: int | None = None) -> bytes:
    record = Record(offset, 1000, pack(">hh", 0, control_type), bytes(6))
    return bytes(
        encode_batch(
            [record],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            is_transactional=True,
            is_control=True,
            delete_horizon_ms=horizon_ms,
        )
    )


def empty(batch: bytes) -> bytes:
    return bytes(empty_batch(read_header(batch)))


def retentions(
    batches: list[bytes], *aborted: Abort, producers: dict[int, End] | None = None, end_offset: int = 999
) -> tuple[list[BatchRetention | None], list[Abort]]:
    """The retention of each batch (None: an ordinary one), and the aborted transactions that stay in the index."""
    transactions = Transactions(aborted)
    batch_retentions = BatchRetentions(transactions, producers or {}, end_offset=end_offset, now_ms=RETENTION_NOW_MS)
    buffer = b"".join(batches)
    found = batch_retentions.of(ReferenceChunk(buffer, batch_retentions.marked_offsets), buffer)
    starts = [sum(map(len, batches[:number])) for number in range(len(batches))]
    return [found.get(start) for start in starts], transactions.take_kept()


def test_aborted_data_goes_and_its_marker_stays_and_so_does_its_index_entry() -> None:
    batches = [data(0, 7), data(1, 8), data(2, 7), marker(3, 7, ControlType.ABORT), marker(4, 8, ControlType.COMMIT)]
    abort = Abort(7, 0, 3)
    drop, keep = BatchRetention.DROP, BatchRetention.KEEP
    assert retentions(batches, abort) == ([drop, BatchRetention.FILTER, drop, keep, keep], [abort])


def test_markers_get_a_horizon_when_their_data_is_gone_and_go_at_the_horizon() -> None:
    for kind in (ControlType.ABORT, ControlType.COMMIT):
        assert retentions([marker(3, 7, kind)]) == ([BatchRetention.KEEP_UNTIL_HORIZON], [])
        assert retentions([marker(3, 7, kind, horizon_ms=RETENTION_NOW_MS + 1)]) == ([BatchRetention.KEEP], [])
        assert retentions([marker(3, 7, kind, horizon_ms=RETENTION_NOW_MS)]) == ([BatchRetention.DROP], [])


def test_a_marker_whose_data_is_gone_leaves_the_index() -> None:
    assert retentions([marker(3, 7, ControlType.ABORT)], Abort(7, 0, 3)) == ([BatchRetention.KEEP_UNTIL_HORIZON], [])


def test_the_next_transaction_of_a_producer_is_another_one() -> None:
    batches = [
        data(0, 7),
        marker(1, 7, ControlType.ABORT),
        data(2, 7),
        marker(3, 7, ControlType.COMMIT),
        data(4, 7),
        marker(5, 7, ControlType.ABORT),
        marker(6, 7, ControlType.COMMIT),
    ]
    aborted = [Abort(7, 4, 5), Abort(7, 0, 1)]
    drop, keep = BatchRetention.DROP, BatchRetention.KEEP
    expected = [drop, keep, BatchRetention.FILTER, keep, drop, keep, BatchRetention.KEEP_UNTIL_HORIZON]
    assert retentions(batches, *aborted) == (expected, [aborted[1], aborted[0]])


def test_data_before_the_aborted_transaction_is_not_of_it() -> None:
    assert retentions([data(0, 7), data(1, 7)], Abort(7, 1, 9))[0] == [BatchRetention.FILTER, BatchRetention.DROP]


def test_ordinary_batches_amid_a_transaction_need_no_decision() -> None:
    assert retentions([data(0, 7, is_transactional=False), data(1, -1, is_transactional=False)], Abort(7, 0, 9))[0] == [None, None]


def test_the_last_batch_of_a_live_producer_stays_if_need_be_empty() -> None:
    batches = [data(0, 7), data(1, 7, is_transactional=False), data(2, 7)]
    producers = {7: End(0, 1)}
    assert retentions(batches, producers=producers)[0] == [BatchRetention.FILTER, BatchRetention.FILTER_KEEP, BatchRetention.FILTER]
    assert retentions([data(1, 8, is_transactional=False)], producers=producers)[0] == [BatchRetention.FILTER]
    assert retentions([data(0, 7), data(1, 7)], Abort(7, 0, 2), producers=producers)[0] == [BatchRetention.DROP, BatchRetention.EMPTY]


def test_a_batch_without_a_producer_is_no_producers_last() -> None:
    assert retentions([data(0, -1, is_transactional=False)], producers={-1: End(0, 0)})[0] == [BatchRetention.FILTER]


def test_a_producer_known_by_its_marker_alone_keeps_that() -> None:
    batches = [marker(1, 7, ControlType.COMMIT, epoch=3, horizon_ms=1), marker(2, 7, ControlType.COMMIT, epoch=4, horizon_ms=1)]
    assert retentions(batches, producers={7: End(4, -1)})[0] == [BatchRetention.DROP, BatchRetention.EMPTY]
    assert retentions([data(3, 7)], producers={7: End(0, -1)})[0] == [BatchRetention.FILTER]


def test_the_last_batch_of_the_range_stays() -> None:
    assert retentions([data(0, -1, is_transactional=False, last_offset=4)], end_offset=5)[0] == [BatchRetention.FILTER_KEEP]
    assert retentions([data(0, 7, last_offset=4)], Abort(7, 0, 9), end_offset=5)[0] == [BatchRetention.EMPTY]
    assert retentions([marker(4, 7, ControlType.COMMIT, horizon_ms=1)], end_offset=5)[0] == [BatchRetention.EMPTY]
    assert retentions([marker(4, 7, ControlType.COMMIT)], end_offset=5)[0] == [BatchRetention.KEEP_UNTIL_HORIZON]


def test_an_emptied_marker_goes_when_nothing_needs_it() -> None:
    gone = empty(marker(4, 7, ControlType.COMMIT))
    assert retentions([gone])[0] == [BatchRetention.DROP]
    assert retentions([gone], end_offset=5)[0] == [BatchRetention.EMPTY]


def test_an_emptied_batch_of_data_still_holds_its_marker() -> None:
    assert retentions([empty(data(0, 7)), marker(1, 7, ControlType.COMMIT)])[0] == [BatchRetention.FILTER, BatchRetention.KEEP]


def test_other_control_records_stay() -> None:
    assert retentions([marker(0, -1, 2), marker(1, -1, 99)])[0] == [BatchRetention.KEEP, BatchRetention.KEEP]


def test_the_index_pass_skips_control_batches_and_aborted_data() -> None:
    batches = [data(0, 7), data(1, 8), marker(2, 7, ControlType.ABORT), data(3, 7), data(4, 9, is_transactional=False)]
    buffer = b"".join(batches)
    positions = skipped(Transactions([Abort(7, 0, 2)]), ReferenceChunk(buffer, array("q", [4])), buffer)
    assert positions == {0, len(batches[0]) + len(batches[1])}


def test_a_control_batch_that_is_none_is_refused() -> None:
    bad = encode_batch([Record(0, 0, b"\x00", b"")], is_control=True)
    with pytest.raises(PeerError, match="names no type"):
        retentions([bytes(bad)])


class Sizes(NamedTuple):
    base_offset: int
    next_base_offset: int
    size_bytes: int
    offset_index_bytes: int = 0
    time_index_bytes: int = 0


def bases(segments: list[Sizes], segment_bytes: int = 100, segment_index_bytes: int = 100) -> list[list[int]]:
    found = group_segments(segments, segment_bytes=segment_bytes, segment_index_bytes=segment_index_bytes)
    return [[segment.base_offset for segment in group] for group in found]


def test_neighbours_join_up_to_the_size_of_a_segment() -> None:
    assert bases([Sizes(0, 10, 40), Sizes(10, 20, 60), Sizes(20, 30, 1), Sizes(30, 40, 100)]) == [[0, 10], [20], [30]]
    assert bases([]) == []


def test_a_segment_that_is_too_large_stands_alone() -> None:
    assert bases([Sizes(0, 10, 400), Sizes(10, 20, 0), Sizes(20, 30, 5)]) == [[0], [10, 20]]


@pytest.mark.parametrize("index", ["offset_index_bytes", "time_index_bytes"])
def test_the_indexes_need_room_too(index: str) -> None:
    segments = [Sizes(0, 10, 1, **{index: 60}), Sizes(10, 20, 1, **{index: 40}), Sizes(20, 30, 1, **{index: 1})]
    assert bases(segments) == [[0, 10], [20]]


def test_offsets_of_a_group_fit_31_bits() -> None:
    assert bases([Sizes(5, 10, 1), Sizes(10, 2**31 + 5, 1)]) == [[5, 10]]
    assert bases([Sizes(5, 10, 1), Sizes(10, 2**31 + 6, 1)]) == [[5], [10]]
    assert bases([Sizes(5, 10, 1), Sizes(10, 2**31 + 6, 0)]) == [[5, 10]]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))))
def test_nothing_is_lost_and_no_group_is_too_large(sizes: list[tuple[int, int, int]]) -> None:
    segments = [Sizes(10 * number, 10 * number + 10, *each) for number, each in enumerate(sizes)]
    found = group_segments(segments, segment_bytes=100, segment_index_bytes=80)
    assert [segment for group in found for segment in group] == segments
    for group in found:
        totals = [sum(segment[column] for segment in group) for column in (2, 3, 4)]
        assert len(group) == 1 or (totals[0] <= 100 and max(totals[1:]) <= 80)
