"""Cleaning against a plain dict: the last value of each key stays, no offset moves, what was aborted stays away.

Doing it again changes nothing but what time has brought: tombstones and markers go at their horizon.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.append import Appended
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import ControlType, EndMarker
from tests.support.kit.cleaning import clean_now, records
from tests.support.kit.end_markers import encode_end_marker

NOW_MS = 1_000_000
RETENTION_MS = 1000

keys = st.integers(0, 6).map(lambda number: b"key-%d" % number)
values = st.one_of(st.none(), st.binary(max_size=40))
batches = st.tuples(st.lists(st.tuples(keys, values, st.integers(0, NOW_MS)), min_size=1, max_size=6), st.sampled_from(list(Codec)))


def log_settings(*delete_retention_ms: int) -> st.SearchStrategy[LogSettings]:
    return st.builds(
        LogSettings,
        cleanup_policy=st.just("compact"),
        segment_bytes=st.integers(150, 1500),
        index_interval_bytes=st.sampled_from([1, 100, 4096]),
        delete_retention_ms=st.sampled_from(delete_retention_ms),
    )


class Limits(NamedTuple):
    slots: int
    io_buffer_bytes: int


limits = st.builds(Limits, st.one_of(st.integers(2, 4), st.integers(2, 40)), st.integers(60, 2000))


def new_log(files: MemoryFiles, settings: LogSettings) -> PartitionLog:
    log = PartitionLog(files, "t-0", settings)
    log.open(NOW_MS)
    return log


def append(log: PartitionLog, batch: bytearray) -> None:
    assert isinstance(log.append(batch, now_ms=NOW_MS, from_client=False), Appended)


def last_of_each_key(found: list[Record], end_offset: int) -> list[Record]:
    """What must stay: below `end_offset` the last record of each key, from there on everything."""
    last = {record.key: record.offset for record in found if record.offset < end_offset}
    return [record for record in found if record.offset >= end_offset or last[record.key] == record.offset]


@given(st.lists(batches, min_size=1, max_size=40), log_settings(RETENTION_MS), limits)
def test_the_last_record_of_each_key_stays_where_it_was(
    given_batches: list[tuple[list[tuple[bytes, bytes | None, int]], Codec]], settings: LogSettings, limits: Limits
) -> None:
    files = MemoryFiles()
    log = new_log(files, settings)
    for contents, codec in given_batches:
        some = [Record(number, timestamp_ms, key, value) for number, (key, value, timestamp_ms) in enumerate(contents)]
        append(log, encode_batch(some, codec=codec))
    log.flush()
    before, end = records(log), log.log_end_offset
    done = clean_now(files, log, now_ms=NOW_MS, slots=limits.slots, io_buffer_bytes=limits.io_buffer_bytes)
    assert done.end_offset == log.snapshot().active_base_offset
    expected = last_of_each_key(before, done.end_offset)
    assert records(log) == expected

    again = clean_now(files, log, now_ms=NOW_MS + RETENTION_MS - 1, slots=limits.slots, io_buffer_bytes=limits.io_buffer_bytes)
    assert (records(log), again.end_offset) == (expected, done.end_offset)

    log.close(clean=False)
    log = new_log(files, settings)
    assert (records(log), log.log_end_offset) == (expected, end)
    log.flush()
    done = clean_now(files, log, now_ms=NOW_MS + RETENTION_MS, slots=limits.slots, io_buffer_bytes=limits.io_buffer_bytes)
    left = records(log)
    assert [record for record in left if record.offset >= done.end_offset or record.value is not None] == [
        record for record in expected if record.offset >= done.end_offset or record.value is not None
    ]
    assert all(record.value is not None for record in left if record.offset < done.end_offset)


class Step(NamedTuple):
    """Producer `producer_id` writes records in a transaction, or (`keys` is empty) ends it; -1 is none that has transactions."""

    producer_id: int
    keys: list[bytes]
    is_commit: bool
    codec: Codec


steps = st.builds(Step, st.sampled_from([-1, 1, 2, 3]), st.lists(keys, max_size=3), st.booleans(), st.sampled_from([Codec.NONE, Codec.LZ4]))


def play(log: PartitionLog, given_steps: list[Step]) -> None:
    """Append what the steps say, and end the transactions that are still open at the end."""
    opened: set[int] = set()
    sequences = dict.fromkeys((1, 2, 3), 0)
    ends = [Step(producer_id, [], is_commit=bool(producer_id % 2), codec=Codec.NONE) for producer_id in (1, 2, 3)]
    for number, step in enumerate([*given_steps, *ends]):
        some = [Record(index, NOW_MS, key, b"%d" % number) for index, key in enumerate(step.keys)]
        if step.producer_id == -1:
            if some:
                append(log, encode_batch(some, codec=step.codec))
        elif some:
            opened.add(step.producer_id)
            append(
                log,
                encode_batch(
                    some,
                    codec=step.codec,
                    producer_id=step.producer_id,
                    producer_epoch=0,
                    base_sequence=sequences[step.producer_id],
                    is_transactional=True,
                ),
            )
            sequences[step.producer_id] += len(some)
        elif step.producer_id in opened:
            opened.remove(step.producer_id)
            end_transaction(log, step.producer_id, is_commit=step.is_commit)
    append(log, encode_batch([Record(0, NOW_MS, b"last", b"")]))


def end_transaction(log: PartitionLog, producer_id: int, *, is_commit: bool) -> None:
    kind = ControlType.COMMIT if is_commit else ControlType.ABORT
    marker = Record(0, NOW_MS, *encode_end_marker(EndMarker(kind, 0)))
    append(log, encode_batch([marker], producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True))


def committed(log: PartitionLog) -> Iterator[Record]:
    """What a consumer with read_committed sees, by the list of aborted transactions and the markers that it is given."""
    ahead = sorted(log.aborted_transactions(0, log.log_end_offset), key=lambda aborted: aborted.first_offset)
    aborting: set[int] = set()
    for header, batch in log.read_batches(0):
        while ahead and ahead[0].first_offset <= header.last_offset:
            aborting.add(ahead.pop(0).producer_id)
        if header.is_control:
            aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield from batch


@given(
    st.lists(steps, max_size=40),
    log_settings(0, RETENTION_MS),
    limits,
    st.lists(st.sampled_from([1, RETENTION_MS]), min_size=1, max_size=4),
)
def test_transactions_stay_what_they_were_to_readers_of_what_was_committed(
    given_steps: list[Step], settings: LogSettings, limits: Limits, pauses_ms: list[int]
) -> None:
    files = MemoryFiles()
    log = new_log(files, settings)
    play(log, given_steps)
    log.flush()
    before, now_ms = list(committed(log)), NOW_MS
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        done = clean_now(files, log, now_ms=now_ms, slots=limits.slots, io_buffer_bytes=limits.io_buffer_bytes)
        assert list(committed(log)) == last_of_each_key(before, done.end_offset)
        log.close(clean=False)
        log = new_log(files, settings)
        log.flush()
        assert list(committed(log)) == last_of_each_key(before, done.end_offset)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_outlives_its_data_by_the_retention_time(is_commit: bool) -> None:
    files = MemoryFiles()
    log = new_log(files, LogSettings(cleanup_policy="compact", segment_bytes=1, delete_retention_ms=RETENTION_MS))
    batch = encode_batch([Record(0, NOW_MS, b"k", b"1")], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log, batch)
    end_transaction(log, 1, is_commit=is_commit)
    for key in (b"k", b"k", b"last"):
        append(log, encode_batch([Record(0, NOW_MS, key, b"2")]))
    log.flush()
    log.expire_producers(NOW_MS + 10 * log.settings.producer_id_expiration_ms)

    def left(now_ms: int) -> list[int]:
        clean_now(files, log, now_ms=now_ms)
        return [record.offset for record in records(log)]

    assert left(NOW_MS) == [1, 3, 4]
    assert left(NOW_MS + 1) == [1, 3, 4]
    assert left(NOW_MS + RETENTION_MS) == [1, 3, 4]
    assert left(NOW_MS + RETENTION_MS + 1) == [3, 4]
