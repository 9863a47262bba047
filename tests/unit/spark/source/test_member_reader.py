"""The reader of a member as Spark calls it, without Spark, against a scripted cluster and group."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from ottla.protocol.model import TopicPartition
from ottla.spark.group.member import Owned, Processed, Progress
from ottla.spark.group.starting_offsets import NoCommittedOffsetError
from ottla.spark.options.source_options import Query, parse_options
from ottla.spark.schemas import KAFKA
from ottla.spark.source.member_reader import Batch, MemberStreamReader, batch_from_json, batch_to_json
from ottla.spark.source.offset_reader import OffsetReader
from ottla.spark.source.planning import CheckpointError, DataLossError, Offsets, ReadTask, from_json
from ottla.spark.source.stream_reader import AvailableNowError

NEEDED = {
    "kafka.bootstrap.servers": "localhost:9092",
    "subscribe": "t",
    "group.id": "g",
    "ottla.group.mode": "member",
    "kafka.auto.offset.reset": "earliest",
}
ALL = ReadAllAvailable()


class Group:
    """The group as one member sees it. A rebalance is what a test does to it between two triggers."""

    group = "g"

    def __init__(self, offsets: dict[int, int]) -> None:
        self.progress = Progress()
        self.offsets = offsets
        self.is_settled = True
        self.holds_back = self.is_closed = False
        self.requests: list[list[int]] = []

    def assign(self, *numbers: int) -> None:
        self.progress.assigned(TopicPartition("t", number) for number in numbers)

    def take(self, *numbers: int) -> None:
        assert not self.holds_back
        self.progress.given_up(TopicPartition("t", number) for number in numbers)

    def batch_done(self, *, is_processed: bool = True) -> None:
        if not is_processed:
            self.progress.not_run()
        self.progress.batch_done()
        for partition, owned in self.progress.due().items():
            assert owned.position is not None
            self.offsets[partition.partition] = owned.committed = owned.position
        self.holds_back = False

    def begin_batch(self, timeout_s: float, *, patience_s: float = 0.0) -> dict[TopicPartition, Owned] | None:
        self.waited_s = timeout_s, patience_s
        self.holds_back = self.is_settled
        return self.progress.owned() if self.is_settled else None

    def no_batch(self) -> None:
        self.holds_back = False

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self.requests.append([each.partition for each in partitions])
        return {each: self.offsets[each.partition] for each in partitions if each.partition in self.offsets}

    def identity(self) -> tuple[int, str]:
        return 4, "m-1"

    def metrics(self) -> Mapping[str, Any]:
        return {"generation": 4}

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def group() -> Group:
    return Group({0: 12})


@pytest.fixture
def reader(cluster: Any, group: Group) -> Callable[..., MemberStreamReader]:
    """`reader(option=value)` of topic t: offsets 10 to 50 in partition 0, 0 to 10 in partition 1."""
    cluster.topic("t", (10, 50), (0, 10))

    def make(**given: str | None) -> MemberStreamReader:
        options = parse_options({name: value for name, value in {**NEEDED, **given}.items() if value is not None}, Query.STREAM)
        asks = OffsetReader(options, connect=cluster.connect, pause=lambda _: None)
        return MemberStreamReader(options, KAFKA, reader=asks, join=lambda _: group)  # type: ignore[arg-type, return-value]

    return make


def ends(value: Mapping[str, Any]) -> dict[str, int]:
    return dict(value.get("t", {}))


def ranges(tasks: list[InputPartition]) -> list[tuple[int, int, int]]:
    return [each[1:4] for task in tasks if isinstance(task, ReadTask) for each in task.ranges]


def test_a_query_s_life(reader: Callable[..., MemberStreamReader], group: Group, cluster: Any) -> None:
    one = reader()
    assert one.reportLatestOffset() is None
    initial = one.initialOffset()
    assert initial == one.initialOffset()
    group.assign(0, 1)
    end = one.latestOffset(initial, ALL)
    assert ends(end) == {"0": 50, "1": 10}
    assert end["#member"] == {"starts": {"t": {"0": 12, "1": 0}}, "generation": 4, "member_id": "m-1"}
    assert ranges(one.partitions(initial, end)) == [(0, 12, 50), (1, 0, 10)]
    assert group.holds_back
    assert group.offsets == {0: 12}
    assert one.latestOffset(end, ALL) == end
    assert group.offsets == {0: 50, 1: 10}
    assert group.requests == [[0, 1]]  # for what is gained alone
    assert not group.holds_back
    latest = one.reportLatestOffset()
    assert latest is not None
    assert (ends(latest), latest["#group_member"]) == ({"0": 50, "1": 10}, {"generation": 4})
    one.stop()
    assert group.is_closed
    assert not cluster.is_open


def test_partitions_come_and_go(reader: Callable[..., MemberStreamReader], group: Group, cluster: Any) -> None:
    one = reader()
    start = one.initialOffset()
    group.assign(0)
    first = one.latestOffset(start, ALL)
    assert ends(first) == {"0": 50}
    group.progress.batch_done()
    group.holds_back = False
    group.take(0)
    group.assign(1)
    group.offsets[1] = 3
    second = one.latestOffset(first, ALL)
    assert ranges(one.partitions(first, second)) == [(1, 3, 10)]
    one.latestOffset(second, ALL)
    group.assign(0)
    group.offsets[0] = 55  # another member has processed more
    cluster.topic("t", (10, 60), (0, 10))
    third = one.latestOffset(second, ALL)
    assert ends(third) == {"0": 60, "1": 10}
    assert ranges(one.partitions(second, third)) == [(0, 55, 60)]


def test_an_interrupted_batch_is_read_again_as_it_was(reader: Callable[..., MemberStreamReader], group: Group, cluster: Any) -> None:
    one = reader()
    start = one.initialOffset()
    group.assign(0, 1)
    end = one.latestOffset(start, ALL)
    cluster.topic("t", (10, 70), (0, 20))
    again = reader()
    group.progress = Progress()
    assert ranges(again.partitions(start, end)) == [(0, 12, 50), (1, 0, 10)]
    group.assign(0)  # the other partition is another member's now
    later = again.latestOffset(end, ALL)
    assert group.offsets == {0: 12}  # resumed behind what the batch has processed
    assert ranges(again.partitions(end, later)) == [(0, 50, 70)]
    assert later["#member"]["committed"] == {"t": {"0": 12}}


def test_a_batch_that_was_not_run_is_not_committed(reader: Callable[..., MemberStreamReader], group: Group) -> None:
    one = reader(**{"kafka.auto.offset.reset": "latest"})
    start = one.initialOffset()
    group.assign(0)
    end = one.latestOffset(start, ALL)
    assert one.latestOffset(start, ALL) == end
    assert group.offsets == {0: 12}
    group.no_batch()
    group.take(0)
    group.assign(1)
    assert one.latestOffset(start, ALL) == start
    assert one.latestOffset(start, ALL) == start
    assert group.offsets == {0: 12, 1: 10}  # where the new partition starts


def test_without_records_without_partitions_and_in_a_rebalance(
    reader: Callable[..., MemberStreamReader], group: Group, cluster: Any
) -> None:
    one = reader()
    start = one.initialOffset()
    assert one.latestOffset(start, ALL) == start
    group.is_settled = False
    assert one.latestOffset(start, ALL) == start
    group.is_settled = True
    group.assign(0)
    group.offsets[0] = 50
    assert one.latestOffset(start, ALL) == start
    assert not group.holds_back


def test_a_start_by_reset_is_committed(reader: Callable[..., MemberStreamReader], group: Group, cluster: Any) -> None:
    one = reader(**{"kafka.auto.offset.reset": "latest"})
    start = one.initialOffset()
    group.assign(1)
    assert one.latestOffset(start, ALL) == start
    assert one.latestOffset(start, ALL) == start
    assert group.offsets == {0: 12, 1: 10}  # or the query would start later after a restart
    none = reader(**{"kafka.auto.offset.reset": "none"})
    group.offsets.clear()
    group.take(1)
    group.assign(1)
    with pytest.raises(NoCommittedOffsetError, match="t-1"):
        none.latestOffset(none.initialOffset(), ALL)
    assert not group.holds_back


def test_limits(reader: Callable[..., MemberStreamReader], group: Group) -> None:
    one = reader(maxOffsetsPerTrigger="24")
    start = one.initialOffset()
    group.assign(0, 1)
    end = one.latestOffset(start, ReadMaxRows(24))
    assert ends(end) == {"0": 31, "1": 5}


@pytest.mark.parametrize(("offset", "expected"), [(5, (0, 10, 50)), (60, (0, 10, 50))])
def test_offsets_that_the_log_does_not_hold(
    reader: Callable[..., MemberStreamReader], group: Group, offset: int, expected: tuple[int, int, int]
) -> None:
    group.offsets[0] = offset
    group.assign(0)
    one = reader()
    with pytest.raises(DataLossError, match=f"The group's offset {offset} of t-0 is not in its log, which holds 10 to 50"):
        one.latestOffset(one.initialOffset(), ALL)
    group.take(0)
    group.assign(0)
    two = reader(failOnDataLoss="false")
    start = two.initialOffset()
    assert ranges(two.partitions(start, two.latestOffset(start, ALL))) == [expected]


def test_a_topic_that_is_made_again(reader: Callable[..., MemberStreamReader], group: Group, cluster: Any) -> None:
    one = reader(failOnDataLoss="false")
    start = one.initialOffset()
    group.assign(0)
    end = one.latestOffset(start, ALL)
    cluster.topic("t", (0, 7), topic_id="another")
    later = one.latestOffset(end, ALL)
    assert ranges(one.partitions(end, later)) == [(0, 0, 7)]
    strict = reader()
    group.progress = Progress()
    with pytest.raises(DataLossError, match="Topic t was deleted and re-created"):
        strict.partitions(start, end)


def test_trigger_available_now(reader: Callable[..., MemberStreamReader], group: Group, cluster: Any) -> None:
    one = reader()
    one.prepareForTriggerAvailableNow()
    start = one.initialOffset()
    group.is_settled = False
    kip_848 = reader(**{"kafka.group.protocol": "consumer"})
    kip_848.prepareForTriggerAvailableNow()
    with pytest.raises(AvailableNowError):
        kip_848.latestOffset(start, ALL)
    assert group.waited_s == (60, 15), "others give partitions up with one heartbeat, and the query has them with the next one"
    with pytest.raises(AvailableNowError, match="did not get its partitions from the group g within 60 s"):
        one.latestOffset(start, ALL)
    assert group.waited_s == (60, 5)
    group.is_settled = True
    group.assign(0)
    end = one.latestOffset(start, ALL)
    cluster.topic("t", (10, 70), (0, 20))
    assert one.latestOffset(end, ALL) == end
    group.assign(1)
    last = one.latestOffset(end, ALL)
    assert ranges(one.partitions(end, last)) == [(1, 0, 10)]


def test_a_checkpoint_of_commit_mode(reader: Callable[..., MemberStreamReader], group: Group) -> None:
    one = reader()
    before = {"t": {"0": 20, "1": 4}, "#topic_ids": {"t": "id-of-t"}}
    planned = {"t": {"0": 30, "1": 4}, "#topic_ids": {"t": "id-of-t"}}
    assert ranges(one.partitions(before, planned)) == [(0, 20, 30)]
    group.assign(0, 1)
    end = one.latestOffset(planned, ALL)
    assert ranges(one.partitions(planned, end)) == [(0, 30, 50), (1, 4, 10)]
    with pytest.raises(CheckpointError):
        one.latestOffset({"t": {"0": "five"}}, ALL)


ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
IDS = {"t": "id-of-t"}


def test_a_batch_as_json_and_back() -> None:
    batch = Batch(Offsets({ZERO: 23, ONE: 5}, IDS), {ZERO: 20}, {ZERO: 20, ONE: 5})
    value = json.loads(json.dumps(batch_to_json(batch, generation=7, member_id="m")))
    assert value == {
        "t": {"0": 23, "1": 5},
        "#topic_ids": IDS,
        "#member": {"starts": {"t": {"0": 20}}, "generation": 7, "member_id": "m"},
    }
    again = batch_from_json(value)
    assert (again.ends, again.starts) == (batch.ends, batch.starts)
    assert again.processed() == batch.processed() == {ZERO: Processed(20, 23), ONE: Processed(5, 5)}


def test_commits_that_had_failed_are_kept() -> None:
    batch = Batch(Offsets({ZERO: 23, ONE: 5}, IDS), {ZERO: 20}, {ZERO: 11, ONE: 2})
    value = batch_to_json(batch, generation=7, member_id="m")
    assert value["#member"]["committed"] == {"t": {"0": 11, "1": 2}}
    assert batch_from_json(value).processed() == {ZERO: Processed(11, 23), ONE: Processed(2, 5)}


def test_a_checkpoint_of_commit_mode_or_of_the_jvm_connector() -> None:
    batch = batch_from_json({"t": {"0": 23}, "#topic_ids": IDS})
    assert batch == Batch(Offsets({ZERO: 23}, IDS), {}, None)
    assert batch.processed() == {ZERO: Processed(0, 23)}
    assert batch_from_json({"t": {"0": 23}}).ends.by_partition == {ZERO: 23}


def test_commit_mode_refuses_a_member_s_checkpoint() -> None:
    with pytest.raises(CheckpointError, match="this checkpoint is one of a query"):
        from_json(batch_to_json(Batch(Offsets({ZERO: 1}, IDS), {}, {}), generation=1, member_id="m"))


@pytest.mark.parametrize(
    "value", [{"#member": 5}, {"#member": {"starts": {"t": {"0": -1}}}}, {"#member": {"committed": {"t": 3}}}, {"t": 3}]
)
def test_what_is_no_batch(value: dict[str, object]) -> None:
    with pytest.raises(CheckpointError):
        batch_from_json(value)
