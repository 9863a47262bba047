"""The transaction coordinator's record: its two versions, with bytes as Apache Kafka 4.3 writes them."""

from ottla.core.records.schema import DecodedRecord, decode_record
from ottla.core.records.transaction_log import TRANSACTION_LOG_TYPES
from ottla.core.wire.writer import Writer

KEY = Writer().int16(0).string("t1").to_bytes()


def test_version_0() -> None:
    value = Writer().int16(0).int64(2).int16(3).int32(60_000).int8(1).int32(1).string("tx").int32(1).int32(0).int64(10).int64(9)
    assert decode_record(TRANSACTION_LOG_TYPES, KEY, value.to_bytes()) == DecodedRecord(
        0,
        {"transactionalId": "t1"},
        0,
        {
            "producerId": 2,
            "producerEpoch": 3,
            "transactionTimeoutMs": 60_000,
            "transactionStatus": 1,
            "transactionPartitions": [{"topic": "tx", "partitionIds": [0]}],
            "transactionLastUpdateTimestampMs": 10,
            "transactionStartTimestampMs": 9,
        },
    )


def test_version_1_has_tags_and_shows_them_where_the_field_stands() -> None:
    value = Writer().int16(1).int64(2).int16(3).int32(60_000).int8(0).uvarint(0).int64(10).int64(-1)
    value.uvarint(2).uvarint(0).uvarint(8).int64(7).uvarint(2).uvarint(2).int16(2)
    found = decode_record(TRANSACTION_LOG_TYPES, KEY, value.to_bytes())
    assert isinstance(found, DecodedRecord)
    assert found.value == {
        "producerId": 2,
        "previousProducerId": 7,
        "producerEpoch": 3,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": 0,
        "transactionPartitions": None,
        "transactionLastUpdateTimestampMs": 10,
        "transactionStartTimestampMs": -1,
        "clientTransactionVersion": 2,
    }
    assert list(found.value)[1] == "previousProducerId"
