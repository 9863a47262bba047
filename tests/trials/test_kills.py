"""The oracle of the kill tests finds what it is there to find."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from confluent_kafka import KafkaError, KafkaException
from pyarrow import parquet
from pyspark.sql.types import StructType

from ottla import Consumer
from ottla.broker import Broker
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedGroup
from ottla.protocol.model import TopicPartition
from ottla.spark.group.member import Owned, Progress
from ottla.spark.options.source_options import Query, parse_options
from ottla.spark.source.planning import Offsets
from ottla.testing.raw_client import create_topic
from ottla.testing.waiting import wait_until
from trials.harness.ledger import Ledger
from trials.harness.oracle import GroupSnapshot, invented, wrong_commits, wrong_rows
from trials.harness.world import Program
from trials.kills import sharing
from trials.kills.broken_sources import (
    CommitsAhead,
    GivesUpEarly,
    ReadsTwice,
    SkipsBatches,
    ahead_member,
    ahead_reader,
    early_member,
    skipping_member,
    twice_reader,
)
from trials.kills.group import Watcher
from trials.kills.plain_member import PlainJob, commit
from trials.kills.tables import KeyedResult, KeyedTable, SinkResult, Table, committed_files, planned_generation, processed_offsets
from trials.kills.world import Kill

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
WRITTEN = {(0, 0): "a", (0, 1): "b", (1, 0): "c"}
ROWS = {(0, 0, "a"): 1, (0, 1, "b"): 1, (1, 0, "c"): 1}


def test_every_record_once_is_right_and_what_is_not_committed_may_wait():
    assert wrong_rows(WRITTEN, ROWS, {A: 2, B: 1}) == []
    assert wrong_rows(WRITTEN, {(0, 0, "a"): 1}, {A: 1}) == []
    # Processed and not yet committed to the group, and read before the producer got the acknowledgement.
    assert wrong_rows({(0, 0): "a"}, ROWS, {A: 1}) == []
    assert invented(WRITTEN, ROWS) == []


def test_a_record_that_is_missing_below_the_committed_offset_is_lost():
    assert wrong_rows(WRITTEN, {(0, 0, "a"): 1, (1, 0, "c"): 1}, {A: 2, B: 1}) == ["0@1 is lost"]


def test_a_record_that_is_there_twice_is_found_committed_or_not():
    assert wrong_rows(WRITTEN, {**ROWS, (0, 0, "a"): 2}, {}) == ["0@0 is there 2 times"]


def test_a_record_that_is_something_else_is_found():
    assert wrong_rows(WRITTEN, {**ROWS, (0, 0, "z"): 1}, {}) == ["0@0 is there 2 times"]
    assert wrong_rows(WRITTEN, {(0, 0, "z"): 1}, {A: 1}) == ["0@0 is something else"]


def test_a_row_that_was_never_written_is_found():
    assert invented(WRITTEN, {**ROWS, (0, 2, "x"): 1}) == ["0@2 was never written"]


def test_a_group_may_be_behind_and_never_ahead():
    assert wrong_commits({}, GroupSnapshot({A: 5}, {A: 5, B: 1})) == []
    assert wrong_commits({A: 3}, GroupSnapshot({A: 4}, {A: 9})) == []
    assert wrong_commits({}, GroupSnapshot({A: 6}, {A: 5})) == ["t-0 is committed at 6, processed up to 5"]
    assert wrong_commits({}, GroupSnapshot({B: 1}, {A: 5})) == ["t-1 is committed at 1, processed up to 0"]


def test_a_group_never_goes_back_nor_forgets():
    assert wrong_commits({A: 5}, GroupSnapshot({A: 4}, {A: 5})) == ["t-0 went back from 5 to 4"]
    assert wrong_commits({A: 5}, GroupSnapshot({}, {A: 5})) == ["t-0 went back from 5 to nothing"]


# --- the sources that are broken on purpose are broken in the one way that they are meant to be

PLACE = TopicPartition("t", 0)
OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "group.id": "g", "startingOffsets": "earliest"}


MEMBER_OPTIONS = {name: value for name, value in OPTIONS.items() if name != "startingOffsets"} | {"ottla.group.mode": "member"}


class Log:
    """The topic t with ten records in its one partition, and the group's offsets."""

    def __init__(self) -> None:
        self.committed: list[int] = []

    def latest(self, known: Offsets | None = None, among: object = None) -> Offsets:
        return Offsets({PLACE: 10}, {})

    def earliest(self, partitions: object) -> Mapping[TopicPartition, int]:
        return {}

    def topic_ids(self, topics: object) -> Mapping[str, str]:
        return {}

    def offer(self, offsets: Mapping[TopicPartition, int], *, is_last: bool = False) -> None:
        self.committed.append(offsets[PLACE])


class Member:
    """The member of a group that owns the partition, of which four records are processed."""

    group = "g"

    def __init__(self) -> None:
        self.progress = Progress()
        self.progress.assigned([PLACE])
        self.committed_last = 4
        self.holds_back = False

    def batch_done(self, *, is_processed: bool = True) -> None:
        self.progress.batch_done()
        self.holds_back = False
        for owned in self.progress.due().values():
            assert owned.position is not None
            self.committed_last = owned.committed = owned.position

    def begin_batch(self, timeout_s: float) -> dict[TopicPartition, Owned]:
        self.holds_back = True
        return self.progress.owned()

    def no_batch(self) -> None:
        self.holds_back = False

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {PLACE: 4}

    def identity(self) -> tuple[int, str]:
        return 1, "m"


@pytest.fixture
def log() -> Any:
    return Log()


@pytest.fixture
def member() -> Any:
    return Member()


def made(broken: Any, log: Any, member: Any) -> Any:
    options = parse_options(MEMBER_OPTIONS, Query.STREAM)
    return broken(options, StructType(), reader=log, join=lambda _: member)


def test_one_commits_what_is_planned_before_it_is_processed(log: Any):
    reader = ahead_reader(parse_options(OPTIONS, Query.STREAM), StructType(), reader=log, committer=log)
    assert reader.latestOffset({"t": {"0": 4}}, reader.getDefaultReadLimit())["t"] == {"0": 10}
    assert log.committed == [4, 10]


def test_one_reads_everything_twice(log: Any):
    reader = twice_reader(parse_options(OPTIONS, Query.STREAM), StructType(), reader=log, committer=log)
    first, second = reader.partitions({"t": {"0": 4}}, {"t": {"0": 10}})
    assert first == second
    assert [(each.start, each.end) for each in first.ranges] == [(4, 10)]


def test_one_commits_as_a_member_what_is_planned_before_it_is_processed(log: Any, member: Any):
    reader = made(ahead_member, log, member)
    assert reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())["t"] == {"0": 10}
    assert member.committed_last == 10


def test_one_lets_partitions_go_in_the_middle_of_a_batch(log: Any, member: Any):
    reader = made(early_member, log, member)
    assert reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())["t"] == {"0": 10}
    assert (member.holds_back, member.committed_last) == (False, 4)


def test_one_does_not_read_again_what_was_interrupted(log: Any, member: Any):
    reader = made(skipping_member, log, member)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    (task,) = reader.partitions(reader.initialOffset(), end)
    assert [(each.start, each.end) for each in task.ranges] == [(4, 10)]
    assert made(skipping_member, log, member).partitions(reader.initialOffset(), end) == []


@pytest.mark.parametrize(
    ("source", "name", "options", "reader"),
    [
        (CommitsAhead, "commits-ahead", OPTIONS, "AheadReader"),
        (CommitsAhead, "commits-ahead", MEMBER_OPTIONS, "AheadMember"),
        (ReadsTwice, "reads-twice", OPTIONS, "TwiceReader"),
        (GivesUpEarly, "gives-up-early", MEMBER_OPTIONS, "EarlyMember"),
        (SkipsBatches, "skips-batches", MEMBER_OPTIONS, "SkippingMember"),
    ],
)
def test_they_have_names_of_their_own(source: type[CommitsAhead], name: str, options: dict[str, str], reader: str):
    assert source.name() == name
    assert type(source(options).streamReader(StructType())).__name__ == reader


# --- a file sink's table and a checkpoint, read from files as Spark writes them


class Sink:
    """Writes a table as Spark's file sink does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "_spark_metadata").mkdir(parents=True)

    def file(self, name: str, *rows: tuple[int, int, str]) -> dict[str, object]:
        path = self.directory / name
        columns = {"partition": [row[0] for row in rows], "offset": [row[1] for row in rows], "value": [row[2] for row in rows]}
        parquet.write_table(pyarrow.table(columns), path)
        return {"path": f"file://{path}".replace(" ", "%20"), "size": 1, "action": "add"}

    def commit(self, entry: str, *files: dict[str, object]) -> None:
        (self.directory / "_spark_metadata" / entry).write_text("\n".join(["v1", *(json.dumps(each) for each in files)]))
        (self.directory / "_spark_metadata" / f".{entry}.crc").write_bytes(b"crc")


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path / "a table")


def test_a_table_is_what_the_sink_has_committed_and_nothing_else(sink: Sink):
    first = sink.file("a.parquet", (0, 0, "x"), (1, 0, "y"))
    sink.file("left-by-a-killed-task.parquet", (0, 0, "x"))
    sink.commit("0", first)
    table = Table(sink.directory)
    assert table.rows() == {(0, 0, "x"): 1, (1, 0, "y"): 1}
    sink.commit("1", sink.file("b.parquet", (0, 1, "z"), (0, 0, "x")))
    assert table.rows() == {(0, 0, "x"): 2, (1, 0, "y"): 1, (0, 1, "z"): 1}


def test_a_compacted_entry_stands_for_all_before_it(sink: Sink):
    files = [sink.file(f"{number}.parquet", (0, number, "")) for number in range(12)]
    for number in range(9):
        sink.commit(str(number), files[number])
    sink.commit("9.compact", *files[:10])
    sink.commit("10", files[10])
    (sink.directory / "_spark_metadata" / ".11.uuid.tmp").write_text("v1\n")
    assert [Path(path).name for path in sorted(committed_files(sink.directory))] == sorted(f"{number}.parquet" for number in range(11))


def test_a_table_that_is_not_there_yet_has_no_rows(tmp_path: Path):
    assert Table(tmp_path / "table").rows() == {}


def test_processed_is_the_last_batch_that_is_committed_not_the_last_that_is_planned(tmp_path: Path):
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    assert processed_offsets(tmp_path) == {}
    for batch in range(11):
        offsets = json.dumps({"t": {"0": 10 * batch, "1": 5}, "#topic_ids": {"t": "AAAAAAAAAAAAAAAAAAAAAA"}})
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offsets}\n{{"u":{{"0":7}}}}')
        if batch < 10:
            (tmp_path / "commits" / str(batch)).write_text("v1\n{}")
            (tmp_path / "commits" / f".{batch}.crc").write_bytes(b"crc")
    assert processed_offsets(tmp_path) == {("t", 0): 90, ("t", 1): 5, ("u", 0): 7}


def test_a_batch_of_a_member_was_planned_in_a_generation(tmp_path: Path):
    (tmp_path / "offsets").mkdir()
    assert planned_generation(tmp_path) == -1
    for batch in (9, 10):
        offsets = json.dumps({"t": {"0": batch}, "#topic_ids": {}, "#member": {"starts": {}, "generation": 2 * batch, "member_id": "m"}})
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offsets}")
        (tmp_path / "offsets" / f".{batch}.crc").write_bytes(b"crc")
    assert planned_generation(tmp_path) == 20


# --- the keyed table: a record that is written again replaces itself, and a batch is there whole or not at all


@pytest.fixture
def table(tmp_path: Path) -> KeyedTable:
    return KeyedTable(tmp_path)


def test_a_batch_that_is_written_again_changes_nothing_but_the_number_of_writes(table: KeyedTable):
    assert table.writes() == {}
    table.write([("t", 0, 0, "a"), ("t", 0, 1, "b")])
    table.write([("t", 0, 1, "b"), ("t", 1, 0, "c")])
    assert table.writes() == {(0, 0, "a"): 1, (0, 1, "b"): 2, (1, 0, "c"): 1}


def test_a_batch_is_written_whole_or_not_at_all(table: KeyedTable):
    table.write([("t", 0, 0, "a")])

    def records():
        yield "t", 0, 1, "b"
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        table.write(records())
    assert table.writes() == {(0, 0, "a"): 1}


def test_a_partition_ends_behind_its_last_record(table: KeyedTable):
    partitions = [TopicPartition("t", number) for number in range(3)]
    assert table.ends(partitions) == {}
    table.write([("t", 0, 7, "a"), ("t", 0, 3, "b"), ("t", 2, 0, "c"), ("u", 1, 0, "d")])
    assert table.ends(partitions) == {partitions[0]: 8, partitions[2]: 1}


def test_another_process_reads_while_one_writes(table: KeyedTable, tmp_path: Path):
    other = KeyedTable(tmp_path)

    def records():
        yield "t", 0, 0, "a"
        assert other.writes() == {}, "what is not committed yet is not there, and nothing waits"

    table.write(records())
    assert other.writes() == {(0, 0, "a"): 1}


# --- what members have processed, from the tables that they have left

PLACES = [TopicPartition("t", number) for number in range(2)]


@pytest.fixture
def tables(tmp_path: Path) -> list[KeyedTable]:
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        found.append(KeyedTable(tmp_path / name))
    return found


@pytest.fixture
def result(tables: list[KeyedTable], tmp_path: Path) -> KeyedResult:
    return KeyedResult([tmp_path / "a", tmp_path / "b"], "t", 2)


def test_a_record_is_once_in_the_union_however_often_it_was_written(tables: list[KeyedTable], result: KeyedResult):
    assert (result.rows(), result.processed(), result.written_again()) == ({}, {}, 0)
    tables[0].write([("t", 0, 0, "x"), ("t", 0, 1, "y")])
    tables[1].write([("t", 0, 1, "y"), ("t", 1, 4, "z")])
    tables[1].write([("t", 1, 4, "z")])
    assert result.rows() == {(0, 0, "x"): 1, (0, 1, "y"): 1, (1, 4, "z"): 1}
    assert result.processed() == {PLACES[0]: 2, PLACES[1]: 5}
    assert result.written_again() == 2


def test_a_record_with_two_values_is_there_with_both(tables: list[KeyedTable], result: KeyedResult):
    tables[0].write([("t", 0, 0, "x")])
    tables[1].write([("t", 0, 0, "other")])
    assert result.rows() == {(0, 0, "x"): 1, (0, 0, "other"): 1}


def test_a_query_that_has_done_nothing_has_left_nothing(tmp_path: Path):
    result = SinkResult(tmp_path)
    assert (result.rows(), result.processed(), result.written_again()) == ({}, {}, 0)


# --- the observer of a group: a group that is ahead of what is processed, and how many members it has


@pytest.fixture
def servers() -> Iterator[str]:
    with Broker() as broker:
        create_topic(broker.bootstrap_servers, "t")
        yield broker.bootstrap_servers


def test_a_group_that_is_ahead_and_then_goes_back_is_noticed(servers: str):
    watcher = Watcher(servers, "g", lambda: {PLACE: 5})
    watcher.start()
    try:
        with AdminClient(servers) as admin:
            admin.commit("g", {PLACE: 5})
            wait_until(lambda: watcher.committed == {PLACE: 5}, "the commit is seen")
            assert watcher.wrong == []
            admin.commit("g", {PLACE: 6})
            wait_until(lambda: watcher.committed == {PLACE: 6}, "the commit is seen")
            admin.commit("g", {PLACE: 4})
            wait_until(lambda: watcher.committed == {PLACE: 4}, "the commit is seen")
    finally:
        watcher.close()
    assert set(watcher.wrong) == {"t-0 is committed at 6, processed up to 5", "t-0 went back from 6 to 4"}


def test_members_count_once_the_group_is_stable(servers: str):
    watcher = Watcher(servers, "g", dict[Any, Any])
    assert not watcher.has_members(1)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g"})
    consumer.subscribe(["t"])
    try:
        wait_until(lambda: watcher.has_members(1), "the member is there", lambda: consumer.poll(0.01))
        assert not watcher.has_members(2)
    finally:
        consumer.close()
    assert not watcher.has_members(1)


def test_a_broker_that_is_gone_is_no_fault_of_the_group():
    watcher = Watcher("127.0.0.1:1", "g", dict[Any, Any])
    assert not watcher.has_members(1)
    watcher.start()
    watcher.close()
    assert (watcher.checks, watcher.wrong) == (0, [])


# --- the plain consumer as a program: what it has processed is in its table, then committed; at SIGTERM it leaves the group


def test_it_processes_commits_and_leaves(tmp_path: Path):
    with Broker() as broker, AdminClient(broker.bootstrap_servers) as admin:
        servers = broker.bootstrap_servers
        create_topic(servers, "t")
        ledger = Ledger(servers, "t", 1)
        ledger.start()
        job = PlainJob(servers, "t", "g", str(tmp_path / "plain"), "cooperative-sticky", "6000", "1000")
        program = Program(tmp_path / "plain", [sys.executable, "-m", "trials.kills.plain_member", *job])
        program.start()
        table = KeyedTable(program.directory)
        try:
            wait_until(lambda: table.ends([PLACE]), program.said, seconds=60)
            ledger.close()
            assert ledger.failures == []
            ends = ledger.ends()

            def has_committed() -> bool:
                found = admin.committed(["g"])["g"]
                return isinstance(found, Mapping) and {place: each.offset for place, each in found.items()} == ends

            wait_until(has_committed, program.said, seconds=60)
            program.stop()
        finally:
            ledger.close()
            program.kill()
        assert table.writes() == {(*place, value): 1 for place, value in ledger.acknowledged.items()}
        group = admin.describe_groups(["g"])["g"]
        assert isinstance(group, DescribedGroup)
        assert group.members == (), "a member that ends in order leaves"


class Refused:
    """A consumer whose commits fail."""

    def __init__(self, code: int) -> None:
        self._code = code

    def commit(self, *, asynchronous: bool) -> None:
        raise KafkaException(KafkaError(self._code))


def test_a_commit_that_fails_is_reported_and_nothing_to_commit_is_no_failure(capsys: pytest.CaptureFixture[str]):
    commit(Refused(KafkaError._NO_OFFSET))
    assert capsys.readouterr().err == ""
    commit(Refused(KafkaError.ILLEGAL_GENERATION))
    assert "not committed" in capsys.readouterr().err


# --- the trials of sharing on a world in which time and generations are given; `make sharing` runs them on real members


class MemberSharing:
    """A member whose restarts begin a new generation or not."""

    def __init__(self, directory: Path, *, keeps_generation: bool = True) -> None:
        self.directory = directory
        self.acts: list[str] = []
        self._keeps_generation = keeps_generation
        (directory / "checkpoint" / "offsets").mkdir(parents=True)
        self._plan(5)

    def _plan(self, generation: int) -> None:
        offsets = json.dumps({"#member": {"generation": generation}})
        (self.directory / "checkpoint" / "offsets" / "0").write_text(f"v1\n{{}}\n{offsets}")

    def start(self) -> None:
        self.acts.append("start")
        if not self._keeps_generation:
            self._plan(6)

    def stop(self) -> None:
        self.acts.append("stop")

    def kill(self) -> None:
        self.acts.append("kill")


class World:
    """Two members; everything that is waited for is there, `late_s` seconds later."""

    ledger: Any = property(lambda self: self)

    def __init__(self, members: list[MemberSharing], monkeypatch: pytest.MonkeyPatch, late_s: float = 0) -> None:
        self.members: Any = members
        self._now_s, self._late_s = 0.0, late_s
        monkeypatch.setattr(sharing.time, "monotonic", lambda: self._now_s)

    def settle(self) -> None: ...

    def wait_for_records(self) -> None: ...

    def ends(self) -> dict[Any, int]:
        return {}

    def wait_until_processed(self, ends: dict[Any, int]) -> None:
        self._now_s += self._late_s

    def kill_one(self, victim: str) -> Kill:
        return Kill(f"{victim} after 0.10 s", 1.0, 10, 3, ["0@7 is lost"])


@pytest.fixture
def members(tmp_path: Path) -> list[MemberSharing]:
    return [MemberSharing(tmp_path / "a"), MemberSharing(tmp_path / "b")]


@pytest.mark.parametrize(("late_s", "wrong"), [(6.9, 0), (7.1, 2)])
def test_a_takeover_may_take_as_long_as_a_session_and_a_trigger(
    members: list[MemberSharing], late_s: float, wrong: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    world: Any = World(members, monkeypatch, late_s)
    assert len(sharing.take_over(world, 2, print)) == wrong
    assert [member.acts for member in members] == [["kill", "start"]] * 2
    assert f"{late_s:.2f} s later" in capsys.readouterr().out


def test_what_goes_wrong_in_a_visit_is_wrong(members: list[MemberSharing], monkeypatch: pytest.MonkeyPatch):
    world: Any = World(members, monkeypatch)
    assert sharing.visit(world, 2, print) == ["0@7 is lost"] * 2


@pytest.mark.parametrize("keeps_generation", [True, False])
def test_a_rolling_restart_keeps_the_generation(tmp_path: Path, keeps_generation: bool, monkeypatch: pytest.MonkeyPatch):
    members = [MemberSharing(tmp_path / name, keeps_generation=keeps_generation) for name in ("a", "b")]
    world: Any = World(members, monkeypatch)
    assert (sharing.restart(world, 2, print) == []) == keeps_generation
    assert [member.acts for member in members] == [["stop", "start"] * 2] * 2
