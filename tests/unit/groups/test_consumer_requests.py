"""Requests to a consumer group that the scenario files do not tell: what only some may describe, and bytes of the classic protocol."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ottla.coordinator.coordinator import FinishLoading
from ottla.groups.commands import Command, GroupEffects
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.log.records import ConsumerGroupRecord
from ottla.groups.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.consumer_protocol import parse_assignment, protocol_version
from tests.support.kit.coordinator_shell import CoordinatorShell
from trials.scenarios.commands import parse_command
from trials.scenarios.scenarios import ScenarioTopics

TEN_MINUTES_MS = 10 * 60_000


class Asked:
    """A coordinator that is asked by lines of the scenario language, with fields that these do not have."""

    def __init__(self, topics: Mapping[str, int], **settings: Any) -> None:
        self.topics = ScenarioTopics()
        self.topics.set(dict(topics))
        self.shell = CoordinatorShell(lambda: GroupCoordinator(GroupSettings(**settings), topics=self.topics))
        self.now_ms = self.count = 0
        self.shell.run(FinishLoading(), 0)

    def run(self, line: str, **fields: Any) -> GroupEffects:
        self.count += 1
        command: Command = replace(parse_command(line, self.count), **fields)  # type: ignore[type-var]
        return self.shell.run(command, self.now_ms)

    def answer(self, line: str, **fields: Any) -> Any:
        (reply,) = (reply for reply in self.run(line, **fields).replies if reply.to == self.count)
        return reply.result

    def wait(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (deadline_ms := self.shell.coordinator.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.shell.fire_timers(self.now_ms)
        self.now_ms = end_ms

    @property
    def group(self) -> Any:
        return self.shell.stored.consumer_groups["g"]


@pytest.mark.conformance(
    "GroupMetadataManagerTest.testConsumerGroupMemberJoinsWithRegexWithTopicAuthorizationFailure",
    "GroupMetadataManagerTest.testConsumerGroupMemberJoinsRefreshTopicAuthorization",
)
def test_an_expression_matches_what_its_member_may_describe_and_a_refresh_sees_other_rights() -> None:
    asked = Asked({"foo": 2, "foobar": 2}, consumer_session_timeout_ms=2 * TEN_MINUTES_MS)
    may: Callable[[str], bool] = lambda name: name != "foobar"  # noqa: E731 - the type says what it is
    refused = asked.answer("consumer g m1 regex=foo.*", may_describe=may)
    assert (refused.error, refused.member_epoch) == (ErrorCode.NONE, 1), "topics that may not be described are no error"
    asked.wait(10)
    assert asked.group.regexes["foo.*"].topics == {"foo"}
    asked.wait(11_000)
    asked.answer("consumer g m1 epoch=1", may_describe=lambda _: True)
    asked.wait(10)
    assert asked.group.regexes["foo.*"].topics == {"foo"}, "rights alone make no lookup"
    asked.wait(TEN_MINUTES_MS)
    asked.answer("consumer g m1 epoch=2", may_describe=lambda _: True)
    asked.wait(10)
    assert asked.group.regexes["foo.*"].topics == {"foo", "foobar"}
    assert asked.group.epoch == 3


@pytest.mark.conformance("GroupMetadataManagerTest.testSubscriptionUpgradeToMetadataHash")
def test_the_metadata_that_brokers_before_4_1_wrote_is_deleted_with_the_next_epoch() -> None:
    asked = Asked({"foo": 2})
    asked.run("consumer g m1 topics=foo")
    asked.group.has_partition_metadata = True
    asked.shell.coordinator.state.replayed.consumer_groups["g"].has_partition_metadata = True
    assert not asked.run("consumer g m1 epoch=2").records
    asked.topics.set({"foo": 3})
    records = [each for each in asked.run("consumer g m1 epoch=2").records if isinstance(each, ConsumerGroupRecord)]
    assert [(each.record_type, each.value is None) for each in records[:2]] == [(3, False), (4, True)]
    assert not asked.group.has_partition_metadata


def stable_classic_group(assignment: bytes) -> Asked:
    """A classic group of one member with these bytes for an assignment."""
    asked = Asked({"foo": 2})
    asked.run("join g - new=m1 old=yes protocols=range:foo")
    asked.wait(0)
    asked.run("sync g m1 gen=1", assignments=(("m1", assignment),))
    return asked


@pytest.mark.conformance("GroupMetadataManagerTest.testConsumerGroupHeartbeatWithCustomAssignorClassicGroup")
def test_a_group_whose_assignor_has_data_of_its_own_stays_classic() -> None:
    asked = stable_classic_group(bytes.fromhex("0000000000010003666f6f000000010000000000000001ff"))
    refused = asked.answer("consumer g m2 topics=foo")
    assert refused.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.message.startswith("Cannot upgrade classic group g to consumer group because an unsupported custom assignor is in use.")
    assert asked.shell.stored.consumer_groups == {}
    assert asked.answer("heartbeat g m1 gen=1").error is ErrorCode.NONE


@pytest.mark.conformance("GroupMetadataManagerTest.testConsumerGroupHeartbeatToClassicGroupWithEmptyAssignmentMember")
def test_a_member_without_an_assignment_comes_along() -> None:
    asked = stable_classic_group(b"")
    joined = asked.answer("consumer g m2 topics=foo")
    assert (joined.error, joined.member_epoch) == (ErrorCode.NONE, 2)
    assert {name: dict(member.assigned) for name, member in asked.group.members.items() if name == "m1"} == {"m1": {}}
    assert sum(len(numbers) for target in asked.group.targets.values() for numbers in target.values()) == 2


@pytest.mark.conformance("GroupMetadataManagerTest.testClassicGroupSyncToConsumerGroupWithAllConsumerProtocolVersions")
@pytest.mark.parametrize("version", range(4))
def test_an_assignment_has_the_version_of_the_members_subscription(version: int) -> None:
    asked = Asked({"foo": 1})
    asked.run("consumer g m1 topics=foo")
    owned, generation, rack = bytes(4), (-1).to_bytes(4, signed=True), b"\xff\xff"
    later = (b"", owned, owned + generation, owned + generation + rack)[version]
    metadata = version.to_bytes(2) + b"\0\0\0\1\0\3foo" + b"\xff\xff\xff\xff" + later
    asked.run("join g - new=a1 old=yes protocols=range:foo", protocols=(("range", metadata),))
    synced = asked.answer("sync g a1 gen=3")
    assert synced.error is ErrorCode.NONE
    assert protocol_version(synced.assignment) == version
    assert parse_assignment(synced.assignment) == {}, "m1 has not given up its partition yet"


@pytest.mark.conformance(
    "OffsetMetadataManagerTest.testConsumerGroupOffsetCommitWithOffsetMetadataTooLarge",
    "OffsetMetadataManagerTest.testConsumerGroupOffsetDelete",
)
def test_offsets_with_a_long_text_and_of_topics_that_nobody_subscribes_to() -> None:
    asked = Asked({"foo": 2, "bar": 1}, offset_metadata_bytes_max=5)
    asked.run("consumer g m1 topics=foo")
    committed = asked.answer("commit g m1 gen=2 foo/0=7(longer) foo/1=8(short) bar/0=9")
    assert list(committed.errors) == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE, ErrorCode.NONE]
    assert asked.shell.stored.committed("g", "foo", 0) is None
    asked.run("delete-offsets g bar/0 foo/1")
    assert asked.shell.stored.committed("g", "bar", 0) is None
    assert asked.shell.stored.committed("g", "foo", 1) is not None, "a member subscribes to it"


def test_a_heartbeat_that_only_keeps_a_session_needs_no_command_unless_something_is_due() -> None:
    asked = Asked({"foo": 2})

    def kept(member_id: str = "m1", epoch: int = 2, **other: Any) -> int | None:
        who = {"instance_id": None, "client_id": "client", "client_host": "/127.0.0.1", **other}
        return asked.shell.coordinator.fast_consumer_heartbeat("g", member_id, epoch, *who.values(), timer_ms=asked.now_ms)

    asked.run("consumer g m1 topics=foo", client_id="client", client_host="/127.0.0.1")
    assert kept() == 5_000
    assert kept(epoch=1) is kept(epoch=0) is kept("m2") is None
    assert kept(instance_id="i") is kept(client_id="another") is kept(client_host="/127.0.0.2") is None
    asked.wait(44_000)
    assert kept() == 5_000
    asked.wait(44_000)
    assert "m1" in asked.group.members, "its session began again"
    asked.topics.set({"foo": 3})
    assert kept() is None, "a new target is due"
    asked.run("consumer g m1 epoch=2")
    assert kept(epoch=3) == 5_000
    asked.run("consumer g m2 regex=f.*", client_id="client", client_host="/127.0.0.1")
    assert kept(epoch=3) is None, "topics of expressions may have to be looked up again"
    asked.run("consumer g m2 epoch=-1")
    assert kept(epoch=3) is None, "the group's epoch has changed"
