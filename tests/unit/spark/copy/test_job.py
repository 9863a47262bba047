"""Checks before a copy; the copy itself: tests/spark/test_copy_topic.py."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.values import CommittedOffset, DescribedGroup, DescribedTopic, Failure, ListedGroup
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition
from ottla.spark.copy import job
from ottla.spark.copy.job import TopicCopy
from ottla.spark.copy.writer import CopyError


class Admin:
    """A cluster with the topics `wide` and `narrow` and the group `g`, as the test has it."""

    def __init__(self) -> None:
        self.topics: dict[str, Any] = {"wide": DescribedTopic("wide", {0: 1}), "narrow": DescribedTopic("narrow", {0: 1})}
        self.latest = 0
        self.state = "Empty"
        self.commits: Any = {TopicPartition("wide", 0): CommittedOffset(5), TopicPartition("other", 0): CommittedOffset(1)}

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def describe_topics(self, names: Iterable[str]) -> Mapping[str, Any]:
        return {name: self.topics.get(name, Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) for name in names}

    def list_offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, self.latest if timestamp == -1 else 0)

    def list_groups(self) -> list[ListedGroup]:
        return [ListedGroup(group_id="g", protocol_type="consumer", state=self.state, kind="Classic")]

    def committed(self, groups: Iterable[str]) -> Mapping[str, Any]:
        return dict.fromkeys(groups, self.commits)

    def describe_groups(self, groups: Iterable[str]) -> Mapping[str, Any]:
        node = BrokerEndpoint(1, "h", 1)
        kinds = {"kind": "Classic", "protocol_type": "consumer", "assignor": "", "coordinator": node, "members": ()}
        return {name: DescribedGroup(group_id=name, state=self.state, **kinds) for name in groups}  # type: ignore[arg-type]


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    made = Admin()
    monkeypatch.setattr(job, "AdminClient", lambda _servers: made)
    return made


def copy(source: str = "wide", target: str = "narrow", groups: tuple[str, ...] | None = None) -> TopicCopy:
    return TopicCopy(bootstrap_servers="h:1", source=source, target=target, directory="nowhere", groups=groups)


def run(each: TopicCopy) -> None:
    each.run(None)  # type: ignore[arg-type] - it does not come to that


@pytest.mark.parametrize(("source", "target", "missing"), [("gone", "narrow", "gone"), ("wide", "gone", "gone")])
def test_both_topics_must_exist(admin: Admin, source: str, target: str, missing: str) -> None:
    with pytest.raises(CopyError, match=f"there is no topic {missing}: create it first"):
        run(copy(source, target))


def test_the_target_must_be_empty(admin: Admin) -> None:
    admin.latest = 1
    with pytest.raises(CopyError, match="narrow has records already"):
        run(copy())


def test_a_group_with_members_is_refused(admin: Admin) -> None:
    admin.state = "Stable"
    with pytest.raises(CopyError, match="group g is Stable: stop its consumers first"):
        run(copy())


def test_offsets_that_cannot_be_read_end_the_copy(admin: Admin) -> None:
    admin.commits = Failure(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(CopyError, match="the offsets of group g cannot be read: COORDINATOR_NOT_AVAILABLE"):
        run(copy())


def test_only_offsets_of_the_source_count(admin: Admin) -> None:
    assert copy()._commits(admin) == {"g": {TopicPartition("wide", 0): 5}}  # type: ignore[arg-type]
    assert copy(groups=())._commits(admin) == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(("counts", "words"), [({0: 1}, "narrow-0 has 2 records, and 1 were copied"), ({}, "and 0 were copied")])
def test_records_that_were_written_twice_are_detected(admin: Admin, counts: dict[int, int], words: str) -> None:
    admin.latest = 7
    with pytest.raises(CopyError, match=words):
        job._check_once(admin, {TopicPartition("narrow", 0): 5}, counts)
    job._check_once(admin, {TopicPartition("narrow", 0): 5}, {0: 2})
