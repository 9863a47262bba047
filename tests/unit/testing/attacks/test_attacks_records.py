"""The hostile batches are what they say: valid, of so many records, small."""

import pytest

from ottla.core.records.batch import HEADER_BYTES, crc_is_valid, decode_batch, read_header
from ottla.core.records.record import iter_records
from ottla.testing.attacks.records import hostile_batch, minimal_records


@pytest.mark.parametrize("count", [1, 64, 65, 8_192, 8_193, 20_000])
def test_minimal_records_are_records(count: int) -> None:
    records = list(iter_records(minimal_records(count, 1), count=count, base_offset=0, last_offset_delta=count - 1, base_timestamp_ms=5))
    assert [record.offset for record in records] == list(range(count))
    assert {(record.key, record.value, record.timestamp_ms) for record in records} == {(None, None, 5)}


def test_a_hostile_batch_is_a_valid_one() -> None:
    batch = hostile_batch(1_000, 0, 0)
    assert crc_is_valid(batch, 0, len(batch))
    assert read_header(batch).record_count == 1_000
    assert {record.key for record in decode_batch(batch)} == {b""}
    assert len(batch) - HEADER_BYTES < 1_000 * 6
