"""Rows: columns and their types, nulls, headers, times, codecs, in a batch and in a stream."""

import time
from typing import Any

SCHEMA = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
]
HEADERS = ("headers", "array<struct<key:string,value:binary>>")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def test_columns_and_their_types(contract: Any):
    topic = contract.topic()
    for reader in (contract.spark.read, contract.spark.readStream):
        for flag, wanted in (("false", SCHEMA), ("true", [*SCHEMA, HEADERS])):
            frame = reader.format(contract.format).options(**contract.options({"subscribe": topic, "includeHeaders": flag})).load()
            assert frame.dtypes == wanted
            assert all(field.nullable for field in frame.schema)


def test_what_was_produced(contract: Any):
    topic, now = contract.topic(partitions=2), int(time.time() * 1000)
    headers = [("a", b"1"), ("a", None), ("", b""), ("é", b"\xff")]
    contract.place.produce(topic, [b"\x00\xff"], key=b"k", timestamp=now, headers=headers)
    contract.place.produce(topic, [None], key=b"tombstone", timestamp=now + 1)
    contract.place.produce(topic, [b""], key=b"", timestamp=now + 2)
    contract.place.produce(topic, [b"v"], partition=1, timestamp=now + 3)
    columns = ("partition", "offset", "key", "value", "topic", "unix_millis(timestamp)", "timestampType", "headers")
    assert contract.rows(*columns, subscribe=topic, includeHeaders=True) == [
        (0, 0, b"k", b"\x00\xff", topic, now, 0, headers),
        (0, 1, b"tombstone", None, topic, now + 1, 0, None),
        (0, 2, b"", b"", topic, now + 2, 0, None),
        (1, 0, None, b"v", topic, now + 3, 0, None),
    ]


def test_every_codec(contract: Any):
    topic = contract.topic()
    for number, codec in enumerate(CODECS):
        contract.place.produce(topic, [f"{codec} {number} {index} " * 20 for index in range(20)], codec=codec)
    expected = [(0, 20 * n + i, f"{codec} {n} {i} " * 20) for n, codec in enumerate(CODECS) for i in range(20)]
    assert contract.rows(subscribe=topic) == contract.drain(subscribe=topic, startingOffsets="earliest").rows == expected


def test_the_brokers_own_time(contract: Any):
    topic, now = contract.topic(message_timestamp_type="LogAppendTime"), int(time.time() * 1000)
    contract.place.produce(topic, ["a", "b"], timestamp=now - 5000)
    rows = contract.rows("timestampType", "unix_millis(timestamp)", subscribe=topic)
    assert [kind for kind, _ in rows] == [1, 1]
    assert all(now - 1000 < ms < now + 60_000 for _, ms in rows), "not the producer's"
