"""A query's membership against a scripted consumer: what waits for what between the thread that polls and the planner."""

import json
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.broker import Broker
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import Failure
from ottla.client.consumer.kafka_errors import KafkaError, KafkaException, WakeupException
from ottla.client.consumer.message import TopicPartition as Place
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.group import member as departure
from ottla.spark.group.member import (
    REASON,
    Departure,
    GroupMember,
    GroupMemberError,
    Owned,
    Processed,
    Progress,
    leave,
    main,
    resume_offset,
)
from ottla.testing import wait_until

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
PROPERTIES = {"group.id": "g", "max.poll.interval.ms": "300000"}
S = 20.0


class ScriptedConsumer:
    """Runs what a test gives it in the thread that polls."""

    def __init__(self) -> None:
        self.config: Mapping[str, Any] = {}
        self.steps: queue.Queue[Callable[[], Any]] = queue.Queue()
        self.commits: list[dict[TopicPartition, int]] = []
        self.refusals: list[int] = []
        self.offsets: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.is_closed = False

    def make(self, config: Mapping[str, Any]) -> Any:
        self.config = config
        return self

    def subscribe(self, topics: Sequence[str], **listeners: Any) -> None:
        self.topics, self.listeners = topics, listeners

    def poll(self, timeout: float) -> Any:
        return self.steps.get()()

    def run(self, step: Callable[[], Any]) -> threading.Event:
        """Let the thread run a step; the event is set behind it."""
        done = threading.Event()

        def both() -> Any:
            try:
                return step()
            finally:
                done.set()

        self.steps.put(both)
        return done

    def call(self, name: str, *partitions: TopicPartition) -> threading.Event:
        """Let the thread run a listener."""
        return self.run(lambda: self.listeners[name](self, [Place(*each) for each in partitions]))

    def pause(self, partitions: Sequence[Place]) -> None:
        self.paused |= {TopicPartition(each.topic, each.partition) for each in partitions}

    def commit(self, offsets: Sequence[Place], asynchronous: bool, timeout: float) -> list[Place]:
        assert not asynchronous
        assert timeout < 2
        if self.refusals:
            raise KafkaException(KafkaError(self.refusals.pop(0)))
        self.commits.append({TopicPartition(each.topic, each.partition): each.offset for each in offsets})
        return list(offsets)

    def committed(self, partitions: Sequence[Place]) -> list[Place]:
        return [
            Place(each.topic, each.partition, self.offsets.get(TopicPartition(each.topic, each.partition), -1001)) for each in partitions
        ]

    def generation_id(self) -> int:
        return 3

    def memberid(self) -> str:
        return "m-1"

    def metrics(self) -> dict[str, float]:
        return {"rebalance-total": 2.0, "rebalance-latency-total": 35.4}

    def wakeup(self) -> None:
        def stop() -> None:
            raise WakeupException

        self.steps.put(stop)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def consumer() -> ScriptedConsumer:
    return ScriptedConsumer()


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def member(consumer: ScriptedConsumer, now: list[float]) -> Iterator[GroupMember]:
    found = GroupMember(PROPERTIES, ["t"], consumer=consumer.make, clock=lambda: now[0])
    yield found
    found.close()
    assert consumer.is_closed


def own(member: GroupMember, consumer: ScriptedConsumer, *partitions: TopicPartition) -> None:
    """Assign partitions, and plan a batch of ten offsets of each, from 0."""
    assert consumer.call("on_assign", *partitions).wait(S)
    owned = member.begin_batch(S)
    assert owned is not None
    for partition in partitions:
        member.progress.resume(partition, owned[partition], 0, 0)
    member.progress.planned({partition: Processed(0, 10) for partition in partitions}, owned)


def test_it_reads_nothing_and_commits_by_itself(member: GroupMember, consumer: ScriptedConsumer) -> None:
    assert consumer.config["enable.auto.commit"] == "false"
    own(member, consumer, ZERO)
    assert consumer.paused == {ZERO}
    assert consumer.commits == []
    member.batch_done()
    member.batch_done()
    assert consumer.commits == [{ZERO: 10}]


def test_a_batch_that_was_not_run(member: GroupMember, consumer: ScriptedConsumer) -> None:
    own(member, consumer, ZERO)
    member.batch_done(is_processed=False)
    assert consumer.commits == []
    assert member.progress.owned()[ZERO].position is None


def test_before_the_group_has_decided_there_is_no_batch(member: GroupMember, consumer: ScriptedConsumer) -> None:
    assert member.begin_batch(0.0) is None
    assert consumer.call("on_assign").wait(S)  # more members than partitions
    assert member.begin_batch(S) == {}


def test_a_group_that_does_not_decide_is_reported_once(
    member: GroupMember, consumer: ScriptedConsumer, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        assert member.begin_batch(0) is None
        now[0] += 14.5
    assert not caplog.messages
    now[0] += 1
    for _ in range(3):
        assert member.begin_batch(0) is None
    (message,) = caplog.messages
    assert message.startswith("the query has had no partitions for 44 s: the coordinator of the group g does not answer")
    own(member, consumer, ZERO)
    assert consumer.call("on_lost", ZERO).wait(S)
    caplog.clear()
    member.batch_done()
    assert member.begin_batch(0) is None
    assert not caplog.messages, "the time begins again"


def test_a_first_partition_is_waited_for(member: GroupMember, consumer: ScriptedConsumer) -> None:
    assert consumer.call("on_assign").wait(S)
    threading.Timer(0.05, consumer.call, ("on_assign", ZERO)).start()
    owned = member.begin_batch(S, patience_s=S)
    assert owned is not None
    assert owned.keys() == {ZERO}


def test_a_revocation_waits_for_the_batch_and_its_commit(member: GroupMember, consumer: ScriptedConsumer) -> None:
    own(member, consumer, ZERO, ONE)
    is_revoked = consumer.call("on_revoke", ONE)
    assert not is_revoked.wait(0.05)
    assert member.progress.owned().keys() == {ZERO, ONE}
    member.batch_done()
    assert is_revoked.wait(S)
    assert consumer.commits == [{ZERO: 10, ONE: 10}]
    owned = member.begin_batch(S)
    assert owned is not None
    assert owned.keys() == {ZERO}


def test_without_a_batch_a_revocation_does_not_wait(member: GroupMember, consumer: ScriptedConsumer) -> None:
    own(member, consumer, ZERO)
    member.batch_done()
    assert consumer.call("on_revoke", ZERO).wait(S)
    assert member.begin_batch(0.0) is None  # an eager rebalance: what comes next is not known yet
    assert consumer.call("on_assign", ONE).wait(S)
    owned = member.begin_batch(S)
    assert owned is not None
    assert owned.keys() == {ONE}
    member.no_batch()
    assert consumer.call("on_revoke", ONE).wait(S)


def test_what_is_lost_is_not_committed(member: GroupMember, consumer: ScriptedConsumer, caplog: pytest.LogCaptureFixture) -> None:
    own(member, consumer, ZERO, ONE)
    assert consumer.call("on_lost", ZERO, ONE).wait(S)
    assert consumer.call("on_assign", ONE).wait(S)
    member.batch_done()
    assert consumer.commits == []
    owned = member.begin_batch(S)
    assert owned is not None
    assert [each.position for each in owned.values()] == [None]
    assert "2 partitions were lost" in caplog.text


def test_a_batch_that_outlasts_the_poll_interval(
    member: GroupMember, consumer: ScriptedConsumer, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    own(member, consumer, ZERO)
    now[0] += 239
    assert consumer.run(lambda: None).wait(S)
    assert consumer.run(lambda: None).wait(S)
    assert not caplog.messages
    now[0] += 2
    is_revoked = consumer.call("on_revoke", ZERO)
    wait_until(lambda: caplog.messages, "the warning", seconds=S)
    assert caplog.messages == [caplog.messages[0]]
    assert caplog.messages[0].startswith("a batch has run for 241 s, and kafka.max.poll.interval.ms is 300 s")
    now[0] += 301
    assert is_revoked.wait(S)  # the coordinator does not wait any longer
    member.batch_done()
    assert consumer.commits == []


def test_commits_that_fail_are_repeated_later(
    member: GroupMember, consumer: ScriptedConsumer, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    own(member, consumer, ZERO)
    consumer.refusals = [KafkaError._TIMED_OUT, KafkaError._TIMED_OUT]
    member.batch_done()
    (message,) = caplog.messages
    assert message.startswith("offsets were not committed to the group g; the query continues: ")
    member.batch_done()  # too early
    now[0] += 1.1
    member.batch_done()
    assert consumer.commits == consumer.refusals == []
    metrics = member.metrics()
    assert (metrics["commits"], metrics["failures"], bool(metrics["last_error"])) == (0, 2, True)
    now[0] += 1.1
    member.batch_done()
    assert consumer.commits == [], "the second pause is longer"
    now[0] += 1.0
    member.batch_done()
    assert consumer.commits == [{ZERO: 10}]
    assert len(caplog.messages) == 2
    assert caplog.messages[1] == "offsets are committed to the group g again"


def test_a_revocation_commits_what_waits_for_its_back_off(member: GroupMember, consumer: ScriptedConsumer) -> None:
    own(member, consumer, ZERO, ONE)
    consumer.refusals = [KafkaError.COORDINATOR_LOAD_IN_PROGRESS]
    member.batch_done()
    assert consumer.commits == []
    assert consumer.call("on_revoke", ONE).wait(S)
    assert consumer.commits == [{ZERO: 10, ONE: 10}]


def test_a_commit_during_a_rebalance_is_no_failure(member: GroupMember, consumer: ScriptedConsumer) -> None:
    own(member, consumer, ZERO)
    consumer.refusals = [ErrorCode.REBALANCE_IN_PROGRESS]
    member.batch_done()
    assert member.metrics()["failures"] == 0
    member.batch_done()
    assert consumer.commits == [{ZERO: 10}]


def test_a_failure_of_the_consumer_ends_the_query(member: GroupMember, consumer: ScriptedConsumer) -> None:
    def fail() -> None:
        raise KafkaException(KafkaError(ErrorCode.FENCED_INSTANCE_ID, "another member has the instance id", fatal=True))

    assert consumer.run(fail).wait(S)
    with pytest.raises(GroupMemberError, match="no member of the group g any more: another member has the instance id"):
        member.begin_batch(S)
    with pytest.raises(GroupMemberError):
        member.batch_done()


def test_what_it_shows(member: GroupMember, consumer: ScriptedConsumer, now: list[float]) -> None:
    own(member, consumer, ZERO, ONE)
    member.batch_done()
    assert consumer.call("on_revoke", ZERO, ONE).wait(S)
    now[0] += 1.5
    assert consumer.call("on_assign", ONE).wait(S)
    now[0] += 9
    assert member.metrics() == {
        "group": "g",
        "member_id": "m-1",
        "generation": 3,
        "owned": {"t": [1]},
        "rebalances": 2,
        "rebalance_ms": 35,
        "stopped_ms": 1500,
        "commits": 1,
        "failures": 0,
        "last_error": "",
    }


def test_the_group_s_offsets(member: GroupMember, consumer: ScriptedConsumer, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer.offsets = {ONE: 4}
    assert member.committed([ZERO, ONE]) == {ONE: 4}
    assert member.committed([]) == {}

    def fail(_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no broker answered"))

    monkeypatch.setattr(consumer, "committed", fail)
    with pytest.raises(GroupMemberError, match="the offsets of the group g: no broker answered"):
        member.committed([ZERO])


def test_it_leaves_in_the_middle_of_a_batch(consumer: ScriptedConsumer) -> None:
    member = GroupMember(PROPERTIES, ["t"], consumer=consumer.make)
    own(member, consumer, ZERO)
    is_revoked = consumer.call("on_revoke", ZERO)
    member.close()
    assert is_revoked.is_set()
    assert consumer.commits == []


PROGRESS_ZERO = TopicPartition("t", 0)
PROGRESS_ONE = TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("processed", "committed", "expected"),
    [
        (None, None, 7),
        (None, 3, 3),
        (Processed(10, 20), 10, 20),  # the commit of the last batch did not come to pass
        (Processed(10, 20), 15, 20),
        (Processed(10, 20), 20, 20),
        (Processed(10, 20), 21, 21),  # another member has progressed
        (Processed(10, 20), 9, 9),  # an administrator has reset the group
        (Processed(10, 20), None, 20),  # the group's offsets have expired
    ],
)
def test_where_a_partition_continues(processed: Processed | None, committed: int | None, expected: int) -> None:
    assert resume_offset(processed, committed, 7) == expected


def test_what_is_due_is_what_the_group_does_not_have() -> None:
    progress = Progress()
    progress.assigned([PROGRESS_ZERO, PROGRESS_ONE])
    assert progress.due() == {}  # nothing is known yet
    owned = progress.owned()
    progress.resume(PROGRESS_ZERO, owned[PROGRESS_ZERO], 5, 0)
    progress.resume(PROGRESS_ONE, owned[PROGRESS_ONE], None, 8)
    assert {partition: each.position for partition, each in progress.due().items()} == {PROGRESS_ONE: 8}
    owned[PROGRESS_ONE].committed = 8
    progress.planned({PROGRESS_ZERO: Processed(5, 9)}, owned)
    progress.batch_done()
    assert {partition: each.position for partition, each in progress.due().items()} == {PROGRESS_ZERO: 9}


def test_what_was_given_up_is_not_committed_and_what_was_processed_is_not_read_again() -> None:
    progress = Progress()
    progress.assigned([PROGRESS_ZERO])
    owned = progress.owned()
    progress.resume(PROGRESS_ZERO, owned[PROGRESS_ZERO], 5, 0)
    progress.planned({PROGRESS_ZERO: Processed(5, 9)}, owned)
    progress.given_up([PROGRESS_ZERO, PROGRESS_ONE])
    progress.assigned([PROGRESS_ZERO])
    progress.batch_done()
    assert progress.due() == {}
    again = progress.owned()[PROGRESS_ZERO]
    assert again.position is None
    progress.resume(PROGRESS_ZERO, again, 5, 0)
    assert again.position == 9
    assert progress.due() == {PROGRESS_ZERO: again}


class Query:
    """A streaming query with its checkpoint: `table` has how often it has processed each offset."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.table: list[int] = []
        self.checkpoint: tuple[int, Processed] | None = None
        self.batch: tuple[int, Processed] | None = None
        self.owned: dict[TopicPartition, Owned] = {}

    def restart(self) -> None:
        """Killed and started again: a batch that was planned is read once more, with its own start and end."""
        self.progress = Progress()
        self.batch = None
        if self.checkpoint is not None:
            start, processed = self.checkpoint
            self.table = [offset for offset in self.table if not start <= offset < processed.end]  # the table is keyed by batch
            self.table += range(start, processed.end)
            self.progress.restore({PROGRESS_ZERO: processed})


class Group(RuleBasedStateMachine):
    """One partition, and queries that take it over from each other; commits may fail, queries are killed or lose their membership."""

    @initialize()
    def begin(self) -> None:
        self.queries = [Query(), Query()]
        self.owner: int | None = None
        self.end = 0
        self.committed: int | None = None

    @rule(count=st.integers(1, 5))
    def produce(self, count: int) -> None:
        self.end += count

    @precondition(lambda self: self.owner is None)
    @rule(number=st.integers(0, 1))
    def assign(self, number: int) -> None:
        self.owner = number
        self.queries[number].progress.assigned([PROGRESS_ZERO])

    @precondition(lambda self: self.owner is not None)
    @rule(is_lost=st.booleans())
    def take_away(self, is_lost: bool) -> None:
        query = self.queries[self.owner or 0]
        if query.batch is None or is_lost:  # a revocation waits for the batch
            query.progress.given_up([PROGRESS_ZERO])
            self.owner = None

    @rule(number=st.integers(0, 1), is_committed=st.booleans())
    def trigger(self, number: int, is_committed: bool) -> None:
        query = self.queries[number]
        if query.batch is not None:
            query.table += range(query.batch[0], query.batch[1].end)
            query.batch = None
        query.progress.batch_done()
        for owned in query.progress.due().values():
            assert self.owner == number
            if is_committed:
                assert owned.position is not None
                assert self.committed is None or owned.position >= self.committed
                self.committed = owned.committed = owned.position
        owned = query.progress.owned().get(PROGRESS_ZERO)
        if owned is None:
            return
        if owned.position is None:
            query.progress.resume(PROGRESS_ZERO, owned, self.committed, 0)
        assert owned.position is not None
        if self.end > owned.position:
            start = owned.position
            processed = Processed(start if owned.committed is None else owned.committed, self.end)
            query.batch = query.checkpoint = start, processed
            query.progress.planned({PROGRESS_ZERO: processed}, {PROGRESS_ZERO: owned})

    @rule(number=st.integers(0, 1))
    def kill(self, number: int) -> None:
        self.queries[number].restart()
        if self.owner == number:
            self.owner = None

    @invariant()
    def nothing_is_skipped(self) -> None:
        done = {offset for query in self.queries for offset in query.table}
        assert done.issuperset(range(self.committed or 0))

    @invariant()
    def a_query_processes_nothing_twice(self) -> None:
        for query in self.queries:
            assert len(query.table) == len(set(query.table))


TestGroup = Group.TestCase


DEPARTING = {"group.id": "g", "bootstrap.servers": "localhost:9092", "session.timeout.ms": "6000"}


class Admin:
    """Records who leaves."""

    left: list[tuple[str, ...]]
    failure: Failure | None = None

    def __init__(self, settings: Any, *, timeout_ms: int) -> None:
        assert settings.bootstrap_servers == "localhost:9092"

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def remove_member(self, *arguments: str) -> Failure | None:
        self.left.append(arguments)
        return self.failure


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    monkeypatch.setattr("ottla.client.admin.client.AdminClient", Admin)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    Admin.left = []
    return Admin.left


def lines(*values: Mapping[str, Any]) -> list[str]:
    return [json.dumps(value) + "\n" for value in ({"properties": DEPARTING}, *values)]


def test_the_last_member_leaves(left: list[tuple[str, ...]]) -> None:
    main([*lines({"member_id": "m-1"}, {"member_id": "m-2"}), '{"member_id": "m-'])
    assert left == [("g", "m-2", REASON)]


@pytest.mark.parametrize("given", [[], lines(), lines({"member_id": "m-1"}, {"member_id": ""})])
def test_who_has_left_or_never_joined_does_not(left: list[tuple[str, ...]], given: list[str]) -> None:
    main(given)
    assert left == []


def test_a_refusal_is_logged(left: list[tuple[str, ...]], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Admin, "failure", Failure(ErrorCode.UNKNOWN_MEMBER_ID))
    leave(DEPARTING, "m-1")
    assert caplog.messages == ["member m-1 of the group g did not leave: UNKNOWN_MEMBER_ID"]


def test_no_broker_answers(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departure, "TIMEOUT_MS", 1)
    leave({**DEPARTING, "bootstrap.servers": "127.0.0.1:1"}, "m-1")
    assert caplog.messages[0].startswith("member m-1 of the group g did not leave: ")


def test_the_process_outlives_who_started_it() -> None:
    from ottla import Consumer

    config = {"group.initial.rebalance.delay.ms": 0}
    with Broker(config=config) as broker, AdminClient(broker.bootstrap_servers) as admin:
        properties = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
        consumer = Consumer(properties)
        consumer.subscribe(["t"])
        while consumer.generation_id() < 0:
            consumer.poll(0.05)
        process = Departure(properties)
        process.joined(consumer.memberid() or "")
        assert process._process.stdin is not None
        os.close(os.dup(process._process.stdin.fileno()))  # another descriptor of the pipe ends nothing
        assert process._process.poll() is None
        process._process.stdin.close()  # what the end of the planner does
        assert process._process.wait(30) == 0
        described = admin.describe_groups(["g"])["g"]
        assert not isinstance(described, Failure)
        assert described.members == ()
        consumer.close()


def test_a_process_that_was_ended(caplog: pytest.LogCaptureFixture) -> None:
    process = Departure(DEPARTING)
    process._process.kill()
    process._process.wait()
    process.joined("m-1")
    assert "would stay until its session expires" in caplog.text
    process.close()
