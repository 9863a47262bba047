"""The records that tests write are those that the specification of the formats gives in hexadecimal."""

from tests.support.kit.offsets_topic_records import consumer_member, current_of, group_epoch, records_at, target_epoch, target_of


def test_records_of_kip_848_are_written_as_kafka_writes_them() -> None:
    topic_id = "000102030405060708090a0b0c0d0e0f"
    assert group_epoch("g", 2, 8043129164744331421) == (
        bytes.fromhex("0003000167"),
        bytes.fromhex("0000000000020100086f9eef5c6b2b909d"),
    )
    key, value = consumer_member("g", "m", topics=["foo"])
    assert key == bytes.fromhex("000500016700016d")
    assert value == bytes.fromhex("00000000") + b"\x09client-m\x0b/127.0.0.1\x02\x04foo" + bytes.fromhex("00000493e00000")
    assert target_epoch("g", 2, 1_700_000_000_000)[1] == bytes.fromhex("0000000000020100080000018bcfe56800")
    assert target_of("g", "m", 0, 1)[1] == bytes.fromhex("000002" + topic_id + "0300000000000000010000")
    assert current_of("g", "m", 3, 0, 1)[1] == bytes.fromhex("0000000000030000000200" + "02" + topic_id + "030000000000000001000100")


def test_offsets_count_from_0() -> None:
    assert [(record.offset, record.timestamp_ms) for record in records_at((5, (b"k", None)), (6, (b"k", b"v")))] == [(0, 5), (1, 6)]
