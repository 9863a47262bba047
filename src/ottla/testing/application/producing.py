"""Produce records with bare requests: no client library, nothing buffered, every record acknowledged when the call returns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ottla.core.errors import ErrorCode
from ottla.core.model import Header, Record
from ottla.core.records.batch import encode_batch
from ottla.core.wire.api_keys import ApiKey
from ottla.testing.application.key_partitions import key_partition
from ottla.testing.clients.raw_client import RawClient
from ottla.testing.kit.waiting import wait_until

Text = bytes | str | None
"""A key or a value; text is encoded as UTF-8."""
ToProduce = Text | tuple[Text, Text]
"""A value, or a key and a value."""

_BATCH_BYTES_MAX: Final = 512 * 1024
_TIMEOUT_S: Final = 30


def produce(
    bootstrap_servers: str,
    topic: str,
    records: Sequence[ToProduce],
    *,
    partition: int | None,
    headers: Mapping[str, Text],
    timestamp_ms: int,
) -> None:
    """Append records, all with these headers and this time. The topic is created if the broker does that (auto.create.topics.enable).

    Raises AssertionError with the broker's error.
    """
    wire_headers = tuple(Header(name, encoded(value)) for name, value in headers.items())
    with RawClient(bootstrap_servers, client_id="ottla-testing", timeout_seconds=_TIMEOUT_S) as client:
        leaders = _leaders(client, topic)
        by_partition: dict[int, list[Record]] = {}
        for number, each in enumerate(records):
            key, value = (encoded(part) for part in (each if isinstance(each, tuple) else (None, each)))
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
    """The bytes of a key or a value."""
    return text.encode() if isinstance(text, str) else text


def _partition(key: bytes | None, number: int, count: int) -> int:
    return number % count if key is None else key_partition(key, count)


def _leaders(client: RawClient, topic: str) -> dict[int, str | None]:
    """The address of each partition's leader."""

    def ask() -> Any:
        answer = client.call(ApiKey.METADATA, 12, topics=[{"name": topic}], allow_auto_topic_creation=True)
        return None if answer.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE else answer

    answer = wait_until(ask, f"a leader of topic {topic}", seconds=_TIMEOUT_S)
    (found,) = answer.topics
    if found.error_code != ErrorCode.NONE:
        raise AssertionError(f"topic {topic}: {ErrorCode(found.error_code).name}")
    addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
    return {each.partition_index: addresses.get(each.leader_id) for each in found.partitions}


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
        raise AssertionError(f"partition {topic}-{partition} refused {len(records)} records: {why}")
