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


class Member:
    """A member of a group as raw requests: joins and syncs alone, in any version."""

    def __init__(self, api: Any, group: str, *, join_version: int = 9, instance_id: str | None = None) -> None:
        self.api = api
        self.group = group
        self.join_version = join_version
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1

    def join_fields(self, **changes: Any) -> dict[str, Any]:
        """The fields of a JoinGroup request."""
        return {
            "group_id": self.group,
            "session_timeout": 10000,
            "rebalance_timeout": 10000,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"}],
            "reason": None,
            **changes,
        }

    def start_join(self, **changes: Any) -> Any:
        """Sends JoinGroup, twice where the first answer only gives an id (KIP-394); the last answer may be late."""
        waiting = self.api.start(11, self.join_version, **self.join_fields(**changes))
        if waiting.done() and self.join_version >= 4 and self.instance_id is None and not self.member_id:
            answer = self.api.finish(11, self.join_version, waiting)
            if answer.error_code == 79:
                self.member_id = answer.member_id
                waiting = self.api.start(11, self.join_version, **self.join_fields(**changes))
        return waiting

    def joined(self, waiting: Any) -> Any:
        """The answer to a JoinGroup."""
        answer = self.api.finish(11, self.join_version, waiting)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self, **changes: Any) -> Any:
        """Joins and waits for the answer."""
        return self.joined(self.start_join(**changes))

    def sync(self, version: int = 5, assignments: dict[str, bytes] | None = None, **changes: Any) -> Any:
        """SyncGroup; a leader hands in `assignments`."""
        plan = [{"member_id": member, "assignment": part} for member, part in (assignments or {}).items()]
        return self.api.ask(
            14,
            version,
            **{
                "group_id": self.group,
                "generation_id": self.generation,
                "member_id": self.member_id,
                "group_instance_id": self.instance_id,
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": plan,
                **changes,
            },
        )

    def heartbeat(self, version: int = 4, **changes: Any) -> int:
        """Heartbeat; returns the error code."""
        fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        return int(self.api.ask(12, version, **{**fields, **changes}).error_code)


@pytest.fixture
def member(api) -> Callable[..., Member]:
    """Makes members of groups of the test's broker."""

    def make(group: str = "g", *, of: Any = None, **options: Any) -> Member:
        return Member(of or api, group, **options)

    return make
