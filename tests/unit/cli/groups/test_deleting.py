"""`ottla groups --delete` and `--delete-offsets` on a real broker."""

from collections.abc import Callable
from typing import Any

import pytest

Naming = Callable[[str], str]
NOT_FOUND = "org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist."
NOT_EMPTY = "org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty."
UNKNOWN = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this topic-partition."
SUBSCRIBED = (
    "org.apache.kafka.common.errors.GroupSubscribedToTopicException: Deleting offsets of a topic is forbidden while the consumer group is "
    "actively subscribed to it."
)
PARTLY = "\nError: Encountered some partition-level error, see the follow-up details.\n"


@pytest.mark.conformance("DeleteConsumerGroupsTest.testDeleteWithTopicOption")
def test_deleting_groups_takes_no_topic(groups: Any) -> None:
    ran = groups.run("--delete", "--group", "g", "--topic", "t")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("The consumer does not support topic-specific offset deletion from a consumer group.\n")


@pytest.mark.conformance("DeleteConsumerGroupsTest.testDeleteCmdNonExistingGroup", "DeleteConsumerGroupsTest.testDeleteNonExistingGroup")
def test_a_group_that_does_not_exist(groups: Any, name: Naming) -> None:
    never = name("never")
    failed = f"\nError: Deletion of some consumer groups failed:\n* Group '{never}' could not be deleted due to: {NOT_FOUND}\n"
    assert groups.run("--delete", "--group", never) == (0, failed, "")
    ran = groups.run("--delete", "--group", never, "--json")
    assert (ran.status, ran.document["groups"]) == (
        1,
        [{"group": never, "deleted": False, "error": "GROUP_ID_NOT_FOUND: The group id does not exist."}],
    )


@pytest.mark.conformance("DeleteConsumerGroupsTest.testDeleteNonEmptyGroup")
def test_a_group_with_members(groups: Any, member: Any, name: Naming) -> None:
    busy = name("busy")
    groups.members(busy, member("reader", {groups.topic(name("t")): [0]}))
    assert f"* Group '{busy}' could not be deleted due to: {NOT_EMPTY}\n" in groups.run("--delete", "--group", busy).out
    assert busy in groups.run("--list").out


@pytest.mark.conformance("DeleteConsumerGroupsTest.testDeleteEmptyGroup")
def test_an_empty_group(groups: Any, name: Naming) -> None:
    group = groups.commit(name("g"), groups.topic(name("t")), {0: 0})
    assert groups.run("--delete", "--group", group) == (0, f"Deletion of requested consumer groups ('{group}') was successful.\n", "")
    assert group not in groups.run("--list").out


@pytest.mark.conformance("DeleteConsumerGroupsTest.testDeleteCmdAllGroups")
def test_all_groups(new_groups: Any, member: Any) -> None:
    new_groups.topic("t")
    for group in ("b", "a"):
        new_groups.commit(group, "t", {0: 0})
    new_groups.members("connect", member("worker"), protocol_type="connect")
    ran = new_groups.run("--delete", "--all-groups")
    assert ran == (0, "Deletion of requested consumer groups ('a', 'b') was successful.\n", "")
    assert new_groups.run("--list").out == ""


@pytest.mark.conformance(
    "DeleteConsumerGroupsTest.testDeleteCmdWithMixOfSuccessAndError", "DeleteConsumerGroupsTest.testDeleteWithMixOfSuccessAndError"
)
def test_some_that_can_be_deleted_and_some_that_cannot(groups: Any, name: Naming) -> None:
    group, never = groups.commit(name("g"), groups.topic(name("t")), {0: 0}), name("never")
    ran = groups.run("--delete", "--group", never, "--group", group)
    assert f"* Group '{never}' could not be deleted due to: {NOT_FOUND}\n" in ran.out
    assert ran.out.endswith(f"\n\nThese consumer groups were deleted successfully: '{group}'\n")


@pytest.mark.conformance("DeleteConsumerGroupsTest.testDeleteWithUnrecognizedNewConsumerOption")
def test_an_option_that_is_none(groups: Any) -> None:
    assert groups.run("--new-consumer", "--delete", "--group", "g").status == 1


@pytest.mark.conformance("DeleteOffsetsConsumerGroupCommandIntegrationTest.testDeleteOffsetsNonExistingGroup")
def test_offsets_of_a_group_that_does_not_exist(groups: Any, name: Naming) -> None:
    topic = groups.topic(name("t"))
    ran = groups.run("--delete-offsets", "--group", name("never"), "--topic", topic)
    assert ran.out.startswith("\nError: The group id does not exist.\n\nTOPIC ")
    assert ran.out.splitlines()[-1].split(maxsplit=2) == [topic, "0", f"Error: {NOT_FOUND}"]


@pytest.mark.conformance(
    "DeleteOffsetsConsumerGroupCommandIntegrationTest.testDeleteOffsetsOfEmptyConsumerGroupWithTopicPartition",
    "DeleteOffsetsConsumerGroupCommandIntegrationTest.testDeleteOffsetsOfEmptyConsumerGroupWithTopicOnly",
)
def test_offsets_of_a_group_without_members(groups: Any, name: Naming) -> None:
    topic = groups.topic(name("t"), partitions=3)
    group = groups.commit(name("g"), topic, {0: 0, 1: 0, 2: 0})
    ran = groups.run("--delete-offsets", "--group", group, "--topic", f"{topic}:1")
    assert ran.out.startswith(f"Request succeeded for deleting offsets from group {group}.\n\nTOPIC ")
    assert ran.rows[1:] == [[topic, "1", "Successful"]]
    assert sorted(groups.committed(group)) == [(topic, 0), (topic, 2)]
    ran = groups.run("--delete-offsets", "--group", group, "--topic", topic, "--json")
    deleted = {"topic": topic, "deleted": True, "error": None}
    assert ran.document == {"group": group, "partitions": [deleted | {"partition": number} for number in range(3)]}
    assert groups.committed(group) == {}


@pytest.mark.conformance(
    "DeleteOffsetsConsumerGroupCommandIntegrationTest.testDeleteOffsetsOfStableConsumerGroupWithTopicPartition",
    "DeleteOffsetsConsumerGroupCommandIntegrationTest.testDeleteOffsetsOfStableConsumerGroupWithTopicOnly",
)
@pytest.mark.parametrize("partition", ["", ":0"])
def test_offsets_of_a_topic_that_is_being_read(groups: Any, member: Any, name: Naming, partition: str) -> None:
    topic, other, group = groups.topic(name("t")), groups.topic(name("other")), name("g")
    groups.commit(groups.commit(group, topic, {0: 0}), other, {0: 0})
    groups.members(group, member("reader", {topic: [0]}))
    ran = groups.run("--delete-offsets", "--group", group, "--topic", topic + partition, "--topic", other)
    assert ran.out.startswith(PARTLY)
    assert sorted(line.split(maxsplit=2) for line in ran.out.splitlines()[-2:]) == sorted(
        [[topic, "0", f"Error: {SUBSCRIBED}"], [other, "0", "Successful     "]]
    )
    assert groups.committed(group) == {(topic, 0): 0}


@pytest.mark.conformance(
    "DeleteOffsetsConsumerGroupCommandIntegrationTest.testDeleteOffsetsOfStableConsumerGroupWithUnknownTopicPartition",
    "DeleteOffsetsConsumerGroupCommandIntegrationTest.testDeleteOffsetsOfStableConsumerGroupWithUnknownTopicOnly",
    "DeleteOffsetsConsumerGroupCommandIntegrationTest.testDeleteOffsetsOfEmptyConsumerGroupWithUnknownTopicPartition",
    "DeleteOffsetsConsumerGroupCommandIntegrationTest.testDeleteOffsetsOfEmptyConsumerGroupWithUnknownTopicOnly",
)
@pytest.mark.parametrize("is_stable", [True, False], ids=["stable", "empty"])
@pytest.mark.parametrize(("partition", "shown", "summary"), [(":1", "1", PARTLY), ("", "-", "Request succeeded")])
def test_offsets_of_a_topic_that_does_not_exist(
    groups: Any, member: Any, name: Naming, is_stable: bool, partition: str, shown: str, summary: str
) -> None:
    topic, group = groups.topic(name("t")), name("g")
    groups.commit(group, topic, {0: 0})
    if is_stable:
        groups.members(group, member("reader", {topic: [0]}))
    ran = groups.run("--delete-offsets", "--group", group, "--topic", f"nope{partition}")
    assert ran.out.startswith(summary)
    assert ran.out.splitlines()[-1].split(maxsplit=2) == ["nope", shown, f"Error: {UNKNOWN}"]
    assert groups.committed(group) == {(topic, 0): 0}


def test_rows_are_sorted_by_name_and_number_as_text(groups: Any, name: Naming) -> None:
    topic = groups.topic(name("t"), partitions=11)
    group = groups.commit(name("g"), topic, {0: 0})
    ran = groups.run("--delete-offsets", "--group", group, "--topic", topic)
    assert [row[1] for row in ran.rows[1:]] == ["0", "1", "10", "2", "3", "4", "5", "6", "7", "8", "9"]
