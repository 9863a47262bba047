"""`ottla groups --reset-offsets`, `--delete` and `--delete-offsets`: arithmetic, plans, and what is committed."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.clusters import CommandFailed, UsageProblem
from ottla.cli.groups.options import WARN_DRY_RUN, GroupsOptions, Transcript
from ottla.cli.groups.resetting import clamp, parse_topic, read_plan, reset_offsets, shift, write_plan
from ottla.client.admin.values import CommittedOffset, DescribedTopic, Failure
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("argument", "numbers"), [("t:0", [0]), ("t:2,0,1", [2, 0, 1]), ("t:0,", [0]), ("t:+1", [1]), ("t:-1", [-1]), ("t:0:", [0])]
)
def test_partitions_of_an_argument(argument: str, numbers: list[int]) -> None:
    assert parse_topic(argument) == [TopicPartition("t", number) for number in numbers]


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("t", "Invalid topic arg 't', expected topic name and partitions"),
        ("t:", "Invalid topic arg 't:', expected topic name and partitions"),
        ("t:0:1", "Invalid topic arg 't:0:1', expected topic name and partitions"),
        ("t:x", "Invalid partition 'x' specified in topic arg 't:x''"),
        ("t:0,,1", "Invalid partition '' specified in topic arg 't:0,,1''"),
        ("t:2147483648", "Invalid partition '2147483648' specified in topic arg 't:2147483648''"),
        ("t:" + "9" * 5000, f"Invalid partition '{'9' * 5000}' specified"),
    ],
)
def test_arguments_that_make_no_sense(argument: str, sentence: str) -> None:
    with pytest.raises(UsageProblem) as raised:
        parse_topic(argument)
    assert str(raised.value).startswith(sentence)


def test_shifting() -> None:
    committed = {ZERO: CommittedOffset(5), ONE: CommittedOffset(-1)}
    assert shift([ZERO], committed, -7) == {ZERO: -2}
    for partition in (ONE, TopicPartition("u", 3)):
        with pytest.raises(UsageProblem, match=f"for partition {partition.topic}-{partition.partition} since there is no current"):
            shift([ZERO, partition], committed, 1)


def test_what_lies_outside_a_log_is_warned_of() -> None:
    clamped = clamp({ZERO: 1, ONE: 50}, {ZERO: 2, ONE: 0}, {ZERO: 9, ONE: 9})
    assert clamped.offsets == {ZERO: 2, ONE: 9}
    assert clamped.warnings == (
        "New offset (1) is lower than earliest offset for topic partition t-0. Value will be set to 2",
        "New offset (50) is higher than latest offset for topic partition t-1. Value will be set to 9",
    )


@given(st.integers(), st.integers(0, 1000), st.integers(0, 1000))
def test_a_clamped_offset_lies_within_its_log(offset: int, start: int, size: int) -> None:
    (found,), warnings = (
        clamp({ZERO: offset}, {ZERO: start}, {ZERO: start + size})[0].values(),
        clamp({ZERO: offset}, {ZERO: start}, {ZERO: start + size})[1],
    )
    assert start <= found <= start + size
    assert (found == offset) == (not warnings)


PLAN = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 0}


def test_with_and_without_groups() -> None:
    assert write_plan({"g": PLAN}, with_group=False) == "t,0,5\nt,1,0\n"
    assert write_plan({"g": PLAN, "h": {}}, with_group=True) == "g,t,0,5\ng,t,1,0\n"


def test_texts_that_need_quotes_or_are_long_have_them() -> None:
    assert write_plan({'a"b': {TopicPartition("x" * 25, 0): 1}}, with_group=True) == f'"a""b","{"x" * 25}",0,1\n'


@pytest.mark.parametrize("name", ["=1+1", "+1", "-topic", "@x", "'=1", "'+x"])
def test_a_name_that_a_spreadsheet_would_calculate_is_text(name: str) -> None:
    written = write_plan({name: {TopicPartition("t", 0): 1}}, with_group=True)
    assert written == f"'{name},t,0,1\n"
    assert read_plan(written, [name, "other"]) == {name: {TopicPartition("t", 0): 1}}


names = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=40)
offsets = st.dictionaries(st.builds(TopicPartition, names, st.integers(0, 99)), st.integers(0, 2**62), min_size=1, max_size=4)


@given(st.dictionaries(names, offsets, min_size=1, max_size=3))
def test_there_and_back(plans: dict[str, dict[TopicPartition, int]]) -> None:
    assert read_plan(write_plan(plans, with_group=True), list(plans)) == plans
    (group, plan), *_ = plans.items()
    assert read_plan(write_plan({group: plan}, with_group=False), [group]) == {group: plan}


def test_lines_without_a_group_are_for_the_one_that_was_named() -> None:
    assert read_plan("t,0,5\n\nt, 1 ,0\n", ["g"]) == {"g": PLAN}
    assert read_plan("", ["g"]) == {}


@pytest.mark.parametrize(
    ("text", "groups", "sentence"),
    [
        ("t,0,5\n", ["g", "h"], "line 1 of the plan is 't,0,5', not group,topic,partition,offset"),
        ("t,0,5\nt,0\n", ["g"], "line 2 of the plan is 't,0', not topic,partition,offset"),
        ("g,t,0,5,6\n", ["g"], "line 1 of the plan is 'g,t,0,5,6', not group,topic,partition,offset"),
        ("t,zero,5\n", ["g"], "Cannot parse argument 'zero' of option from-file, line 1"),
        ("t,0,5\nt,1,x\n", ["g"], "Cannot parse argument 'x' of option from-file, line 2"),
    ],
)
def test_lines_that_make_no_sense(text: str, groups: list[str], sentence: str) -> None:
    with pytest.raises(CommandFailed) as raised:
        read_plan(text, groups)
    assert str(raised.value) == sentence


Naming = Callable[[str], str]
FIRST_MS = 1_600_000_000_000
"""The time of the first record of a topic; the others follow a second apart (conftest)."""


def moment(at_ms: int, zone: datetime.timezone = datetime.UTC) -> str:
    return datetime.datetime.fromtimestamp(at_ms / 1000, zone).strftime("%Y-%m-%dT%H:%M:%S.000")


class Reset:
    """A group with offset 5 committed in a topic of 10 records, of which the first 2 are deleted."""

    def __init__(self, groups: Any, name: Naming) -> None:
        self.groups = groups
        self.topic = groups.topic(name("t"), records=10, start=2)
        self.group = groups.commit(name("g"), self.topic, {0: 5})

    def __call__(self, *options: str, scope: tuple[str, ...] = ("--all-topics",)) -> Any:
        return self.groups.run("--reset-offsets", "--group", self.group, *scope, *options)

    def to(self, *options: str) -> int:
        """The offset that is committed when it has been reset for good, and said."""
        ran = self(*options, "--execute")
        (offset,) = self.groups.committed(self.group).values()
        assert ran.rows == [[self.group, self.topic, "0", str(offset)]], ran
        return int(offset)


@pytest.fixture
def reset(groups: Any, name: Naming) -> Reset:
    return Reset(groups, name)


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetOffsetsToEarliest")
def test_to_earliest(reset: Reset) -> None:
    assert reset.to("--to-earliest") == 2


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetOffsetsToLatest")
def test_to_latest(reset: Reset) -> None:
    assert reset.to("--to-latest") == 10


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetOffsetsToCurrentOffset")
def test_to_current_and_to_the_end_where_nothing_is_committed(reset: Reset, name: Naming) -> None:
    assert reset.to("--to-current") == 5
    other = reset.groups.topic(name("other"), records=3)
    assert reset("--to-current", "--dry-run", scope=("--topic", other)).rows == [[reset.group, other, "0", "3"]]


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetOffsetsToSpecificOffset")
@pytest.mark.parametrize(("offset", "expected"), [("4", 4), ("2", 2), ("10", 10)])
def test_to_offset(reset: Reset, offset: str, expected: int) -> None:
    assert reset.to("--to-offset", offset) == expected


@pytest.mark.parametrize(("offset", "expected", "compared"), [("11", 10, "higher than latest"), ("1", 2, "lower than earliest")])
def test_an_offset_outside_the_log_becomes_its_end_with_a_warning(reset: Reset, offset: str, expected: int, compared: str) -> None:
    ran = reset("--to-offset", offset, "--dry-run")
    assert ran.rows == [[reset.group, reset.topic, "0", str(expected)]]
    warning = f"WARN New offset ({offset}) is {compared} offset for topic partition {reset.topic}-0. Value will be set to {expected} "
    assert warning in ran.err


@pytest.mark.conformance(
    "ResetConsumerGroupOffsetTest.testResetOffsetsShiftPlus", "ResetConsumerGroupOffsetTest.testResetOffsetsShiftMinus"
)
@pytest.mark.parametrize(("by", "expected"), [("3", 8), ("-2", 3), ("0", 5)])
def test_shift_by(reset: Reset, by: str, expected: int) -> None:
    assert reset.to("--shift-by", by) == expected


@pytest.mark.conformance(
    "ResetConsumerGroupOffsetTest.testResetOffsetsShiftByLowerThanEarliest",
    "ResetConsumerGroupOffsetTest.testResetOffsetsShiftByHigherThanLatest",
)
@pytest.mark.parametrize(("by", "expected"), [("-50", 2), ("150", 10)])
def test_shift_by_too_much(reset: Reset, by: str, expected: int) -> None:
    assert reset.to("--shift-by", by) == expected


def test_shift_by_without_a_commit_is_a_mistake(reset: Reset, name: Naming) -> None:
    other = reset.groups.topic(name("other"))
    ran = reset("--shift-by", "1", "--dry-run", scope=("--topic", other))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith(f"Cannot shift offset for partition {other}-0 since there is no current committed offset\n")


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetOffsetsToLocalDateTime")
def test_to_datetime(reset: Reset) -> None:
    assert reset.to("--to-datetime", moment(FIRST_MS + 7_000)) == 7
    assert reset.to("--to-datetime", moment(FIRST_MS - 1_000)) == 2


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetOffsetsToZonedDateTime")
def test_to_datetime_with_a_zone(reset: Reset) -> None:
    east = datetime.timezone(datetime.timedelta(hours=2))
    assert reset.to("--to-datetime", moment(FIRST_MS + 6_000, east) + "+02:00") == 6


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetOffsetsByDuration")
def test_by_duration(reset: Reset) -> None:
    transcript = Transcript()
    options = GroupsOptions(frozenset({"reset-offsets", "all-topics"}), {"group": (reset.group,), "by-duration": ("PT2M",)})
    reset_offsets(reset.groups.admin, options, transcript, lambda: FIRST_MS + 124_000)
    assert transcript.document["groups"][0]["offsets"] == [{"topic": reset.topic, "partition": 0, "new_offset": 4}]


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetOffsetsByDurationToEarliest")
def test_by_a_duration_that_is_longer_than_the_log(reset: Reset) -> None:
    assert reset.to("--by-duration", "P36500D") == 2


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetOffsetsByDurationFallbackToLatestWhenNoRecords")
def test_where_there_is_no_record_so_late_the_end_is_taken(reset: Reset, name: Naming) -> None:
    empty = reset.groups.topic(name("empty"))
    ran = reset("--by-duration", "PT1H", "--dry-run", scope=("--topic", empty, "--topic", reset.topic))
    assert [row[1:] for row in ran.rows] == sorted([[empty, "0", "0"], [reset.topic, "0", "10"]])
    assert f"\nWarn: Partition 0 from topic {empty} is empty. Falling back to latest known offset.\n" in ran.out


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetOffsetsNotExistingGroup")
def test_a_group_that_does_not_exist_is_made(reset: Reset, name: Naming) -> None:
    group = name("new")
    ran = reset.groups.run("--reset-offsets", "--group", group, "--topic", reset.topic, "--to-offset", "4", "--execute")
    assert ran.rows == [[group, reset.topic, "0", "4"]]
    assert reset.groups.committed(group) == {(reset.topic, 0): 4}
    nothing = reset.groups.run("--reset-offsets", "--group", name("never"), "--all-topics", "--to-earliest", "--execute")
    assert (nothing.status, nothing.rows) == (0, [])


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetOffsetsExistingTopic")
def test_nothing_happens_without_execute(reset: Reset) -> None:
    before = reset.groups.committed(reset.group)
    warned = reset("--to-offset", "3", scope=("--topic", reset.topic))
    assert (warned.rows, warned.err) == ([[reset.group, reset.topic, "0", "3"]], f"{WARN_DRY_RUN}\n")
    assert reset("--to-offset", "3", "--dry-run", scope=("--topic", reset.topic)) == (0, warned.out, "")
    assert reset.groups.committed(reset.group) == before
    document = reset("--to-offset", "3", "--execute", "--json").document
    plan = {"topic": reset.topic, "partition": 0, "new_offset": 3}
    assert document == {"executed": True, "groups": [{"group": reset.group, "offsets": [plan]}]}


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetOffsetsExistingTopicSelectedGroups")
def test_several_groups(reset: Reset, name: Naming) -> None:
    other = reset.groups.commit("a" + name("other"), reset.topic, {0: 9})
    ran = reset("--to-offset", "3", "--execute", scope=("--group", other, "--topic", reset.topic))
    assert ran.rows == [[other, reset.topic, "0", "3"], [reset.group, reset.topic, "0", "3"]]
    assert [reset.groups.committed(group) for group in (other, reset.group)] == [{(reset.topic, 0): 3}] * 2


@pytest.mark.conformance(
    "ResetConsumerGroupOffsetTest.testResetOffsetsExistingTopicAllGroups", "ResetConsumerGroupOffsetTest.testResetOffsetsAllTopicsAllGroups"
)
@pytest.mark.parametrize("scope", [["--topic", "t"], ["--all-topics"]], ids=" ".join)
def test_all_groups(new_groups: Any, scope: list[str]) -> None:
    new_groups.topic("t", records=8)
    for group in ("a", "b", "c"):
        new_groups.commit(group, "t", {0: 7})
    ran = new_groups.run("--reset-offsets", "--all-groups", *scope, "--to-offset", "3", "--execute")
    assert ran.rows == [[group, "t", "0", "3"] for group in ("a", "b", "c")]
    assert [new_groups.committed(group) for group in ("a", "b", "c")] == [{("t", 0): 3}] * 3


@pytest.mark.conformance(
    "ResetConsumerGroupOffsetTest.testResetOffsetsToEarliestOnOneTopic",
    "ResetConsumerGroupOffsetTest.testResetOffsetsToEarliestOnOneTopicAndPartition",
    "ResetConsumerGroupOffsetTest.testResetOffsetsToEarliestOnTopics",
    "ResetConsumerGroupOffsetTest.testResetOffsetsToEarliestOnTopicsAndPartitions",
)
def test_topics_and_partitions(groups: Any, name: Naming) -> None:
    one, two = groups.topic("a" + name("t"), partitions=3), groups.topic("b" + name("t"), partitions=2)
    every = [(one, 0), (one, 1), (one, 2), (two, 0), (two, 1)]
    group = name("g")

    def planned(*scope: str) -> list[tuple[str, int]]:
        groups.commit(groups.commit(group, one, {0: 7, 1: 7, 2: 7}), two, {0: 7, 1: 7})
        ran = groups.run("--reset-offsets", "--group", group, "--to-earliest", "--execute", *scope)
        plan = [(row[1], int(row[2])) for row in ran.rows]
        assert groups.committed(group) == {partition: 0 if partition in plan else 7 for partition in every}
        return plan

    assert planned("--topic", one) == [(one, 0), (one, 1), (one, 2)]
    assert planned("--topic", f"{one}:1") == [(one, 1)]
    assert planned("--topic", two, "--topic", one) == every
    assert planned("--topic", f"{one}:2,0", "--topic", f"{two}:1") == [(one, 0), (one, 2), (two, 1)]
    assert planned("--topic", f"{two}:1", "--topic", two) == [(two, 0), (two, 1)], "each once, where Kafka's tool gives up"


@pytest.mark.parametrize(
    ("scope", "sentence"),
    [
        ("T:0,9,8", 'The partitions "T-9,T-8" do not exist'),
        ("nope", "This server does not host this topic-partition."),
        ("nope:0", "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this topic-partition."),
    ],
)
def test_partitions_that_do_not_exist(reset: Reset, scope: str, sentence: str) -> None:
    ran = reset("--to-earliest", "--dry-run", scope=("--topic", scope.replace("T", reset.topic)))
    assert ran.out == f"\nError: Executing consumer group command failed due to {sentence.replace('T-', f'{reset.topic}-')}\n"


@pytest.mark.parametrize("argument", ["t:", "t:0:1", "t:x", "t:0,x", "t:,"])
def test_topic_arguments_that_make_no_sense(reset: Reset, argument: str) -> None:
    ran = reset("--to-earliest", "--dry-run", scope=("--topic", argument))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("Invalid ")


def test_a_group_at_work_is_refused(reset: Reset, member: Any, name: Naming) -> None:
    busy = name("busy")
    reset.groups.members(busy, member("reader", {reset.topic: [0]}))
    ran = reset.groups.run("--reset-offsets", "--group", busy, "--group", reset.group, "--all-topics", "--to-earliest", "--execute")
    sentence = f"Assignments can only be reset if the group '{busy}' is inactive, but the current state is Stable."
    assert f"\nError: {sentence}\n" in ran.out
    assert ran.rows == [[reset.group, reset.topic, "0", "2"]]
    assert reset.groups.run("--reset-offsets", "--group", busy, "--all-topics", "--to-earliest", "--json").document["errors"] == [sentence]


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetOffsetsExportImportPlanSingleGroupArg")
def test_export_and_import_of_one_group(reset: Reset, tmp_path: Path) -> None:
    exported = reset("--to-offset", "4", "--export", "--dry-run")
    assert exported.out == f'"{reset.topic}",0,4\n\n' if len(reset.topic) > 24 else f"{reset.topic},0,4\n\n"
    plan = tmp_path / "plan.csv"
    plan.write_text(exported.out)
    ran = reset("--from-file", str(plan), "--execute", scope=())
    assert ran.rows == [[reset.group, reset.topic, "0", "4"]]
    assert reset.groups.committed(reset.group) == {(reset.topic, 0): 4}


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetOffsetsExportImportPlan")
def test_export_and_import_of_several_groups(reset: Reset, name: Naming, tmp_path: Path) -> None:
    other = reset.groups.commit("a" + name("other"), reset.topic, {0: 9})
    both = ("--group", other, "--all-topics")
    plan = tmp_path / "plan.csv"
    plan.write_text(reset("--to-offset", "4", "--export", "--dry-run", scope=both).out)
    assert [line.split(",")[0].strip('"') for line in plan.read_text().split()] == [other, reset.group]
    ran = reset("--from-file", str(plan), "--dry-run", scope=("--group", other))
    assert ran.rows == [[other, reset.topic, "0", "4"], [reset.group, reset.topic, "0", "4"]]
    assert reset("--from-file", str(plan), "--dry-run", scope=()).rows == [[reset.group, reset.topic, "0", "4"]]


def test_a_plan_that_knows_no_such_group_and_one_that_is_not_there(reset: Reset, tmp_path: Path) -> None:
    (tmp_path / "plan.csv").write_text(f"other,{reset.topic},0,1\n")
    ran = reset("--from-file", str(tmp_path / "plan.csv"), "--dry-run", scope=())
    assert f"\nError: No reset plan for group {reset.group} found\n" in ran.out
    missing = tmp_path / "none.csv"
    assert f"due to java.io.IOException: Unable to read file {missing}\n" in reset("--from-file", str(missing), "--dry-run", scope=()).out


@pytest.mark.conformance("ResetConsumerGroupOffsetTest.testResetWithUnrecognizedNewConsumerOption")
def test_an_option_that_is_none(reset: Reset) -> None:
    ran = reset("--new-consumer", "--to-offset", "2", "--execute")
    assert (ran.status, "--new-consumer" in ran.err) == (1, True)


def test_scope_and_scenario_are_needed(reset: Reset) -> None:
    no_scope = reset("--to-earliest", "--dry-run", scope=())
    assert (no_scope.status, no_scope.err.splitlines()[0]) == (1, "One of the reset scopes should be defined: --all-topics, --topic.")
    no_scenario = reset("--dry-run")
    assert no_scenario.status == 1
    assert no_scenario.err.startswith("Option '[reset-offsets]' requires one of the following scenarios: [[to-offset], [to-datetime], ")


class ToldAdmin:
    """An administrator with prepared answers, which records the calls."""

    def __init__(self, refusal: ErrorCode = ErrorCode.NONE) -> None:
        self.refusal = refusal
        self.asked: list[Any] = []

    def describe_groups(self, names: Any) -> Any:
        return {name: Failure(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} not found.") for name in names}

    def describe_topics(self, names: Any) -> Any:
        return {name: DescribedTopic(name, {0: 1, 1: None}) for name in names}

    def committed(self, names: Any) -> Any:
        return {name: {TopicPartition("t", 0): CommittedOffset(5)} for name in names}

    def list_offsets(self, partitions: Any, timestamp: int) -> Any:
        self.asked.append((list(partitions), timestamp))
        return dict.fromkeys(partitions, 10 if timestamp == -1 else 0)

    def commit(self, group: str, offsets: Any) -> Any:
        self.asked.append((group, offsets))
        return {each: None if self.refusal is ErrorCode.NONE else Failure(self.refusal) for each in offsets}


def plan(admin: ToldAdmin, *topics: str) -> None:
    options = GroupsOptions(frozenset({"reset-offsets", "execute"}), {"group": ("g",), "topic": topics, "to-offset": ("3",)})
    reset_offsets(admin, options, Transcript(), lambda: 0)  # type: ignore[arg-type]


@pytest.mark.conformance("ConsumerGroupServiceTest.testAdminRequestsForResetOffsets")
def test_what_is_asked_for_a_reset() -> None:
    zero = TopicPartition("t", 0)
    admin = ToldAdmin()
    plan(admin, "t:0")
    assert admin.asked == [([zero], -2), ([zero], -1), ("g", {zero: 3})]


def test_a_partition_without_a_leader_and_a_refused_commit() -> None:
    with pytest.raises(CommandFailed, match='The partitions "t-1" have no leader'):
        plan(ToldAdmin(), "t:1")
    with pytest.raises(CommandFailed, match=r"^The coordinator is not aware of this member\.$"):
        plan(ToldAdmin(ErrorCode.UNKNOWN_MEMBER_ID), "t:0")


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
def test_all_groups_deleting(new_groups: Any, member: Any) -> None:
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
def test_an_option_that_is_none_deleting(groups: Any) -> None:
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
