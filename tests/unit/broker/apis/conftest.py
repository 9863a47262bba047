"""What the tests of single APIs share: a topic, and a batch to put into it."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.cluster.brokers import Brokers, Node
from ottla.broker.partitions.offset_checkpoints import OffsetCheckpoints
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.removals import Removals
from ottla.config import BrokerConfig
from ottla.log.file_system import MemoryFiles
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topic_changes import create_topic
from ottla.metadata.topics import NewTopic
from ottla.protocol.errors import ApiError, ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from tests.support.kit.sessions import listen


class GroupsDouble:
    """Groups that note commands, and answer when the test says so."""

    def __init__(self) -> None:
        self.commands: list[Any] = []
        self.fast_answer: ErrorCode | None = None
        self._answer: Callable[[Any], None] = lambda _result: None

    def fast_heartbeat(self, *_asked: object) -> ErrorCode | None:
        return self.fast_answer

    def expect_reply(self, answer: Callable[[Any], None], _request: object = None) -> int:
        self._answer = answer
        return 1

    def run(self, _group_id: str, command: Any) -> None:
        self.commands.append(command)

    def answer(self, result: Any) -> None:
        self._answer(result)


@pytest.fixture
def groups_double() -> GroupsDouble:
    return GroupsDouble()


@pytest.fixture
def metadata() -> ClusterMetadata:
    """Brokers 1 and 2, and a topic `t` of two partitions: broker 1 leads the first, broker 2 the second."""
    made = ClusterMetadata((1, 2), BrokerConfig().text)
    records = create_topic(made, NewTopic(name="t", assignment={0: (1,), 1: (2,)}), bytes(range(16)))
    assert not isinstance(records, ApiError)
    for record in records:
        made.replay(record)
    return made


@pytest.fixture
def partitions(metadata: ClusterMetadata) -> Partitions:
    """The logs of the topics in `metadata`, in memory."""
    files = MemoryFiles()
    return Partitions(files, metadata, lambda: 1_700_000_000_000, OffsetCheckpoints(files), Removals(files))


@pytest.fixture
def brokers(metadata: ClusterMetadata, partitions: Partitions) -> Brokers:
    """Brokers 1 and 2 at a:9092 and b:9092."""
    made = Brokers(metadata)
    for node_id, host in ((1, "a"), (2, "b")):
        node = Node(node_id, cluster_metadata=metadata, partitions=partitions)
        listen(node, host, 9092)
        made.add(node)
    return made


@pytest.fixture
def commit(api) -> Callable[..., int]:
    """Commits an offset as a standalone consumer; returns the error code."""

    def make(group: str, topic: str, offset: int, metadata: str | None = "m", of: Any = None, partition: int = 0) -> int:
        part = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata, "committed_leader_epoch": -1}
        answer = (of or api).ask(
            ApiKey.OFFSET_COMMIT,
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
        answer = (of or api).ask(
            ApiKey.OFFSET_FETCH, 7, group_id=group, topics=[{"name": topic, "partition_indexes": [0]}], require_stable=False
        )
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
        waiting = self.api.start(ApiKey.JOIN_GROUP, self.join_version, **self.join_fields(**changes))
        if waiting.done() and self.join_version >= 4 and self.instance_id is None and not self.member_id:
            answer = self.api.finish(ApiKey.JOIN_GROUP, self.join_version, waiting)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
                waiting = self.api.start(ApiKey.JOIN_GROUP, self.join_version, **self.join_fields(**changes))
        return waiting

    def joined(self, waiting: Any) -> Any:
        """The answer to a JoinGroup."""
        answer = self.api.finish(ApiKey.JOIN_GROUP, self.join_version, waiting)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self, **changes: Any) -> Any:
        """Joins and waits for the answer."""
        return self.joined(self.start_join(**changes))

    def sync(self, version: int = 5, assignments: dict[str, bytes] | None = None, **changes: Any) -> Any:
        """SyncGroup; a leader hands in `assignments`."""
        plan = [{"member_id": member, "assignment": part} for member, part in (assignments or {}).items()]
        return self.api.ask(
            ApiKey.SYNC_GROUP,
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
        return int(self.api.ask(ApiKey.HEARTBEAT, version, **{**fields, **changes}).error_code)


@pytest.fixture
def member(api) -> Callable[..., Member]:
    """Makes members of groups of the test's broker."""

    def make(group: str = "g", *, of: Any = None, **options: Any) -> Member:
        return Member(of or api, group, **options)

    return make
