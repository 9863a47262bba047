"""The cleaner on one log: what is left, in which files, in how many passes, and what stops it."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from ottla.core.cleaning.candidates import assess
from ottla.core.cleaning.offset_map import SLOT_BYTES, OffsetMap
from ottla.core.cleaning.reference import ReferenceBackend
from ottla.core.errors import StorageError
from ottla.core.groups.log.records import OffsetRecord, OffsetValue, encode_key, encode_value
from ottla.core.model import Record
from ottla.core.records.batch import BatchHeader, encode_batch, split_batches
from ottla.core.records.compression import Codec
from ottla.storage.cleaner.cleaning import Cleaned, clean, first_timestamp_ms
from ottla.storage.file_system import Files
from ottla.storage.log.log_snapshot import LogSnapshot
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.settings import LogSettings
from ottla.storage.memory_files import MemoryFiles
from ottla.testing.kit.cleaning import append_from_client, clean_now, records
from ottla.testing.kit.faulty_files import overwrite

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
