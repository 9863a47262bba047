"""Small fetches as Arrow batches: equal to what the compiled decoder makes of the same bytes."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer.arrow.columns import decode_arrow
from ottla.client.consumer.arrow.plain_batches import plain_batch
from ottla.client.consumer.plain_columns import decode_plain
from ottla.columnar.decoding.record_batch_decoder import COLUMN_TYPES, COLUMNS
from ottla.core.client.fetch_values import FetchedRecords
from ottla.core.model import Header, Record, TopicPartition
from ottla.core.records.batch import encode_batch

TEXT = st.none() | st.binary(max_size=9)
HEADERS = st.lists(st.builds(Header, st.text(max_size=4), TEXT), max_size=3).map(tuple)
RECORDS = st.lists(st.tuples(st.integers(-1, 2**40), TEXT, TEXT, HEADERS), min_size=1, max_size=6)


@given(RECORDS, st.booleans(), st.booleans(), st.data())
def test_both_are_equal(records: list[tuple[object, ...]], is_log_append_time: bool, include_headers: bool, data: st.DataObject) -> None:
    made = [Record(at, *each) for at, each in enumerate(records)]  # type: ignore[arg-type]
    written = bytes(encode_batch(made, is_log_append_time=is_log_append_time))
    fetched = FetchedRecords(TopicPartition("tö", 4), 0, len(made), memoryview(written))
    first = data.draw(st.integers(0, len(made) - 1))
    end = data.draw(st.integers(first + 1, len(made)))
    (plain,), (compiled,) = decode_plain(fetched), decode_arrow(fetched)
    small = plain_batch(plain, first, end, include_headers=include_headers)  # type: ignore[arg-type]
    large = compiled.slice(first, end, include_headers=include_headers)  # type: ignore[attr-defined]
    small.validate(full=True)
    large.validate(full=True)
    assert small.schema == large.schema
    assert small.equals(large)
    assert small.column("offset").to_pylist() == list(range(first, end))


@pytest.mark.parametrize("include_headers", [False, True])
def test_the_schema_is_that_of_the_spark_source(include_headers: bool) -> None:
    fetched = FetchedRecords(TopicPartition("t", 4), 0, 1, memoryview(bytes(encode_batch([Record(0, 7, b"k", None)]))))
    (plain,) = decode_plain(fetched)
    batch = plain_batch(plain, 0, 1, include_headers=include_headers)  # type: ignore[arg-type]
    names = [*COLUMNS, "headers"] if include_headers else COLUMNS
    assert batch.schema == pa.schema([pa.field(name, COLUMN_TYPES[name]) for name in names])
