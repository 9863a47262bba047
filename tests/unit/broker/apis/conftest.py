"""What the tests of single APIs share: a topic, and a batch to put into it."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.core.model import Record
from ottla.core.records.batch import encode_batch


@pytest.fixture
def make_topic(api) -> Callable[..., Any]:
    """Creates a topic through CreateTopics and returns it from the catalogue."""

    def make(name: str = "t", partitions: int = 1, configs: dict[str, str] | None = None, of: Any = None) -> Any:
        broker = of or api
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": -1,
            "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
        }
        answer = broker.ask(19, 7, topics=[topic], timeout=1000, validate_only=False)
        assert answer.topics[0].error_code == 0, answer
        return broker.cluster.catalogue.topics[name]

    return make


@pytest.fixture
def batch() -> Callable[..., bytes]:
    """A record batch of values, first timestamp 1000, one millisecond apart."""

    def make(*values: bytes, timestamp_ms: int = 1000, **options: Any) -> bytes:
        records = [Record(number, timestamp_ms + number, None, value) for number, value in enumerate(values)]
        return bytes(encode_batch(records, **options))

    return make


@pytest.fixture
def commit(api) -> Callable[..., int]:
    """Commits an offset as a standalone consumer; returns the error code."""

    def make(group: str, topic: str, offset: int, metadata: str | None = "m", of: Any = None, partition: int = 0) -> int:
        part = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata, "committed_leader_epoch": -1}
        answer = (of or api).ask(
            8,
            8,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": topic, "partitions": [part]}],
        )
        return int(answer.topics[0].partitions[0].error_code)

    return make


@pytest.fixture
def committed(api) -> Callable[..., int]:
    """The committed offset of a group in partition 0; -1 where there is none."""

    def read(group: str, topic: str, of: Any = None) -> int:
        answer = (of or api).ask(9, 7, group_id=group, topics=[{"name": topic, "partition_indexes": [0]}], require_stable=False)
        return int(answer.topics[0].partitions[0].committed_offset)

    return read
