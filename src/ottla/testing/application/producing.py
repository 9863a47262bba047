"""Produce records with bare requests: no client library, nothing buffered, every record acknowledged when the call returns.

The partition of a record is the one that Kafka's Java producer chooses: by the key's murmur2 hash; without a key, in turn. Source:
org.apache.kafka.common.utils.Utils.murmur2, BuiltInPartitioner. It needs no extra, and is for the few records that a test produces.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ottla.history.story.sentences import counted
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.waiting import HIDE_FAILURES, wait_until

__tracebackhide__ = HIDE_FAILURES

_WORD: Final = 0xFFFFFFFF
_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995

Text = bytes | str | None
"""A key or a value; text is encoded as UTF-8."""
ToProduce = Text | tuple[Text, Text]
"""A value, or a key and a value."""
Headers = Mapping[str, Text] | Sequence[tuple[str, Text]]
"""Names with values; pairs where a name occurs more than once."""

_BATCH_BYTES_MAX: Final = 512 * 1024
_TIMEOUT_S: Final = 30


def key_partition(key: bytes, count: int) -> int:
    """The partition, of `count`, of a key."""
    # The default partitioner makes the hash positive by its mask, not by its absolute value.
    return (_murmur2(key) & 0x7FFFFFFF) % count


def _murmur2(data: bytes) -> int:
    value = (_SEED ^ len(data)) & _WORD
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _WORD
        word ^= word >> 24
        value = (value * _FACTOR ^ word * _FACTOR) & _WORD
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * _FACTOR & _WORD
    value ^= value >> 13
    value = value * _FACTOR & _WORD
    return value ^ (value >> 15)


def produce(
    bootstrap_servers: str,
    topic: str,
    records: Sequence[ToProduce],
    *,
    partition: int | None,
    headers: Headers,
    timestamp_ms: int,
) -> None:
    """Append records, all with these headers and this time. The topic is created if the broker does that (auto.create.topics.enable).

    Raises AssertionError with the broker's error, TypeError for what is no record.
    """
    if isinstance(records, str | bytes):
        raise TypeError(f"records are a list: [{records!r:.100}]")
    named = headers.items() if isinstance(headers, Mapping) else headers
    wire_headers = tuple(Header(name, encoded(value)) for name, value in named)
    keys_and_values = [_key_and_value(record) for record in records]
    with RawClient(bootstrap_servers, client_id="ottla-testing", timeout_seconds=_TIMEOUT_S) as client:
        leaders = _leaders(client, topic)
        by_partition: dict[int, list[Record]] = {}
        for number, (key, value) in enumerate(keys_and_values):
            chosen = partition if partition is not None else _partition(key, number, len(leaders))
            of_partition = by_partition.setdefault(chosen, [])
            of_partition.append(Record(len(of_partition), timestamp_ms, key, value, wire_headers))
    by_leader: dict[str, list[int]] = {}
    for number in by_partition:
        if number not in leaders:
            raise AssertionError(f"topic {topic} has no partition {number}: it has {len(leaders)}")
        leader = leaders[number]
        if leader is None:
            raise AssertionError(f"partition {topic}-{number} has no leader")
        by_leader.setdefault(leader, []).append(number)
    for leader, numbers in by_leader.items():
        with RawClient(leader, client_id="ottla-testing", timeout_seconds=_TIMEOUT_S) as client:
            for number in numbers:
                for batch in _batches(by_partition[number]):
                    _append(client, topic, number, batch)


def encoded(text: Text) -> bytes | None:
    """The bytes of a key or a value. Raises TypeError."""
    if isinstance(text, str):
        return text.encode()
    if text is None or isinstance(text, bytes):
        return text
    raise TypeError(f"a key, a value or a header's value is bytes, str or None, not {type(text).__name__}: {text!r:.100}")


def _key_and_value(record: ToProduce) -> tuple[bytes | None, bytes | None]:
    if not isinstance(record, tuple):
        return None, encoded(record)
    if len(record) != 2:
        raise TypeError(f"a record is a value or (key, value), not {record!r:.100}")
    return encoded(record[0]), encoded(record[1])


def _partition(key: bytes | None, number: int, count: int) -> int:
    return number % count if key is None else key_partition(key, count)


def _leaders(client: RawClient, topic: str) -> dict[int, str | None]:
    """The address of each partition's leader."""

    def ask() -> Any:
        answer = client.call(ApiKey.METADATA, 12, topics=[{"name": topic}], allow_auto_topic_creation=True)
        return None if answer.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE else answer

    answer = wait_until(ask, f"a leader of topic {topic}", seconds=_TIMEOUT_S)
    if answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        answer = wait_until(ask, f"a leader of topic {topic}", seconds=_TIMEOUT_S)  # the question may have created it
    (found,) = answer.topics
    if found.error_code != ErrorCode.NONE:
        raise AssertionError(f"topic {topic}: {ErrorCode(found.error_code).name}")
    addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
    return {partition.partition_index: addresses.get(partition.leader_id) for partition in found.partitions}


def _batches(records: Sequence[Record]) -> Iterator[list[Record]]:
    """The records in batches of at most _BATCH_BYTES_MAX, or of one record."""
    batch: list[Record] = []
    size = 0
    for record in records:
        added = len(record.key or b"") + len(record.value or b"") + sum(len(name) + len(value or b"") for name, value in record.headers)
        if batch and size + added > _BATCH_BYTES_MAX:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += added
    if batch:
        yield batch


def _append(client: RawClient, topic: str, partition: int, records: Sequence[Record]) -> None:
    first = records[0].offset
    batch = bytes(encode_batch([record._replace(offset=record.offset - first) for record in records]))
    data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
    answer = client.call(ApiKey.PRODUCE, 9, acks=-1, timeout=_TIMEOUT_S * 1000, topic_data=data)
    (appended,) = answer.responses[0].partition_responses
    if appended.error_code != ErrorCode.NONE:
        why = f"{ErrorCode(appended.error_code).name}: {appended.error_message}"
        if appended.error_code == ErrorCode.MESSAGE_TOO_LARGE:
            why += f"; for larger ones: create_topic({topic!r}, config={{'max.message.bytes': ...}})"
        raise AssertionError(f"partition {topic}-{partition} refused {counted(len(records), 'record')}: {why}")
