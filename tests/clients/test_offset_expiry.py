"""On both brokers: offsets that are too old are removed, and groups that have none left are removed with them.

Seven days, or the minute that is the least that can be set, are too long for a test: commits of version 4 bring a time of their own.
"""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from ottla.groups.log.records import GroupMetadataRecord, OffsetRecord, decode
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import decode_batch, split_batches
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until

CONFIG = {"offsets.retention.check.interval.ms": "100", "offsets.topic.num.partitions": "1"}
SUBSCRIPTION = struct.pack(">hi", 0, 1) + struct.pack(">h", 7) + b"flights" + struct.pack(">i", -1)


class Groups:
    """One connection to a broker, and what these tests ask of it."""

    def __init__(self, client: RawClient) -> None:
        self.client = client

    def commit(self, group: str, retention_ms: int, *partitions: tuple[str, int], member: str = "", generation: int = -1) -> None:
        topics = [{"name": topic, "partitions": [{"partition_index": number, "committed_offset": 42}]} for topic, number in partitions]
        fields = {"generation_id_or_member_epoch": generation, "member_id": member, "retention_time": retention_ms}
        answer = self.client.call(ApiKey.OFFSET_COMMIT, 4, group_id=group, topics=topics, **fields)
        assert {part.error_code for topic in answer.topics for part in topic.partitions} == {ErrorCode.NONE}

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        answer = self.client.call(ApiKey.OFFSET_FETCH, 5, group_id=group, topics=None)
        return {(topic.name, part.partition_index): part.committed_offset for topic in answer.topics for part in topic.partitions}

    def error(self, group: str) -> int:
        return int(self.client.call(ApiKey.DESCRIBE_GROUPS, 6, groups=[group]).groups[0].error_code)

    def join(self, group: str) -> str:
        """A member alone in its group, with a plan."""
        fields = {"session_timeout": 30_000, "rebalance_timeout": 30_000, "protocol_type": "consumer"}
        protocols = [{"name": "range", "metadata": SUBSCRIPTION}]
        joined = self.client.call(ApiKey.JOIN_GROUP, 3, group_id=group, protocols=protocols, **fields)
        plan = [{"member_id": joined.member_id, "assignment": b""}]
        synced = self.client.call(ApiKey.SYNC_GROUP, 2, group_id=group, generation_id=1, member_id=joined.member_id, assignments=plan)
        assert (joined.generation_id, joined.error_code, synced.error_code) == (1, ErrorCode.NONE, ErrorCode.NONE)
        return str(joined.member_id)

    def log(self) -> list[tuple[str, str]]:
        """The tombstones of the offsets topic, in order: whose, and of what."""
        wanted = {"partition": 0, "fetch_offset": 0, "log_start_offset": -1, "partition_max_bytes": 1 << 20}
        topics = [{"topic": "__consumer_offsets", "partitions": [wanted]}]
        limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_id": 0, "session_epoch": -1}
        answer = self.client.call(ApiKey.FETCH, 8, topics=topics, replica_id=-1, isolation_level=0, **limits)
        data = bytes(answer.responses[0].partitions[0].records)
        tombstones = []
        for at, _ in split_batches(data):
            for record in decode_batch(data, at):
                decoded = decode(record.key, record.value)
                if isinstance(decoded, OffsetRecord) and decoded.value is None:
                    tombstones.append((decoded.group_id, f"{decoded.topic}/{decoded.partition}"))
                elif isinstance(decoded, GroupMetadataRecord) and decoded.value is None:
                    tombstones.append((decoded.group_id, "group"))
        return tombstones


@pytest.mark.conformance("OffsetMetadataManagerTest.testCleanupExpiredOffsets", "GroupMetadataManagerTest.scala.testExpireOffset")
def test_what_is_too_old_goes_and_leaves_tombstones(new_broker: Callable[..., Any]) -> None:
    broker = new_broker(CONFIG)
    with RawClient(broker.bootstrap_servers) as client:
        for topic in ("flights", "weather"):
            create_topic(client, topic, 2)
        wait_until(lambda: client.call(ApiKey.FIND_COORDINATOR, 0, key="g").error_code == ErrorCode.NONE, "a coordinator")
        wait_until(lambda: client.call(ApiKey.DESCRIBE_GROUPS, 0, groups=["g"]).groups[0].error_code == ErrorCode.NONE, "a loaded one")
        groups = Groups(client)
        member = groups.join("consumers")
        groups.commit("consumers", 1, ("flights", 0), ("weather", 0), member=member, generation=1)
        groups.commit("simple", 3_600_000, ("flights", 1))
        groups.commit("simple", 1, ("flights", 0))
        groups.commit("gone", 1, ("flights", 0))
        wait_until(lambda: groups.error("gone") == ErrorCode.GROUP_ID_NOT_FOUND, "the group has nothing left")
        wait_until(lambda: groups.committed("simple") == {("flights", 1): 42}, "one of two offsets is too old")
        wait_until(lambda: groups.committed("consumers") == {("flights", 0): 42}, "no member subscribes to weather")
        assert (groups.error("simple"), groups.error("consumers")) == (ErrorCode.NONE, ErrorCode.NONE)
        assert client.call(ApiKey.LEAVE_GROUP, 2, group_id="consumers", member_id=member).error_code == ErrorCode.NONE
        wait_until(lambda: groups.error("consumers") == ErrorCode.GROUP_ID_NOT_FOUND, "the last member is gone")
        tombstones = groups.log()
        assert [what for group, what in tombstones if group == "consumers"] == ["weather/0", "flights/0", "group"]
        assert [what for group, what in tombstones if group == "simple"] == ["flights/0"]
        assert [what for group, what in tombstones if group == "gone"] == ["flights/0", "group"]
