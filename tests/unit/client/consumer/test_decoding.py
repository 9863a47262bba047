"""Which decoder is used."""

import pytest

from ottla.client.consumer import decoding
from ottla.client.consumer.plain_columns import PlainColumns, decode_plain
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import encode_batch


def fetched(value_bytes: int) -> FetchedRecords:
    return FetchedRecords(TopicPartition("t", 0), 0, 1, memoryview(bytes(encode_batch([Record(0, 0, None, bytes(value_bytes))]))))


def test_small_fetches_are_decoded_in_plain_python() -> None:
    decode = decoding.decoder()
    (small,), (large,) = decode(fetched(10)), decode(fetched(decoding.SMALL_BYTES))
    assert isinstance(small, PlainColumns)
    assert not isinstance(large, PlainColumns)


def test_without_the_extra_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "missing_packages", lambda extra: [extra])
    assert decoding.decoder() is decode_plain
