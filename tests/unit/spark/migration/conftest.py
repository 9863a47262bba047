"""A scripted cluster for a migration: topics with their extents, and groups."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.values import EARLIEST, CommittedOffset, DescribedCluster, DescribedGroup, DescribedTopic, Failure, ListedGroup
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.migration.values import Extent

NODE = BrokerEndpoint(1, "h", 1)


class ScriptedAdmin:
    """The part of AdminClient that a migration uses. `refused`: the group whose commits fail."""

    def __init__(self) -> None:
        self.extents: dict[str, list[Extent]] = {}
        self.failures: dict[str, ErrorCode] = {}
        self.commits: dict[str, Any] = {}
        self.states: dict[str, str] = {}
        self.refused = ""
        self.replicas = 3

    def describe_topics(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: self._described(name) for name in names}

    def _described(self, name: str) -> DescribedTopic | Failure:
        if name in self.extents:
            return DescribedTopic(name, dict.fromkeys(range(len(self.extents[name])), 1), f"id of {name}")
        return Failure(self.failures.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    def describe_cluster(self, names: Iterable[str]) -> DescribedCluster:
        from ottla.client.admin.values import DescribedPartition

        partition = DescribedPartition(1, tuple(range(self.replicas)), (1,))
        return DescribedCluster("c", 1, {1: NODE, 2: NODE}, {name: {0: partition} for name in names})

    def list_offsets(self, places: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        return {place: self.extents[place.topic][place.partition][timestamp != EARLIEST] for place in places}

    def list_groups(self) -> list[ListedGroup]:
        return [ListedGroup(group_id=name, protocol_type="consumer", state="Empty", kind="Classic") for name in self.commits]

    def committed(self, groups: Iterable[str]) -> dict[str, Any]:
        return {group: self.commits.get(group, {}) for group in groups}

    def commit(self, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset]) -> Any:
        if group == self.refused:
            return dict.fromkeys(offsets, Failure(ErrorCode.UNKNOWN_MEMBER_ID))
        committed = {place: each if isinstance(each, CommittedOffset) else CommittedOffset(each) for place, each in offsets.items()}
        self.commits.setdefault(group, {}).update(committed)
        return dict.fromkeys(offsets)

    def delete_groups(self, groups: Iterable[str]) -> dict[str, Failure | None]:
        return {group: self.commits.pop(group, None) and None for group in groups}

    def describe_groups(self, groups: Iterable[str]) -> dict[str, Any]:
        kinds: dict[str, Any] = {"kind": "Classic", "protocol_type": "consumer", "assignor": "", "coordinator": NODE, "members": ()}
        return {
            name: DescribedGroup(group_id=name, state=self.states[name], **kinds)
            if name in self.states
            else Failure(self.failures.get(name, ErrorCode.GROUP_ID_NOT_FOUND))
            for name in groups
        }


@pytest.fixture
def admin() -> ScriptedAdmin:
    """A cluster without topics and groups."""
    return ScriptedAdmin()
