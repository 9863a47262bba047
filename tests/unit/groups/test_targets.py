"""The target assignment of a group: what the assignor is given, and the records of what it gives (Kafka: TargetAssignmentBuilder)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ottla.groups.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber
from ottla.groups.consumer.epochs import assign_targets
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.group_state import TARGET, TARGET_EPOCH, ResolvedRegex
from ottla.groups.consumer.member import ConsumerMember, Partitions, target_value
from ottla.groups.consumer.reconciliation import RequestRefused
from ottla.groups.group import CommandContext, CoordinatorState
from ottla.groups.log.records import ConsumerGroupRecord
from ottla.groups.settings import GroupSettings
from ottla.protocol.coordinator_records import TargetAssignmentMetadataValue
from ottla.protocol.errors import ErrorCode
from trials.scenarios.scenarios import ScenarioTopics

EPOCH, NOW_MS = 20, 1_234
Given = Mapping[str, tuple[int, ...]]


class Prepared(Assignor):
    """Gives what it is told, and remembers what it was asked."""

    name = "prepared"
    for_coordinator = True

    def __init__(self, gives: Mapping[str, Given]) -> None:
        self.gives = gives
        self.asked: dict[str, Subscriber] = {}
        self.partitions: Mapping[str, int] = {}

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        self.asked = {member.member_id: member for member in members}
        self.partitions = dict(partitions)
        return {member: {topic: list(numbers) for topic, numbers in of.items()} for member, of in self.gives.items()}


class Group:
    """A group with targets; `build` computes those of another epoch, of foo and bar with 6 partitions each."""

    def __init__(self, gives: Mapping[str, Given]) -> None:
        self.assignor = Prepared(gives)
        topics = self.topics = ScenarioTopics()
        topics.set({"foo": 6, "bar": 6})
        self.ids = {name: topic.topic_id for name, topic in topics.topics.items()}
        self.state = CoordinatorState(GroupSettings(consumer_assignors={"prepared": self.assignor}), topics)
        self.group = ConsumerGroup("g", self.state, now_ms=0)
        self.members: dict[str, ConsumerMember] = {}
        self.resolved: dict[str, ResolvedRegex] = {}

    def add(self, member_id: str, topics: str, has: Given | None = None, **values: Any) -> None:
        """A member, and its target of before, None for a new one."""
        self.members[member_id] = ConsumerMember(member_id=member_id, topics=frozenset(topics.split()), **values)
        if has is not None:
            self.group.durable.targets[member_id] = self.by_id(has)

    def by_id(self, given: Given) -> Partitions:
        return {self.ids[topic]: frozenset(numbers) for topic, numbers in given.items()}

    def build(self, targets: Mapping[str, Partitions] | None = None) -> tuple[dict[str, Partitions], list[str]]:
        """The targets, and the members with a record of it, in order; a record of the epoch follows these."""
        context = CommandContext(self.state, NOW_MS, NOW_MS)
        before = self.group.durable.targets if targets is None else targets
        made = assign_targets(context, self.group, EPOCH, self.members, before, self.resolved)
        *of_members, of_epoch = context.records
        assert of_epoch == ConsumerGroupRecord(
            record_type=TARGET_EPOCH,
            group_id="g",
            name="",
            value=TargetAssignmentMetadataValue(assignment_epoch=EPOCH, assignment_timestamp_ms=NOW_MS),
        )
        for record in of_members:
            assert isinstance(record, ConsumerGroupRecord)
            assert (record.record_type, record.value) == (TARGET, target_value(made[record.name]))
        return made, [record.name for record in of_members if isinstance(record, ConsumerGroupRecord)]


FIRST, SECOND, THIRD = {"foo": (0, 1), "bar": (0, 1)}, {"foo": (2, 3), "bar": (2, 3)}, {"foo": (4, 5), "bar": (4, 5)}
FRONT, BACK = {"foo": (0, 1, 2), "bar": (0, 1, 2)}, {"foo": (3, 4, 5), "bar": (3, 4, 5)}


def listed(given: Given) -> dict[str, list[int]]:
    """Partitions as the assignor is given them."""
    return {topic: list(numbers) for topic, numbers in given.items()}


@pytest.mark.conformance("TargetAssignmentBuilderTest.testEmpty")
def test_without_members_there_is_the_epoch_alone() -> None:
    assert Group({}).build() == ({}, [])


@pytest.mark.conformance("TargetAssignmentBuilderTest.testAssignmentHasNotChanged")
def test_members_whose_target_stays_have_no_record() -> None:
    group = Group({"m1": FRONT, "m2": BACK})
    group.add("m1", "foo bar zar", FRONT)
    group.add("m2", "foo bar zar", BACK, rack_id="r", instance_id="i")
    assert group.build() == ({"m1": group.by_id(FRONT), "m2": group.by_id(BACK)}, [])
    known = frozenset({"foo", "bar"})
    assert group.assignor.partitions == {"foo": 6, "bar": 6}
    assert group.assignor.asked == {
        "m1": Subscriber(member_id="m1", topics=known, owned=listed(FRONT)),
        "m2": Subscriber(member_id="m2", topics=known, owned=listed(BACK), rack="r", instance_id="i"),
    }


@pytest.mark.conformance("TargetAssignmentBuilderTest.testAssignmentSwapped")
def test_both_members_of_a_swap_have_a_record() -> None:
    group = Group({"m1": BACK, "m2": FRONT})
    group.add("m1", "foo bar", FRONT)
    group.add("m2", "foo bar", BACK)
    assert group.build() == ({"m1": group.by_id(BACK), "m2": group.by_id(FRONT)}, ["m1", "m2"])


@pytest.mark.conformance("TargetAssignmentBuilderTest.testNewMember")
def test_a_new_member_owned_nothing() -> None:
    group = Group({"m1": FIRST, "m2": SECOND, "m3": THIRD})
    group.add("m1", "foo bar", FRONT)
    group.add("m2", "foo bar", BACK)
    group.add("m3", "foo bar")
    _, recorded = group.build()
    assert recorded == ["m1", "m2", "m3"]
    assert group.assignor.asked["m3"].owned == {}


@pytest.mark.conformance("TargetAssignmentBuilderTest.testUpdateMember")
def test_a_member_that_subscribes_to_something_else_is_asked_for_as_it_is_now() -> None:
    group = Group({"m1": FIRST, "m2": SECOND, "m3": THIRD})
    group.add("m1", "foo bar", FIRST)
    group.add("m2", "foo bar", SECOND)
    group.add("m3", "bar zar", {"bar": (4, 5), "foo": (4,)})
    group.assignor.gives = {"m1": {"foo": (0, 1, 2), "bar": (0, 1)}, "m2": {"foo": (3, 4, 5), "bar": (2, 3)}, "m3": {"bar": (4, 5)}}
    made, recorded = group.build()
    assert recorded == ["m1", "m2", "m3"]
    assert group.assignor.asked["m3"].topics == {"bar"}
    assert group.assignor.asked["m3"].owned == {"bar": [4, 5], "foo": [4]}
    assert made["m3"] == group.by_id({"bar": (4, 5)})


@pytest.mark.conformance("TargetAssignmentBuilderTest.testPartialAssignmentUpdate")
def test_only_members_whose_target_changes_have_a_record() -> None:
    group = Group({"m1": FIRST, "m2": {"foo": (2, 3, 4), "bar": (2, 3, 4)}, "m3": {"foo": (5,), "bar": (5,)}})
    group.add("m1", "foo bar", FIRST)
    group.add("m2", "foo bar", SECOND)
    group.add("m3", "foo bar", THIRD)
    assert group.build()[1] == ["m2", "m3"]


@pytest.mark.conformance("TargetAssignmentBuilderTest.testDeleteMember")
def test_a_member_that_is_gone_is_not_asked_for() -> None:
    group = Group({"m1": FRONT, "m2": BACK})
    group.add("m1", "foo bar", FIRST)
    group.add("m2", "foo bar", SECOND)
    group.group.durable.targets["gone"] = group.by_id(THIRD)
    made, recorded = group.build()
    assert (set(made), recorded) == ({"m1", "m2"}, ["m1", "m2"])
    assert set(group.assignor.asked) == {"m1", "m2"}


@pytest.mark.conformance("TargetAssignmentBuilderTest.testReplaceStaticMember")
def test_a_static_member_with_another_id_brings_the_target_of_the_old_one() -> None:
    group = Group({"m1": FIRST, "m2": SECOND, "new": THIRD})
    group.add("m1", "foo bar", FIRST, instance_id="i1")
    group.add("m2", "foo bar", SECOND, instance_id="i2")
    group.add("new", "foo bar", instance_id="i3")
    targets = {**group.group.durable.targets, "new": group.by_id(THIRD)}
    made, recorded = group.build(targets)
    assert group.assignor.asked["new"].owned == listed(THIRD)
    assert recorded == ["new"], "which has no target of its own yet"
    assert made["new"] == group.by_id(THIRD)


@pytest.mark.conformance("TargetAssignmentBuilderTest.testRegularExpressions")
def test_topics_of_expressions_count_as_subscribed() -> None:
    group = Group({"m1": {"bar": (0, 1, 2)}, "m2": {"foo": tuple(range(6)), "bar": (3, 4, 5)}, "m3": {}})
    group.add("m1", "bar zar")
    group.add("m2", "", regex="f.*|b.*")
    group.add("m3", "", regex="not looked up")
    group.resolved["f.*|b.*"] = ResolvedRegex(frozenset({"foo", "bar", "gone"}), 1, 0)
    group.build()
    assert {member: asked.topics for member, asked in group.assignor.asked.items()} == {"m1": {"bar"}, "m2": {"foo", "bar"}, "m3": set()}


def asked_again(group: Group) -> dict[str, Subscriber]:
    """What the assignor is given in another target, of the members that are not the same objects as before."""
    before = group.assignor.asked
    group.build()
    return {member: asked for member, asked in group.assignor.asked.items() if asked is not before.get(member)}


def test_members_that_stay_as_they_are_are_described_once() -> None:
    group = Group({"m1": FRONT, "m2": BACK})
    group.add("m1", "foo bar", FRONT)
    group.add("m2", "foo bar", BACK)
    group.build()
    assert asked_again(group) == {}
    group.members["m1"] = replace(group.members["m1"], member_epoch=EPOCH)
    assert asked_again(group) == {}, "its epoch is nothing to the assignor"


CHANGES: dict[str, tuple[dict[str, Any], Subscriber]] = {
    "topics": ({"topics": frozenset({"foo"})}, Subscriber(member_id="m1", topics=frozenset({"foo"}), owned=listed(FRONT))),
    "rack": ({"rack_id": "r"}, Subscriber(member_id="m1", topics=frozenset({"foo", "bar"}), owned=listed(FRONT), rack="r")),
    "instance": ({"instance_id": "i"}, Subscriber(member_id="m1", topics=frozenset({"foo", "bar"}), owned=listed(FRONT), instance_id="i")),
    "regex": ({"regex": "b.*", "topics": frozenset()}, Subscriber(member_id="m1", topics=frozenset({"bar"}), owned=listed(FRONT))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_member_that_changes_is_described_anew(change: str) -> None:
    values, described = CHANGES[change]
    group = Group({"m1": FRONT, "m2": BACK})
    group.resolved["b.*"] = ResolvedRegex(frozenset({"bar"}), 1, 0)
    group.add("m1", "foo bar", FRONT)
    group.add("m2", "foo bar", BACK)
    group.build()
    group.members["m1"] = replace(group.members["m1"], **values)
    group.assignor.gives = {"m1": {}, "m2": {"foo": tuple(range(6)), "bar": tuple(range(6))}}
    assert asked_again(group) == {"m1": described}


def test_a_member_with_another_target_is_described_anew() -> None:
    group = Group({"m1": FRONT, "m2": BACK})
    group.add("m1", "foo bar", FRONT)
    group.add("m2", "foo bar", BACK)
    group.build()
    group.group.durable.targets["m1"] = group.by_id(FIRST)
    assert {member: asked.owned for member, asked in asked_again(group).items()} == {"m1": listed(FIRST)}


def test_changed_topics_and_expressions_count_in_the_next_target() -> None:
    group = Group({"m1": {"foo": tuple(range(6))}, "m2": {"bar": tuple(range(6))}})
    group.add("m1", "", {"foo": tuple(range(6)), "bar": tuple(range(6))}, regex="f.*")
    group.add("m2", "bar zar", {})
    group.resolved["f.*"] = ResolvedRegex(frozenset({"foo"}), 1, 0)
    group.build()
    group.resolved = {"f.*": ResolvedRegex(frozenset({"foo", "fee"}), 2, 0)}
    group.topics.set({"foo": 6, "fee": 2, "zar": 1})
    group.assignor.gives = {"m1": {"foo": tuple(range(6)), "fee": (0, 1)}, "m2": {"zar": (0,)}}
    made, _ = group.build()
    assert group.assignor.partitions == {"foo": 6, "fee": 2, "zar": 1}
    assert {member: asked.topics for member, asked in group.assignor.asked.items()} == {"m1": {"foo", "fee"}, "m2": {"zar"}}
    assert group.assignor.asked["m1"].owned == {"foo": list(range(6))}, "the topic bar is gone"
    assert made["m2"] == {group.topics.topics["zar"].topic_id: {0}}


def test_a_target_of_a_topic_that_is_gone_is_recorded_without_it() -> None:
    group = Group({"m1": {"foo": tuple(range(6))}})
    group.add("m1", "foo", {"foo": tuple(range(6)), "bar": (0,)})
    group.topics.set({"foo": 6})
    assert group.build() == ({"m1": group.by_id({"foo": tuple(range(6))})}, ["m1"])


@pytest.mark.conformance("GroupMetadataManagerTest.testPartitionAssignorExceptionOnRegularHeartbeat")
def test_an_assignor_that_fails_leaves_everything_as_it_was() -> None:
    group = Group({"m1": {"foo": (0,)}})  # which leaves partitions to nobody
    group.add("m1", "foo")
    context = CommandContext(group.state, NOW_MS, NOW_MS)
    with pytest.raises(RequestRefused) as refused:
        assign_targets(context, group.group, EPOCH, group.members, {}, {})
    assert (refused.value.error, refused.value.message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert context.records == []
    (line,) = context.log_lines
    assert line.startswith("[GroupId g] Failed to compute a new target assignment for epoch 20: the assignor prepared")
