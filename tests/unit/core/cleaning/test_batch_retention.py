"""Batches that are not ordinary: the retention of each, as a log goes by."""

from array import array
from struct import pack
from typing import NamedTuple

import pytest

from ottla.core.cleaning.backend import BatchRetention
from ottla.core.cleaning.batch_retention import BatchRetentions, Transactions, skipped
from ottla.core.cleaning.reference import ReferenceChunk
from ottla.core.errors import PeerError
from ottla.core.model import Record
from ottla.core.records.batch import empty_batch, encode_batch, read_header
from ottla.core.records.control import ControlType

NOW_MS = 5000


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
    batch_retentions = BatchRetentions(transactions, producers or {}, end_offset=end_offset, now_ms=NOW_MS)
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
        assert retentions([marker(3, 7, kind, horizon_ms=NOW_MS + 1)]) == ([BatchRetention.KEEP], [])
        assert retentions([marker(3, 7, kind, horizon_ms=NOW_MS)]) == ([BatchRetention.DROP], [])


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
