"""A consumer group's durable state, what is derived from it, and who may commit: as Apache Kafka's tests of its own group have it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ottla.coordinator.effects import Producer
from ottla.groups.commands import OffsetCommit, OffsetFetch, OffsetsToCommit, OffsetToCommit, TxnOffsetCommit
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.group_state import (
    CURRENT,
    EPOCH,
    MEMBER,
    PARTITION_METADATA,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    ConsumerGroupState,
    ResolvedRegex,
)
from ottla.groups.consumer.member import Assigned, ConsumerMember, ReconciliationState, target_value
from ottla.groups.group import CoordinatorState
from ottla.groups.log.records import ConsumerGroupRecord
from ottla.groups.log.replayed_state import ReplayedState
from ottla.groups.settings import GroupSettings
from ottla.groups.topics import TopicHashes
from ottla.protocol.coordinator_records import (
    AssignedTopicPartitions,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    TargetAssignmentMetadataValue,
)
from ottla.protocol.errors import ErrorCode
from trials.scenarios.scenarios import ScenarioTopics

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
NOBODY = -1
UNREVOKED, UNRELEASED = ReconciliationState.UNREVOKED_PARTITIONS, ReconciliationState.UNRELEASED_PARTITIONS
NONE, STALE = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH
UNKNOWN_MEMBER, ILLEGAL = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION


def at(epoch: int, **partitions: tuple[int, ...]) -> Assigned:
    """Partitions of the topics a, b and c, with their assignment epoch."""
    return {name.encode() * 16: dict.fromkeys(numbers, epoch) for name, numbers in partitions.items()}


def member(member_id: str = "m", epoch: int = 10, **values: Any) -> ConsumerMember:
    return ConsumerMember(member_id=member_id, member_epoch=epoch, **values)


def classic(*protocols: str) -> ClassicMemberMetadata:
    supported = tuple(ClassicProtocol(name=name, metadata=b"") for name in protocols)
    return ClassicMemberMetadata(session_timeout_ms=45_000, supported_protocols=supported)


class Group:
    """A group to which records are replayed, as they come from requests and from the log."""

    def __init__(self) -> None:
        self.topics = ScenarioTopics()
        self.group = ConsumerGroup("g", CoordinatorState(GroupSettings(), self.topics), now_ms=0)

    @property
    def state(self) -> ConsumerGroupState:
        return self.group.durable

    def replay(self, record_type: int, name: str, value: object) -> bool:
        return self.state.apply(ConsumerGroupRecord(record_type=record_type, group_id="g", name=name, value=value))

    def put(self, *members: ConsumerMember) -> None:
        for each in members:
            self.replay(MEMBER, each.member_id, each.metadata_value())
            self.replay(CURRENT, each.member_id, each.assignment_value())

    def remove(self, *member_ids: str) -> None:
        for member_id in member_ids:
            self.replay(CURRENT, member_id, None)
            self.replay(MEMBER, member_id, None)

    def epochs(self, group: int, assignment: int) -> None:
        self.replay(EPOCH, "", ConsumerGroupMetadataValue(epoch=group, metadata_hash=0))
        self.replay(TARGET_EPOCH, "", TargetAssignmentMetadataValue(assignment_epoch=assignment))

    def owners(self, topic_id: bytes, *numbers: int) -> set[int]:
        return {self.state.owner_epoch(topic_id, number) for number in numbers}


# --- members


@pytest.mark.conformance(
    "ConsumerGroupTest.testGetOrCreateMember",
    "ConsumerGroupTest.testUpdateMember",
    "ConsumerGroupTest.testRemoveMember",
    "ConsumerGroupTest.testNoStaticMember",
    "ConsumerGroupTest.testGetStaticMemberByInstanceId",
    "ConsumerGroupTest.testRemoveStaticMember",
)
def test_members_come_change_and_go() -> None:
    group = Group()
    group.put(member("m"), member("s", instance_id="i"))
    assert group.state.members == {"m": member("m"), "s": member("s", instance_id="i")}
    assert group.state.static_members == {"i": "s"}
    changed = member("m", topics=frozenset({"foo", "bar"}))
    group.put(changed)
    assert group.state.members["m"] == changed
    group.remove("m", "s", "no-such-member")
    assert not group.state.members
    assert not group.state.static_members


# --- the epochs of partitions


@pytest.mark.conformance(
    "ConsumerGroupTest.testUpdatingMemberUpdatesPartitionEpoch",
    "ConsumerGroupTest.testDeletingMemberRemovesPartitionEpoch",
)
def test_a_partition_has_the_epoch_of_its_owner_also_until_it_is_revoked() -> None:
    group = Group()
    group.put(member(epoch=10, assigned=at(10, a=(1, 2, 3)), pending=at(10, b=(4, 5, 6))))
    assert group.owners(A, 1, 2, 3) == group.owners(B, 4, 5, 6) == {10}
    assert group.owners(C, 7, 8, 9) == {NOBODY}
    group.put(member(epoch=11, assigned=at(11, b=(1, 2, 3)), pending=at(10, c=(4, 5, 6))))
    assert group.owners(B, 1, 2, 3) == group.owners(C, 4, 5, 6) == {11}
    assert group.owners(A, 1, 2, 3) == group.owners(B, 4, 5, 6) == {NOBODY}
    group.remove("m")
    assert group.owners(B, 1, 2, 3) == group.owners(C, 4, 5, 6) == {NOBODY}


@pytest.mark.conformance("ConsumerGroupTest.testUpdatingMemberUpdatesPartitionEpochWhenPartitionIsReassignedBeforeBeingRevoked")
def test_a_partition_that_comes_back_before_it_was_revoked_keeps_its_owner() -> None:
    group = Group()
    group.put(member(epoch=10, pending=at(10, a=(1,))))
    assert group.owners(A, 1) == {10}
    group.put(member(epoch=11, assigned=at(11, a=(1,))))
    assert group.owners(A, 1) == {11}


@pytest.mark.conformance("ConsumerGroupTest.testWaitingOnUnreleasedPartition")
def test_a_member_waits_for_partitions_that_others_have_not_released() -> None:
    group = Group()
    waiting = member("m1", state=UNRELEASED, assigned=at(10, a=(1, 2, 3)), pending=at(10, b=(4, 5, 6)))
    group.replay(TARGET, "m1", target_value({A: {1, 2, 3}, C: {7, 8, 9}}))
    group.put(waiting)
    assert not group.state.waits_for_others(waiting)
    group.put(member("m2", pending=at(10, c=(7,))))
    assert group.state.waits_for_others(waiting)


# --- what is derived


@pytest.mark.conformance("ConsumerGroupTest.testGroupState")
def test_the_state_follows_from_epochs_and_members() -> None:
    group = Group()
    assert group.group.state_name == "Empty"
    group.put(member("m1", 1))
    group.epochs(2, 1)
    assert group.group.state_name == "Assigning"
    group.put(member("m2", 1))
    assert group.group.state_name == "Assigning"
    group.epochs(2, 2)
    assert group.group.state_name == "Reconciling"
    group.put(member("m1", 2))
    assert group.group.state_name == "Reconciling"
    group.put(member("m2", 2, state=UNREVOKED))
    assert group.group.state_name == "Reconciling"
    group.put(member("m2", 2))
    assert group.group.state_name == "Stable"
    group.remove("m1", "m2")
    assert group.group.state_name == "Empty"


@pytest.mark.conformance("ConsumerGroupTest.testPreferredServerAssignor")
def test_the_assignor_with_most_votes() -> None:
    def chosen(*votes: str | None) -> str:
        return Group().group.assignor([member(f"m{number}", assignor=vote) for number, vote in enumerate(votes)], "default")

    assert chosen() == chosen(None) == "default"
    assert chosen("range") == chosen("range", "range", "uniform") == "range"
    assert chosen(None, None, "uniform") == "uniform"


@pytest.mark.conformance(
    "ConsumerGroupTest.testComputeSubscribedTopicNames",
    "ConsumerGroupTest.testComputeSubscribedTopicNamesWithoutDeletedMembers",
    "ConsumerGroupTest.testComputeSubscribedRegularExpressions",
    "ConsumerGroupTest.testSubscribedRegularExpressionCount",
    "ConsumerGroupTest.testUpdateAndRemoveRegularExpression",
    "ConsumerGroupTest.testIsSubscribedToTopic",
)
def test_subscriptions_are_counted_by_name_and_by_expression() -> None:
    group = Group()
    first, second = member("m1", topics=frozenset({"foo", "bar"})), member("m2", topics=frozenset({"bar"}), regex="z.*")
    third = member("m3", regex="z.*")
    group.put(first, second, third)
    subscriptions = group.state.subscriptions
    assert subscriptions.names == {"foo": 1, "bar": 2}
    assert subscriptions.regexes == {"z.*": 2}
    assert subscriptions.topics({}) == {"foo", "bar"}, "until the expression is looked up"
    value = ConsumerGroupRegularExpressionValue(topics=("zar", "zoo"), version=5, timestamp_ms=7)
    group.replay(REGEX, "z.*", value)
    assert group.state.regexes == {"z.*": ResolvedRegex(frozenset({"zar", "zoo"}), 5, 7)}
    assert [group.group.is_subscribed_to(topic) for topic in ("foo", "zar", "other")] == [True, True, False]
    group.replay(REGEX, "z.*", replace(value, topics=("zar",), version=6))
    assert not group.group.is_subscribed_to("zoo")
    # What they are once a request is stored: of a new member, one that changed, and one that is gone.
    assert subscriptions.changed(None, member("m4", topics=frozenset({"new"}))).names == {"foo": 1, "bar": 2, "new": 1}
    assert subscriptions.changed(second, replace(second, topics=frozenset(), regex="")).regexes == {"z.*": 1}
    assert subscriptions.changed(first, None).names == {"bar": 1}
    assert subscriptions.names == {"foo": 1, "bar": 2}
    group.remove("m2", "m3")
    assert subscriptions.regexes == {}
    group.replay(REGEX, "z.*", None)
    assert group.state.regexes == {}
    assert not group.group.is_subscribed_to("zar")


@pytest.mark.conformance(
    "ConsumerGroupTest.testComputeMetadataHash",
    "ConsumerGroupTest.testComputeMetadataHashUseCacheData",
    "ConsumerGroupTest.testComputeMetadataHashIgnoreTopicHashIfItIsNotInMetadataImage",
    "GroupMetadataManagerTest.testTopicHashIsRemoveFromCacheIfNoGroupSubscribesIt",
    "GroupMetadataManagerTest.testRemoveTopicCleanupTopicHash",
)
def test_the_hash_is_of_the_topics_as_they_are() -> None:
    topics, hashes = ScenarioTopics(), TopicHashes()

    def of(*names: str) -> int:
        return hashes.of_group(set(names), topics.topics)

    topics.set({"foo": 3, "bar": 2})
    both, foo = of("foo", "bar"), of("foo")
    assert len({both, foo, 0}) == 3
    assert of("foo", "bar", "no-such-topic") == both
    assert of("foo", "bar") == both, "from the cache"
    assert of("no-such-topic") == of() == 0
    topics.set({"foo": 4, "bar": 2})
    assert of("foo", "bar") not in (both, 0), "a topic that grew is hashed again"
    topics.set({"bar": 2})
    assert of("foo", "bar") == of("bar") != both, "a topic that was deleted does not count"
    topics.set({"foo": 3, "bar": 2})
    assert of("foo", "bar") == both


# --- offsets

ASSIGNED = {"assigned": {A: {0: 3, 1: 9}}, "pending": {B: {0: 2}}}


def commit(topic_id: bytes, number: int, epoch: int, member_id: str = "m", *, version_9: bool = True) -> OffsetCommit:
    offset = OffsetToCommit(topic="t", partition=number, offset=1, leader_epoch=-1, metadata="", topic_id=topic_id)
    return OffsetCommit(
        reply_to=1,
        group_id="g",
        generation=epoch,
        member_id=member_id,
        instance_id=None,
        retention_ms=-1,
        knows_group_errors=version_9,
        offsets=(offset,),
    )


def in_transaction(commit: OffsetCommit, instance_id: str | None = None) -> TxnOffsetCommit:
    return TxnOffsetCommit(
        reply_to=1,
        group_id="g",
        generation=commit.generation,
        member_id=commit.member_id,
        instance_id=instance_id,
        producer=Producer(1, 0),
        offsets=commit.offsets,
    )


def decided(group: Group, command: OffsetCommit | TxnOffsetCommit) -> ErrorCode:
    context: Any = None  # which a consumer group does not need
    if isinstance(command, TxnOffsetCommit):
        return group.group.check_transactional_commit(context, command)
    return group.group.check_commit(context, command, OffsetsToCommit.of(command.offsets).topics)


@pytest.mark.conformance(
    "ConsumerGroupTest.testValidateOffsetCommit",
    "ConsumerGroupTest.testValidateOffsetCommitWithEpochValidation",
    "ConsumerGroupTest.testValidateOffsetCommitWithClassicProtocolMember",
    "ConsumerGroupTest.testValidateOffsetCommitWithUnassignedTopicOrPartition",
    "ConsumerGroupTest.testValidateTransactionalOffsetCommit",
)
@pytest.mark.parametrize(
    ("topic_id", "number", "epoch", "expected"),
    [
        (A, 0, 10, NONE),
        (C, 0, 10, NONE),  # with the epoch of now, everything
        (A, 0, 11, STALE),
        (A, 0, 3, NONE),  # with an older epoch, what the member already had then
        (A, 1, 9, NONE),
        (A, 1, 8, STALE),
        (A, 2, 9, STALE),
        (B, 0, 2, NONE),
        (B, 0, 1, STALE),
        (C, 0, 9, STALE),
        (A, 0, -1, STALE),
    ],
)
def test_commits_of_members(topic_id: bytes, number: int, epoch: int, expected: ErrorCode) -> None:
    group = Group()
    group.put(member("m", 10, **ASSIGNED), member("c", 10, classic=classic("range"), **ASSIGNED))
    of_classic = NONE if expected is NONE else ILLEGAL
    assert decided(group, commit(topic_id, number, epoch)) is expected
    assert decided(group, in_transaction(commit(topic_id, number, epoch))) is of_classic
    assert decided(group, commit(topic_id, number, epoch, "c")) is of_classic
    assert decided(group, in_transaction(commit(topic_id, number, epoch, "c"))) is of_classic


@pytest.mark.conformance("ConsumerGroupTest.testValidateOffsetCommit", "ConsumerGroupTest.testValidateTransactionalOffsetCommit")
def test_commits_of_others() -> None:
    group = Group()
    assert decided(group, commit(A, 0, -1, "")) is decided(group, in_transaction(commit(A, 0, -5, ""))) is NONE
    assert decided(group, commit(A, 0, 0, "")) is decided(group, in_transaction(commit(A, 0, 0, ""))) is UNKNOWN_MEMBER
    group.put(member("m"), member("c", classic=classic("range")))
    assert decided(group, commit(A, 0, 10, "other")) is decided(group, in_transaction(commit(A, 0, 10, "other"))) is UNKNOWN_MEMBER
    assert decided(group, commit(A, 0, -1, "")) is UNKNOWN_MEMBER
    assert decided(group, in_transaction(commit(A, 0, -1, ""))) is NONE, "a producer that does not say who consumes"
    assert decided(group, in_transaction(commit(A, 0, -2, ""))) is UNKNOWN_MEMBER
    assert decided(group, in_transaction(commit(A, 0, -1, ""), instance_id="i")) is UNKNOWN_MEMBER
    assert decided(group, commit(A, 0, 10, version_9=False)) is ErrorCode.UNSUPPORTED_VERSION
    assert decided(group, commit(A, 0, 10, "c", version_9=False)) is NONE


@pytest.mark.conformance("ConsumerGroupTest.testValidateOffsetFetch")
def test_fetches_have_the_members_epoch() -> None:
    group = Group()
    group.put(member("m"), member("c", classic=classic("range")))

    def error(member_id: str | None, epoch: int) -> ErrorCode:
        asked = OffsetFetch(reply_to=1, group_id="g", topics=None, require_stable=False, member_id=member_id, member_epoch=epoch)
        return group.group.check_fetch(asked)

    assert [error(None, -1), error("m", 10), error("m", 9), error("m", 11)] == [NONE, NONE, STALE, STALE]
    assert [error("c", 10), error("c", 9)] == [NONE, ILLEGAL]
    assert [error("other", 10), error("", -1)] == [UNKNOWN_MEMBER, UNKNOWN_MEMBER]


@pytest.mark.conformance("ConsumerGroupTest.testValidateDeleteGroup", "ConsumerGroupTest.testOffsetExpirationCondition")
def test_a_group_with_members_is_not_deleted_and_offsets_expire_by_their_commits() -> None:
    group = Group()
    assert group.group.delete_group_error is NONE
    assert (group.group.can_expire_offsets, group.group.empty_since_ms) == (True, None)
    group.put(member("m", 1))
    for epochs in ((1, 1), (2, 1), (2, 2)):
        group.epochs(*epochs)
        assert group.group.delete_group_error is ErrorCode.NON_EMPTY_GROUP


# --- views


@pytest.mark.conformance("ConsumerGroupTest.testAsListedGroup")
def test_a_group_as_it_is_listed() -> None:
    group = Group()
    assert (group.group.summary(0).protocol_type, group.group.summary(0).group_type, group.group.summary(0).state) == (
        "consumer",
        "consumer",
        "Empty",
    )
    group.put(member("m"))
    assert group.group.summary(0).state == "Reconciling"


# --- migration


@pytest.mark.conformance(
    "ConsumerGroupTest.testClassicMembersSupportedProtocols",
    "ConsumerGroupTest.testNumClassicProtocolMembers",
    "ConsumerGroupTest.testAllMembersUseClassicProtocolExcept",
)
def test_members_of_the_classic_protocol_are_counted_with_their_protocols() -> None:
    group = Group()
    counts = group.state.classic
    group.put(member("m1", classic=classic("range", "roundrobin")), member("m2", classic=classic("roundrobin", "sticky")), member("m3"))
    assert (counts.members, counts.protocols) == (2, {"range": 1, "roundrobin": 2, "sticky": 1})
    assert counts.support(["range", "roundrobin"])
    assert not counts.support(["range", "sticky"])
    group.put(member("m1"))
    assert (counts.members, counts.protocols) == (1, {"roundrobin": 1, "sticky": 1})
    group.remove("m2")
    assert (counts.members, counts.protocols) == (0, {})


@pytest.mark.conformance("ConsumerGroupTest.testCreateGroupTombstoneRecords")
def test_the_tombstones_of_a_group_in_kafkas_order() -> None:
    group = Group()
    group.put(member("m1"), member("m2", regex="f.*"))
    group.replay(TARGET, "m1", target_value({A: {1}}))
    group.replay(REGEX, "f.*", ConsumerGroupRegularExpressionValue(topics=("foo",), version=1, timestamp_ms=1))
    group.epochs(10, 10)
    tombstones = group.group.tombstones()
    assert {record.value for record in tombstones} == {None}
    assert [(record.record_type, record.name) for record in tombstones] == [
        (CURRENT, "m1"),
        (CURRENT, "m2"),
        (TARGET, "m1"),
        (TARGET, "m2"),
        (TARGET_EPOCH, ""),
        (MEMBER, "m1"),
        (MEMBER, "m2"),
        (REGEX, "f.*"),
        (PARTITION_METADATA, ""),
        (EPOCH, ""),
    ]
    replayed = ReplayedState(consumer_groups={"g": group.state})
    replayed.apply_all(tombstones)
    assert replayed == ReplayedState()


# --- replay

REPLAYED: Mapping[int, tuple[str, Any]] = {
    EPOCH: ("", ConsumerGroupMetadataValue(epoch=10, metadata_hash=7)),
    MEMBER: ("m", member(topics=frozenset({"foo"})).metadata_value()),
    TARGET_EPOCH: ("", TargetAssignmentMetadataValue(assignment_epoch=9, assignment_timestamp_ms=5)),
    TARGET: ("m", target_value({A: {0, 1}})),
    CURRENT: (
        "m",
        member(epoch=9, previous_member_epoch=8, state=UNREVOKED, assigned=at(9, a=(0,)), pending=at(8, b=(1,))).assignment_value(),
    ),
    REGEX: ("f.*", ConsumerGroupRegularExpressionValue(topics=("foo",), version=1, timestamp_ms=2)),
    PARTITION_METADATA: ("", object()),
}


def record(record_type: int, *, is_tombstone: bool = False) -> ConsumerGroupRecord:
    name, value = REPLAYED[record_type]
    return ConsumerGroupRecord(record_type=record_type, group_id="g", name=name, value=None if is_tombstone else value)


def replayed(*records: ConsumerGroupRecord) -> ReplayedState:
    state = ReplayedState()
    state.apply_all(records)
    return state


@pytest.mark.conformance(
    "GroupMetadataManagerTest.testReplayConsumerGroupMemberMetadata",
    "GroupMetadataManagerTest.testReplayConsumerGroupMetadata",
    "GroupMetadataManagerTest.testReplayConsumerGroupPartitionMetadata",
    "GroupMetadataManagerTest.testReplayConsumerGroupTargetAssignmentMember",
    "GroupMetadataManagerTest.testReplayConsumerGroupTargetAssignmentMetadata",
    "GroupMetadataManagerTest.testReplayConsumerGroupCurrentMemberAssignment",
    "GroupMetadataManagerTest.testReplayConsumerGroupRegularExpression",
)
@pytest.mark.parametrize("record_type", REPLAYED)
def test_each_record_alone_makes_the_group_and_the_member(record_type: int) -> None:
    group = replayed(record(record_type)).consumer_groups["g"]
    expected: dict[int, dict[str, Any]] = {
        EPOCH: {"epoch": 10, "metadata_hash": 7},
        MEMBER: {"members": {"m": ConsumerMember(member_id="m", topics=frozenset({"foo"}))}},
        TARGET_EPOCH: {"assignment_epoch": 9, "assigned_at_ms": 5},
        TARGET: {"targets": {"m": {A: frozenset({0, 1})}}},
        CURRENT: {
            "members": {"m": member(epoch=9, previous_member_epoch=8, state=UNREVOKED, assigned=at(9, a=(0,)), pending=at(8, b=(1,)))}
        },
        REGEX: {"regexes": {"f.*": ResolvedRegex(frozenset({"foo"}), 1, 2)}},
        PARTITION_METADATA: {"has_partition_metadata": True},
    }
    assert group == replace(ConsumerGroupState(), **expected[record_type])


@pytest.mark.conformance(
    "GroupMetadataManagerTest.testReplayConsumerGroupMemberMetadataTombstone",
    "GroupMetadataManagerTest.testReplayConsumerGroupMetadataTombstone",
    "GroupMetadataManagerTest.testReplayConsumerGroupPartitionMetadataTombstone",
    "GroupMetadataManagerTest.testReplayConsumerGroupPartitionMetadataTombstoneWithExistentGroup",
    "GroupMetadataManagerTest.testReplayConsumerGroupTargetAssignmentMemberTombstone",
    "GroupMetadataManagerTest.testReplayConsumerGroupTargetAssignmentMetadataTombstone",
    "GroupMetadataManagerTest.testReplayConsumerGroupCurrentMemberAssignmentTombstone",
    "GroupMetadataManagerTest.testReplayConsumerGroupRegularExpressionTombstone",
)
@pytest.mark.parametrize("record_type", REPLAYED)
def test_each_tombstone_takes_back_its_record_and_without_a_group_nothing(record_type: int) -> None:
    gone = record(record_type, is_tombstone=True)
    assert replayed(gone) == ReplayedState()
    left = replayed(record(record_type), gone).consumer_groups
    expected: dict[int, dict[str, Any]] = {
        TARGET_EPOCH: {"assignment_epoch": -1},
        CURRENT: {"members": {"m": ConsumerMember(member_id="m", member_epoch=-1)}},
    }
    assert left == ({} if record_type == EPOCH else {"g": replace(ConsumerGroupState(), **expected.get(record_type, {}))})


def test_assignments_of_older_brokers_have_the_members_epoch() -> None:
    """Without assignment epochs, or with another number of them than partitions."""
    for epochs in (None, (1,)):
        for member_epoch, expected in ((9, 9), (-2, 0)):
            value = replace(
                member(epoch=member_epoch).assignment_value(),
                assigned_partitions=(AssignedTopicPartitions(topic_id=A, partitions=(0, 1), assignment_epochs=epochs),),
            )
            assert ConsumerMember(member_id="m").with_assignment(value).assigned == at(expected, a=(0, 1))


def test_records_that_a_cleaning_left_out_are_not_needed() -> None:
    """The member that gave a partition up has no record of that any more: its new owner's counts (KAFKA-19862)."""
    group = Group()
    group.put(member("m1", 9, assigned=at(9, a=(0, 1))))
    group.put(member("m2", 11, assigned=at(11, a=(0,))))
    group.put(member("m1", 12, assigned=at(9, a=(1,))))
    assert [group.state.owner_epoch(A, number) for number in (0, 1)] == [11, 12]
    group.remove("m1")
    assert [group.state.owner_epoch(A, number) for number in (0, 1)] == [11, NOBODY]
