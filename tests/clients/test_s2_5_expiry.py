"""S2.5 on both brokers: offsets that are too old go, and groups that have nothing left go with them.

Seven days, or the minute that is the least that can be set, are too long for a test: commits of version 4 bring a time of their own.
"""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from ottla.core.groups.records import GroupMetadataRecord, OffsetRecord, decode
from ottla.core.records.batch import decode_batch, split_batches
from ottla.testing.raw_client import RawClient

FETCH, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN, LEAVE, SYNC, DESCRIBE, CREATE_TOPICS = 1, 8, 9, 10, 11, 13, 14, 15, 19
NONE, GROUP_ID_NOT_FOUND = 0, 69
CONFIG = {"offsets.retention.check.interval.ms": "100", "offsets.topic.num.partitions": "1"}
SUBSCRIPTION = struct.pack(">hi", 0, 1) + struct.pack(">h", 7) + b"flights" + struct.pack(">i", -1)


class Groups:
    """One connection to a broker, and what these tests ask of it."""

    def __init__(self, client: RawClient) -> None:
        self.client = client

    def commit(self, group: str, retention_ms: int, *partitions: tuple[str, int], member: str = "", generation: int = -1) -> None:
        topics = [{"name": topic, "partitions": [{"partition_index": number, "committed_offset": 42}]} for topic, number in partitions]
        fields = {"generation_id_or_member_epoch": generation, "member_id": member, "retention_time": retention_ms}
        answer = self.client.call(OFFSET_COMMIT, 4, group_id=group, topics=topics, **fields)
        assert {part.error_code for topic in answer.topics for part in topic.partitions} == {NONE}

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        answer = self.client.call(OFFSET_FETCH, 5, group_id=group, topics=None)
        return {(topic.name, part.partition_index): part.committed_offset for topic in answer.topics for part in topic.partitions}

    def error(self, group: str) -> int:
        return int(self.client.call(DESCRIBE, 6, groups=[group]).groups[0].error_code)

    def join(self, group: str) -> str:
        """A member alone in its group, with a plan."""
        fields = {"session_timeout": 30_000, "rebalance_timeout": 30_000, "protocol_type": "consumer"}
        protocols = [{"name": "range", "metadata": SUBSCRIPTION}]
        joined = self.client.call(JOIN, 3, group_id=group, protocols=protocols, **fields)
        plan = [{"member_id": joined.member_id, "assignment": b""}]
        synced = self.client.call(SYNC, 2, group_id=group, generation_id=1, member_id=joined.member_id, assignments=plan)
        assert (joined.generation_id, joined.error_code, synced.error_code) == (1, NONE, NONE)
        return str(joined.member_id)

    def log(self) -> list[tuple[str, str]]:
        """The tombstones of the offsets topic, in order: whose, and of what."""
        wanted = {"partition": 0, "fetch_offset": 0, "log_start_offset": -1, "partition_max_bytes": 1 << 20}
        topics = [{"topic": "__consumer_offsets", "partitions": [wanted]}]
        limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_id": 0, "session_epoch": -1}
        answer = self.client.call(FETCH, 8, topics=topics, replica_id=-1, isolation_level=0, **limits)
        data = bytes(answer.responses[0].partitions[0].records)
        told = []
        for at, _ in split_batches(data):
            for record in decode_batch(data, at):
                decoded = decode(record.key, record.value)
                if isinstance(decoded, OffsetRecord) and decoded.value is None:
                    told.append((decoded.group_id, f"{decoded.topic}/{decoded.partition}"))
                elif isinstance(decoded, GroupMetadataRecord) and decoded.value is None:
                    told.append((decoded.group_id, "group"))
        return told


@pytest.mark.conformance("OffsetMetadataManagerTest.testCleanupExpiredOffsets", "GroupMetadataManagerTest.scala.testExpireOffset")
def test_s2_5_what_is_too_old_goes_and_leaves_tombstones(new_broker: Callable[..., Any], wait_until: Callable[..., None]) -> None:
    broker = new_broker(CONFIG)
    with RawClient(broker.bootstrap_servers) as client:
        made = client.call(
            CREATE_TOPICS,
            5,
            timeout=5000,
            topics=[{"name": t, "num_partitions": 2, "replication_factor": 1} for t in ("flights", "weather")],
        )
        assert {topic.error_code for topic in made.topics} == {NONE}
        wait_until(lambda: client.call(FIND_COORDINATOR, 0, key="g").error_code == NONE, "a coordinator")
        wait_until(lambda: client.call(DESCRIBE, 0, groups=["g"]).groups[0].error_code == NONE, "a loaded one")
        groups = Groups(client)
        member = groups.join("consumers")
        groups.commit("consumers", 1, ("flights", 0), ("weather", 0), member=member, generation=1)
        groups.commit("simple", 3_600_000, ("flights", 1))
        groups.commit("simple", 1, ("flights", 0))
        groups.commit("gone", 1, ("flights", 0))
        wait_until(lambda: groups.error("gone") == GROUP_ID_NOT_FOUND, "the group has nothing left")
        wait_until(lambda: groups.committed("simple") == {("flights", 1): 42}, "one of two offsets is too old")
        wait_until(lambda: groups.committed("consumers") == {("flights", 0): 42}, "nobody subscribes to weather")
        assert (groups.error("simple"), groups.error("consumers")) == (NONE, NONE)
        assert client.call(LEAVE, 2, group_id="consumers", member_id=member).error_code == NONE
        wait_until(lambda: groups.error("consumers") == GROUP_ID_NOT_FOUND, "the last member is gone")
        told = groups.log()
        assert [what for group, what in told if group == "consumers"] == ["weather/0", "flights/0", "group"]
        assert [what for group, what in told if group == "simple"] == ["flights/0"]
        assert [what for group, what in told if group == "gone"] == ["flights/0", "group"]
