"""Source positions from headers, held against Python's own parsing."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.migration.source_positions import FOREIGN, source_positions

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def positions(*records: list[tuple[str, bytes | None]] | None) -> list[tuple[int, int]]:
    rows = [None if headers is None else [{"key": key, "value": value} for key, value in headers] for headers in records]
    found = source_positions(pa.array(rows, HEADERS), "origin", "wide")
    return list(zip(found.partitions.tolist(), found.offsets.tolist(), strict=True))


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 10**18 - 1)), max_size=20))
def test_every_position_is_read(places: list[tuple[int, int]]) -> None:
    assert positions(*([("own", None), ("origin", b"wide:%d:%d" % place)] for place in places)) == places


@pytest.mark.parametrize(
    "headers",
    [
        None,
        [],
        [("origin", None)],
        [("origin", b"wide:1:2"), ("later", b"")],
        [("origins", b"wide:1:2")],
        [("origin", b"narrow:1:2")],
        [("origin", b"wide:1")],
        [("origin", b"wide:1:")],
        [("origin", b"wide::2")],
        [("origin", b"wide:1:2x")],
        [("origin", b"wide:-1:2")],
        [("origin", b"wide:1:1234567890123456789")],
        [("origin", b"")],
    ],
    ids=repr,
)
def test_anything_else_is_foreign(headers: list[tuple[str, bytes | None]] | None) -> None:
    assert positions(headers, [("origin", b"wide:1:2")]) == [(FOREIGN, FOREIGN), (1, 2)]


def test_no_record_and_a_slice_of_a_column() -> None:
    assert positions() == []
    column = pa.array([[{"key": "origin", "value": b"wide:0:%d" % offset}] for offset in range(5)], HEADERS)
    assert source_positions(column[2:4], "origin", "wide").offsets.tolist() == [2, 3]
