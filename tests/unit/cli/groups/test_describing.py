"""`ottla groups --list` and `--describe`: rows, order, and refusals."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ottla.cli.clusters import CommandFailed, UsageProblem
from ottla.cli.groups.describing import assignment_text, describe_groups, offset_rows, parse_states, parse_types
from ottla.cli.groups.options import GroupsOptions, Transcript
from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.values import CommittedOffset, DescribedGroup, DescribedMember, DescribedTopic, Failure
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from tests.support.kit.consumer_protocol import encode_assignment


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
    assert group.partitions | set(committed) == set(ends)
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
    assert a_member("m", b"\x00\x00\xff").partitions == {}
    assert a_member("m", b"").partitions == {}


SUB_ACTIONS = ([], ["--offsets"], ["--members"], ["--members", "--verbose"], ["--state"])
Naming = Callable[[str], str]


class ToldAdmin:
    """An administrator with prepared answers, which records the calls."""

    def __init__(self, groups: Mapping[str, Any], committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
        self.groups = groups
        self.offsets = committed
        self.ends = ends
        self.asked: list[Any] = []

    def list_groups(self) -> list[Any]:
        return list(self.groups.values())

    def describe_groups(self, names: Any) -> Any:
        self.asked.append(("describe", list(names)))
        return {name: self.groups[name] for name in names}

    def committed(self, names: Any) -> Any:
        self.asked.append(("committed", list(names)))
        return {name: {partition: CommittedOffset(offset, 3) for partition, offset in self.offsets.items()} for name in names}

    def describe_topics(self, names: Any) -> Any:
        return {name: DescribedTopic(name, {0: 1, 1: 1, 2: None}) for name in names}

    def list_offsets(self, partitions: Any, timestamp: int) -> Any:
        self.asked.append(("list_offsets", list(partitions), timestamp))
        return {partition: self.ends[partition] for partition in partitions}

    def last_stable_offsets(self, partitions: Any) -> Any:
        self.asked.append(("last_stable_offsets", list(partitions)))
        return {partition: self.ends[partition] for partition in partitions}

    def first_open_transactions(self, partitions: Any) -> Any:
        assert not partitions, "every partition is stable"
        return {}


def a_group_describing(*members: DescribedMember, **changes: Any) -> DescribedGroup:
    values = {"group_id": "g", "kind": "consumer", "protocol_type": "consumer", "state": "Stable", "assignor": "uniform"}
    return DescribedGroup(**values | {"coordinator": BrokerEndpoint(1, "host", 9092), "members": members} | changes)


def describe(admin: ToldAdmin, *flags: str) -> Transcript:
    transcript = Transcript()
    options = GroupsOptions(frozenset({"describe", *flags}), {"group": tuple(admin.groups)})
    describe_groups(admin, options, transcript)  # type: ignore[arg-type]
    return transcript


@pytest.mark.conformance(
    "DescribeConsumerGroupTest.testDescribeNonExistingGroup",
    "DescribeConsumerGroupTest.testDescribeOffsetsOfNonExistingGroup",
    "DescribeConsumerGroupTest.testDescribeMembersOfNonExistingGroup",
    "DescribeConsumerGroupTest.testDescribeStateOfNonExistingGroup",
)
@pytest.mark.parametrize("options", SUB_ACTIONS, ids=" ".join)
def test_a_group_that_does_not_exist(groups: Any, name: Naming, options: list[str]) -> None:
    there = groups.commit(name("g"), groups.topic(name("t")), {0: 0})
    never = name("never")
    sentence = (
        f"Executing consumer group command failed due to org.apache.kafka.common.errors.GroupIdNotFoundException: Group {never} not found."
    )
    assert groups.run("--describe", "--group", there, "--group", never, *options) == (0, f"\nError: {sentence}\n", "")
    assert groups.run("--describe", "--group", never, *options, "--json")[:2] == (1, f'{{\n  "errors": [\n    "{sentence}"\n  ]\n}}\n')


@pytest.mark.conformance(
    "DescribeConsumerGroupTest.testDescribeExistingGroupWithNoMembers",
    "DescribeConsumerGroupTest.testDescribeOffsetsOfExistingGroupWithNoMembers",
    "DescribeConsumerGroupTest.testDescribeMembersOfExistingGroupWithNoMembers",
    "DescribeConsumerGroupTest.testDescribeStateOfExistingGroupWithNoMembers",
    "DescribeConsumerGroupTest.testDescribeSimpleConsumerGroup",
)
def test_a_group_without_members(groups: Any, name: Naming) -> None:
    topic = groups.topic(name("t"), partitions=2, records=5)
    group = groups.commit(name("g"), topic, {1: 2})
    no_members = f"\nConsumer group '{group}' has no active members.\n"
    for options in ([], ["--offsets"]):
        ran = groups.run("--describe", "--group", group, *options)
        assert (ran.rows, ran.err) == ([[group, topic, "1", "2", "5", "3", "-", "-", "-"]], no_members)
    ran = groups.run("--describe", "--group", group, "--members")
    assert (ran.titles, ran.rows, ran.err) == (["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"], [], no_members)
    ran = groups.run("--describe", "--group", group, "--state")
    assert (ran.rows, ran.err) == ([[group, groups.servers, "(1)", "-", "Empty", "0"]], no_members)


@pytest.mark.conformance(
    "DescribeConsumerGroupTest.testDescribeWithConsumersWithoutAssignedPartitions",
    "DescribeConsumerGroupTest.testDescribeOffsetsWithConsumersWithoutAssignedPartitions",
    "DescribeConsumerGroupTest.testDescribeMembersWithConsumersWithoutAssignedPartitions",
    "DescribeConsumerGroupTest.testDescribeStateWithConsumersWithoutAssignedPartitions",
)
def test_members_without_partitions(groups: Any, member: Any, name: Naming) -> None:
    topic, group = groups.topic(name("t")), name("g")
    busy, idle = groups.members(group, member("busy", {topic: [0]}), member("idle", topics=[topic]))
    offsets = groups.run("--describe", "--group", group)
    assert offsets.rows == [[group, topic, "0", "-", "0", "-", busy, "/127.0.0.1", "busy"]]
    members = groups.run("--describe", "--group", group, "--members", "--verbose")
    rows = [
        [group, busy, "/127.0.0.1", "busy", "1", "-", f"{topic}:0", "-", "-"],
        [group, idle, "/127.0.0.1", "idle", "0", "-", "-", "-", "-"],
    ]
    assert sorted(members.rows) == sorted(rows)
    assert groups.run("--describe", "--group", group, "--state").rows == [[group, groups.servers, "(1)", "range", "Stable", "2"]]


@pytest.mark.conformance(
    "DescribeConsumerGroupTest.testDescribeWithMultiPartitionTopicAndMultipleConsumers",
    "DescribeConsumerGroupTest.testDescribeOffsetsWithMultiPartitionTopicAndMultipleConsumers",
    "DescribeConsumerGroupTest.testDescribeMembersWithMultiPartitionTopicAndMultipleConsumers",
    "DescribeConsumerGroupTest.testDescribeStateWithMultiPartitionTopicAndMultipleConsumers",
)
def test_members_with_most_partitions_come_first(groups: Any, member: Any, name: Naming) -> None:
    topic, group = groups.topic(name("t"), partitions=3, records=4), name("g")
    few, many = groups.members(group, member("few", {topic: [1]}), member("many", {topic: [2, 0]}))
    offsets = groups.run("--describe", "--group", group)
    assert [row[2:3] + row[-3:] for row in offsets.rows] == [
        ["0", many, "/127.0.0.1", "many"],
        ["2", many, "/127.0.0.1", "many"],
        ["1", few, "/127.0.0.1", "few"],
    ]
    members = groups.run("--describe", "--group", group, "--members", "--verbose")
    assert {row[1]: row[6] for row in members.rows} == {few: f"{topic}:1", many: f"{topic}:0,2"}
    assert groups.run("--describe", "--group", group, "--state").rows[0][-2:] == ["Stable", "2"]


@pytest.mark.conformance(
    "DescribeConsumerGroupTest.testDescribeGroupWithShortInitializationTimeout",
    "DescribeConsumerGroupTest.testDescribeGroupOffsetsWithShortInitializationTimeout",
    "DescribeConsumerGroupTest.testDescribeGroupMembersWithShortInitializationTimeout",
    "DescribeConsumerGroupTest.testDescribeGroupStateWithShortInitializationTimeout",
)
@pytest.mark.parametrize("options", SUB_ACTIONS, ids=" ".join)
def test_a_time_that_is_too_short(groups: Any, options: list[str]) -> None:
    ran = groups.run("--describe", "--group", "g", "--timeout", "1", *options)
    assert re.search(r"TimeoutException: Timed out waiting for a node assignment\. Call: describeConsumerGroups", ran.out)


@pytest.mark.conformance(
    "DescribeConsumerGroupTest.testDescribeGroupOffsets", "DescribeConsumerGroupTest.testDescribeOffsetsOfExistingGroup"
)
def test_offsets_of_a_group_at_work(groups: Any, member: Any, name: Naming) -> None:
    topic, group = groups.topic(name("t"), records=9), name("g")
    groups.commit(group, topic, {0: 4})
    (reader,) = groups.members(group, member("reader", {topic: [0]}))
    ran = groups.run("--describe", "--group", group)
    assert ran.titles == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]
    assert (ran.rows, ran.err) == ([[group, topic, "0", "4", "9", "5", reader, "/127.0.0.1", "reader"]], "")
    verbose = groups.run("--describe", "--group", group, "--verbose")
    assert verbose.titles[2:5] == ["PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET"]
    assert verbose.rows[0][2:5] == ["0", "-", "4"]
    (row,) = groups.run("--describe", "--group", group, "--json").document["groups"][0]["partitions"]
    assert row | {"consumer_id": ""} == {
        "topic": topic,
        "partition": 0,
        "leader_epoch": None,
        "offset": 4,
        "log_end_offset": 9,
        "lag": 5,
        "consumer_id": "",
        "host": "/127.0.0.1",
        "client_id": "reader",
    }


@pytest.mark.conformance(
    "DescribeConsumerGroupTest.testDescribeGroupMembers", "DescribeConsumerGroupTest.testDescribeMembersOfExistingGroup"
)
def test_members_of_a_group_at_work(groups: Any, member: Any, name: Naming) -> None:
    topic, group = groups.topic(name("t")), name("g")
    (reader,) = groups.members(group, member("reader", {topic: [0]}))
    ran = groups.run("--describe", "--group", group, "--members")
    assert ran.titles == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    assert ran.rows == [[group, reader, "/127.0.0.1", "reader", "1"]]
    (shown,) = groups.run("--describe", "--group", group, "--members", "--json").document["groups"][0]["members"]
    assert (shown["consumer_id"], shown["assignment"]) == (reader, {topic: [0]})


def test_static_members_have_a_column_more(groups: Any, member: Any, name: Naming) -> None:
    topic, group = groups.topic(name("t")), name("g")
    (reader,) = groups.members(group, member("reader", {topic: [0]}, "instance-1"))
    ran = groups.run("--describe", "--group", group, "--members")
    assert ran.titles == ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    assert ran.rows == [[group, reader, "instance-1", "/127.0.0.1", "reader", "1"]]


@pytest.mark.conformance("DescribeConsumerGroupTest.testDescribeGroupMemberWithMigration")
def test_members_of_a_group_on_its_way_to_the_new_protocol() -> None:
    old = DescribedMember(
        member_id="a", instance_id=None, client_id="c", host="/h", assigned={"t": (1,)}, target={}, epoch=4, is_upgraded=False
    )
    new = DescribedMember(
        member_id="b", instance_id=None, client_id="c", host="/h", assigned={}, target={"t": (0,)}, epoch=5, is_upgraded=True
    )
    admin = ToldAdmin({"g": a_group_describing(old, new, target_epoch=5, group_epoch=6)}, {}, {})
    title, *rows = [line.split() for line in describe(admin, "members", "verbose").out if line]
    assert title[-5:] == ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", "UPGRADED"]
    assert [row[-5:] for row in rows] == [["4", "t:1", "5", "-", "false"], ["5", "-", "5", "t:0", "true"]]
    alone = ToldAdmin({"g": a_group_describing(new, target_epoch=5)}, {}, {})
    assert "UPGRADED" not in "".join(describe(alone, "members", "verbose").out)
    state = describe(admin, "state", "verbose").out[-1].split()
    assert state == ["g", "host:9092", "(1)", "uniform", "Stable", "6", "5", "2"]


@pytest.mark.conformance(
    "DescribeConsumerGroupTest.testDescribeGroupState",
    "DescribeConsumerGroupTest.testDescribeStateOfExistingGroup",
    "DescribeConsumerGroupTest.testDescribeStateOfExistingGroupWithNonDefaultAssignor",
)
@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_state_of_a_group_at_work(groups: Any, member: Any, name: Naming, assignor: str) -> None:
    topic, group = groups.topic(name("t")), name("g")
    groups.members(group, member("reader", {topic: [0]}), protocol=assignor)
    ran = groups.run("--describe", "--group", group, "--state")
    assert ran.titles == ["GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    assert (ran.rows, ran.err) == ([[group, groups.servers, "(1)", assignor, "Stable", "1"]], "")
    verbose = groups.run("--describe", "--group", group, "--state", "--verbose")
    assert verbose.rows == [[group, groups.servers, "(1)", assignor, "Stable", "-", "-", "1"]]
    (shown,) = groups.run("--describe", "--group", group, "--state", "--json").document["groups"]
    assert (shown["state"], shown["coordinator"]["broker_id"], shown["assignment_strategy"]) == ("Stable", 1, assignor)


def test_a_group_that_rebalances(groups: Any, member: Any, name: Naming) -> None:
    topic, group = groups.topic(name("t")), name("g")
    groups.members(group, member("reader", {topic: [0]}))
    groups.rebalancing(group)
    ran = groups.run("--describe", "--group", group, "--state")
    assert (ran.rows[0][-2:], ran.err) == (["PreparingRebalance", "2"], f"\nWarning: Consumer group '{group}' is rebalancing.\n")


@pytest.mark.conformance("DescribeConsumerGroupTest.testDescribeExistingGroups")
def test_several_groups_sorted_each_once(groups: Any, member: Any, name: Naming) -> None:
    topic = groups.topic(name("t"))
    last, first = groups.commit("z" + name("g"), topic, {0: 0}), groups.commit("a" + name("g"), topic, {0: 0})
    for options in SUB_ACTIONS[:2]:
        ran = groups.run("--describe", "--group", last, "--group", first, "--group", last, *options)
        assert [row[0] for row in ran.rows] == [first, last]
    assert ran.out.count("GROUP ") == 2


@pytest.mark.conformance("DescribeConsumerGroupTest.testDescribeAllExistingGroups")
def test_all_groups(new_groups: Any, member: Any) -> None:
    new_groups.topic("t")
    new_groups.commit("simple", "t", {0: 0})
    new_groups.members("stable", member("reader", {"t": [0]}))
    new_groups.members("connect", member("worker"), protocol_type="connect")
    for options in SUB_ACTIONS[:2] + SUB_ACTIONS[-1:]:
        assert [row[0] for row in new_groups.run("--describe", "--all-groups", *options).rows] == ["simple", "stable"]
    refused = new_groups.run("--describe", "--group", "connect")
    assert "IllegalArgumentException: GroupId connect is not a consumer group (connect)." in refused.out


@pytest.mark.conformance("DescribeConsumerGroupTest.testDescribeNonOffsetCommitGroup")
def test_a_partition_without_a_commit(groups: Any, member: Any, name: Naming) -> None:
    topic, group = groups.topic(name("t"), records=3), name("g")
    groups.members(group, member("reader", {topic: [0]}))
    (row,) = groups.run("--describe", "--group", group).rows
    assert row[3:6] == ["-", "3", "-"]


def test_a_topic_that_is_gone(groups: Any, name: Naming) -> None:
    topic, kept = groups.topic(name("t")), groups.topic(name("kept"))
    group = groups.commit(groups.commit(name("g"), topic, {0: 0}), kept, {0: 0})
    groups.delete_topic(topic)
    assert [row[1] for row in groups.run("--describe", "--group", group).rows] == [kept]


@pytest.mark.conformance("DescribeConsumerGroupTest.testDescribeWithUnrecognizedNewConsumerOption")
def test_an_option_that_is_none(groups: Any) -> None:
    assert groups.run("--new-consumer", "--describe", "--group", "g").status == 1


@pytest.mark.conformance("DescribeConsumerGroupTest.testPrintVersion")
def test_the_version(groups: Any) -> None:
    from ottla import __version__

    assert groups.run("--describe", "--group", "g", "--version") == (0, f"{__version__}\n", "")


@pytest.mark.conformance("ConsumerGroupServiceTest.testAdminRequestsForDescribeOffsets")
def test_what_is_asked_for_offsets() -> None:
    zero, one, two = (TopicPartition("t", number) for number in range(3))
    reader = DescribedMember(member_id="m", instance_id=None, client_id="c", host="/h", assigned={"t": (0, 2)})
    admin = ToldAdmin({"g": a_group_describing(reader)}, {one: 5}, {zero: 9, one: 8})
    rows = [line.split() for line in describe(admin, "verbose").out[2:]]
    asked = [("describe", ["g"]), ("committed", ["g"]), ("list_offsets", [zero, one], -1), ("last_stable_offsets", [one])]
    assert admin.asked == asked, "each once, and no leader no question; an open transaction matters where there is a lag"
    assert rows == [
        ["g", "t", "0", "-", "-", "9", "-", "m", "/h", "c"],
        ["g", "t", "2", "-", "-", "-", "-", "m", "/h", "c"],
        ["g", "t", "1", "3", "5", "8", "3", "-", "-", "-"],
    ]
    assert two not in admin.ends


@pytest.mark.conformance("ConsumerGroupServiceTest.testAdminRequestsForDescribeNegativeOffsets")
def test_a_negative_offset_is_none() -> None:
    zero = TopicPartition("t", 0)
    admin = ToldAdmin({"g": a_group_describing(state="Empty")}, {zero: -1}, {zero: 9})
    assert describe(admin).out[-1].split() == ["g", "t", "0", "-", "9", "-", "-", "-", "-"]


def test_a_dead_group_of_an_older_broker_and_a_state_that_is_none() -> None:
    admin = ToldAdmin({"g": a_group_describing(state="Dead")}, {}, {})
    assert describe(admin).out == ["", "Error: Consumer group 'g' does not exist."]
    with pytest.raises(CommandFailed, match="Expected a valid consumer group state, but found 'Odd'"):
        describe(ToldAdmin({"g": a_group_describing(state="Odd")}, {}, {}))


def test_a_refusal_names_kafkas_exception() -> None:
    admin = ToldAdmin({"g": Failure(ErrorCode.GROUP_AUTHORIZATION_FAILED)}, {}, {})
    with pytest.raises(CommandFailed, match=r"errors\.GroupAuthorizationException: Group authorization failed\."):
        describe(admin)


def test_assignments_as_text() -> None:
    assert assignment_text({"b": (2, 0, 10), "a": (1,), "none": ()}) == "a:1;b:0,2,10"
    assert assignment_text({}) is None


@pytest.fixture
def listed(new_groups: Any, member: Any) -> Any:
    """A broker with a simple group, a stable one, and one of another kind."""
    new_groups.topic("t")
    new_groups.commit("simple", "t", {0: 0})
    new_groups.members("stable", member("reader", {"t": [0]}))
    new_groups.members("connect", member("worker"), protocol_type="connect")
    return new_groups


@pytest.mark.conformance(
    "ListConsumerGroupTest.testListConsumerGroupsWithoutFilters", "ListConsumerGroupTest.testListGroupCommandClassicProtocol"
)
def test_names_alone_sorted_and_only_groups_of_consumers(listed: Any) -> None:
    assert listed.run("--list") == (0, "simple\nstable\n", "")


@pytest.mark.conformance("ListConsumerGroupTest.testListConsumerGroupsWithStates")
def test_states(listed: Any) -> None:
    ran = listed.run("--list", "--state")
    assert ran.titles == ["GROUP", "STATE"]
    assert ran.rows == [["simple", "Empty"], ["stable", "Stable"]]
    assert listed.run("--list", "--state", "sTaBlE").rows == [["stable", "Stable"]]
    assert listed.run("--list", "--state", "Empty, Stable").rows == [["simple", "Empty"], ["stable", "Stable"]]
    assert listed.run("--list", "--state", "PreparingRebalance").rows == []
    assert listed.run("--list", "--state=").rows == [["simple", "Empty"], ["stable", "Stable"]]


@pytest.mark.conformance("ListConsumerGroupTest.testListConsumerGroupsWithTypesClassicProtocol")
def test_types(listed: Any) -> None:
    ran = listed.run("--list", "--type")
    assert ran.titles == ["GROUP", "TYPE"]
    assert ran.rows == [["simple", "Classic"], ["stable", "Classic"]]
    assert listed.run("--list", "--type", "classic").rows == ran.rows
    assert listed.run("--list", "--type", "consumer").rows == []
    assert listed.run("--list", "--type", "--state", "empty").rows == [["simple", "Classic", "Empty"]]


def test_json(listed: Any) -> None:
    expected = [{"group": "simple", "type": "Classic", "state": "Empty"}, {"group": "stable", "type": "Classic", "state": "Stable"}]
    assert listed.run("--list", "--json").document == {"groups": expected}


def test_the_name_column_is_ten_wider_than_the_longest_name(groups: Any, name: Callable[[str], str]) -> None:
    group = groups.commit(name("g" * 40), groups.topic(name("t")), {0: 0})
    lines = groups.run("--list", "--state").out.splitlines()
    assert lines[0] == f"{'GROUP':{len(group) + 10}} {'STATE':20}"
    assert f"{group}{' ' * 11}{'Empty':20}" in lines


@pytest.mark.conformance("ListConsumerGroupTest.testListWithUnrecognizedNewConsumerOption")
def test_an_option_that_is_none_listing(groups: Any) -> None:
    ran = groups.run("--new-consumer", "--list")
    assert (ran.status, ran.out) == (1, "")
    assert "No such option" in ran.err


@pytest.mark.conformance("ListConsumerGroupTest.testConsumerGroupStatesFromString")
def test_states_from_text() -> None:
    assert parse_states("Stable") == ["Stable"]
    assert parse_states("stable, PreparingRebalance") == ["Stable", "PreparingRebalance"]
    assert parse_states("Dead,CompletingRebalance") == ["Dead", "CompletingRebalance"]
    assert parse_states("assigning, RECONCILING") == ["Assigning", "Reconciling"]
    for wrong in ("bad, wrong", "  bad, Stable", "   ,   ,", "Unknown"):
        with pytest.raises(UsageProblem, match="Invalid state list"):
            parse_states(wrong)


@pytest.mark.conformance("ListConsumerGroupTest.testConsumerGroupTypesFromString")
def test_types_from_text() -> None:
    assert parse_types("consumer") == ["Consumer"]
    assert parse_types("Consumer, classic") == ["Consumer", "Classic"]
    for wrong in ("bad, wrong", "  bad, generic", "   ,   ,", "Share", "Streams", "unknown"):
        with pytest.raises(UsageProblem, match="Invalid types list"):
            parse_types(wrong)
