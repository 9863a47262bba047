"""Rows of offsets: which there are, in which order, with which lag."""

from ottla.cli.groups.offset_rows import assigned_partitions, offset_rows, wanted_partitions
from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.values import CommittedOffset, DescribedGroup, DescribedMember
from ottla.core.model import TopicPartition
from ottla.testing.kit.consumer_protocol import encode_assignment


def a_member(name: str, assignment: bytes) -> DescribedMember:
    return DescribedMember(member_id=name, instance_id=None, client_id=f"{name}-client", host="/h", assignment_bytes=assignment)


def a_group(*members: DescribedMember) -> DescribedGroup:
    node = BrokerEndpoint(1, "h", 1)
    return DescribedGroup(
        group_id="g", kind="classic", protocol_type="consumer", state="Stable", assignor="", coordinator=node, members=members
    )


def test_members_with_most_partitions_first_then_partitions_without_a_member() -> None:
    group = a_group(a_member("few", encode_assignment({"t": [1]})), a_member("many", encode_assignment({"u": [0], "t": [2, 0]})))
    committed = {TopicPartition("t", 0): CommittedOffset(4, 7), TopicPartition("old", 0): CommittedOffset(1)}
    ends = {TopicPartition("t", 0): 9, TopicPartition("t", 1): 3, TopicPartition("t", 2): None, TopicPartition("u", 0): 0}
    ends[TopicPartition("old", 0)] = 1
    assert wanted_partitions(group, committed) == set(ends)
    rows = offset_rows(group, committed, ends)
    assert [(row.topic, row.partition, row.consumer_id) for row in rows] == [
        ("t", 0, "many"),
        ("t", 2, "many"),
        ("u", 0, "many"),
        ("t", 1, "few"),
        ("old", 0, None),
    ]
    assert [(row.offset, row.log_end_offset, row.lag, row.leader_epoch) for row in rows] == [
        (4, 9, 5, 7),
        (None, None, None, None),
        (None, 0, None, None),
        (None, 3, None, None),
        (1, 1, 0, None),
    ]


def test_the_lag_of_a_commit_behind_the_end_is_negative_as_in_kafka() -> None:
    partition = TopicPartition("t", 0)
    (row,) = offset_rows(a_group(), {partition: CommittedOffset(12)}, {partition: 10})
    assert row.lag == -2


def test_bytes_that_are_no_assignment_assign_nothing() -> None:
    assert assigned_partitions(a_member("m", b"\x00\x00\xff")) == {}
    assert assigned_partitions(a_member("m", b"")) == {}
