"""The consumer's engine against a cluster of values, in virtual time (Kafka: ConsumerCoordinatorTest, FetcherTest)."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.engine.commits import Commit
from ottla.client.engine.record_buffer import UndecodableRecords
from ottla.client.engine.values import (
    Fetch,
    FetchResponse,
    ListOffsets,
    Metadata,
    MetadataResponse,
    OffsetAndMetadata,
    OffsetFetch,
    PartitionEnd,
    PartitionFailure,
    PollIntervalExceeded,
    ResetByDuration,
    Route,
    Send,
    TopicUnavailable,
)
from ottla.client.fetch.fetch_values import PartitionResponse
from ottla.client.fetch.leaders import TopicMetadata
from ottla.client.membership.values import Heartbeat, JoinGroup, LeaveGroup
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import encode_assignment

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.mark.conformance("FetcherTest.testFetchNormal")
def test_a_subscription_is_joined_and_read_from_the_committed_offset(new_world: Callable[..., Any]) -> None:
    world = new_world(topics={"t": 2})
    world.add_records(T0, 30)
    world.add_records(T1, 5)
    world.committed[T0] = OffsetAndMetadata(20)
    world.engine.subscribe(["t"], [])
    assert sorted(world.offsets(world.poll())) == sorted([*range(20, 30), *range(5)])
    assert world.callbacks == [("assigned", [0, 1])]
    assert world.count(JoinGroup) == 1


@pytest.mark.conformance("FetcherTest.testFetchMaxPollRecords", "FetcherTest.testFetchMaxPollRecordsUnaligned")
def test_a_hundred_records_take_seven_polls_of_fifteen_and_one_fetch(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 100)
    world.engine.subscribe(["t"], [])
    taken = [len(world.offsets(world.poll(15))) for _ in range(6)]
    assert world.count(Fetch) == 1
    taken.append(len(world.offsets(world.poll(15))))
    assert taken == [15] * 6 + [10]
    world.settle()
    assert world.count(Fetch) == 2, "the next fetch is sent when all is handed out"


def test_the_next_records_are_fetched_while_others_are_buffered(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 1_000)
    world.engine.subscribe(["t"], [])
    assert world.offsets(world.poll(1)) == [0]
    assert world.count(Fetch) > 1
    offsets = [0]
    while len(offsets) < 1_000:
        offsets += world.offsets(world.poll(70))
    assert offsets == list(range(1_000))


def test_what_is_buffered_is_bounded(new_world: Callable[..., Any]) -> None:
    world = new_world(prefetch_bytes_max=1)
    world.add_records(T0, 1_000)
    world.engine.subscribe(["t"], [])
    world.poll(1)
    world.settle()
    assert world.count(Fetch) == 1


@pytest.mark.conformance(
    "FetcherTest.testInFlightFetchOnPausedPartition",
    "FetcherTest.testFetchOnPausedPartition",
    "FetcherTest.testFetchOnCompletedFetchesForPausedAndResumedPartitions",
    "FetcherTest.testFetchOnCompletedFetchesForAllPausedPartitions",
)
def test_records_of_a_paused_partition_stay_buffered(new_world: Callable[..., Any]) -> None:
    world = new_world(topics={"t": 2})
    world.add_records(T0, 10)
    world.add_records(T1, 10)
    world.engine.subscribe(["t"], [])
    world.poll(1)
    world.engine.pause([T0, T1], True)
    fetches = world.count(Fetch)
    assert world.poll() == []
    world.engine.pause([T0, T1], False)
    assert len(world.offsets(world.poll())) == 19
    assert world.count(Fetch) == fetches


def test_a_paused_partition_is_not_fetched(new_world: Callable[..., Any]) -> None:
    world = new_world(topics={"t": 2})
    world.add_records(T0, 10)
    world.add_records(T1, 10)
    world.engine.subscribe(["t"], [])
    world.poll()
    world.engine.pause([T0], True)
    world.end_fetches()
    world.sent.clear()
    world.add_records(T0, 10)
    world.add_records(T1, 10)
    assert [part.partition for part in world.poll()] == [T1]
    world.settle()
    fetched = [[each.partition for each in request.fetches] for request in world.sent if isinstance(request, Fetch)]
    assert fetched == [[T1]] * len(fetched) != []
    world.engine.pause([T0], False)
    world.end_fetches()
    assert [part.partition for part in world.poll()] == [T0]


@pytest.mark.conformance("FetcherTest.testFetchedRecordsAfterSeek")
def test_a_seek_drops_what_is_buffered(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 50)
    world.engine.subscribe(["t"], [])
    world.poll(5)
    world.engine.seek(T0, OffsetAndMetadata(40))
    assert world.offsets(world.poll(2)) == [40, 41]
    world.engine.seek(T0, OffsetAndMetadata(-2))
    assert world.offsets(world.poll(1)) == [0]
    world.engine.seek(T0, OffsetAndMetadata(-2003))
    assert world.offsets(world.poll()) == [47, 48, 49]


@pytest.mark.parametrize(("reset", "first"), [(-2, [3]), (-1, []), (ResetByDuration(1_000), [5])])
def test_where_a_partition_without_a_commit_begins(new_world: Callable[..., Any], reset: Any, first: list[int]) -> None:
    world = new_world(reset=reset)
    world.starts[T0] = 3
    world.add_records(T0, 10)
    world.engine.subscribe(["t"], [])
    assert world.offsets(world.poll(1)) == first


@pytest.mark.conformance("FetcherTest.testFetchOffsetOutOfRangeException")
def test_without_a_reset_policy_the_partition_fails(new_world: Callable[..., Any]) -> None:
    world = new_world(reset=None)
    world.engine.subscribe(["t"], [])
    world.poll()
    assert [(type(event), event.partition) for event in world.engine.take_events()] == [(PartitionFailure, T0)]
    world.settle(1_000)
    assert world.count(ListOffsets) == 0
    world.engine.seek(T0, OffsetAndMetadata(0))
    world.add_records(T0, 1)
    assert world.offsets(world.poll()) == [0]


@pytest.mark.conformance("FetcherTest.testFetchOffsetOutOfRange")
def test_an_offset_out_of_range_is_reset(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 10)
    world.starts[T0] = 4
    world.committed[T0] = OffsetAndMetadata(2)
    world.engine.subscribe(["t"], [])
    assert world.offsets(world.poll()) == [4, 5, 6, 7, 8, 9]
    assert "Fetch position 2 is out of range for partition t-0, resetting offset" in world.engine.evidence.log_lines


@pytest.mark.conformance("ConsumerCoordinatorTest.testAutoCommitDynamicAssignment")
def test_the_application_polls_and_its_records_are_committed(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 10)
    world.engine.subscribe(["t"], [])
    world.poll(4)
    world.now = 5_000
    assert T0 not in world.committed
    world.poll(4)
    world.settle()
    assert world.committed[T0].offset == 4, "what the second poll gave is not processed yet"


def test_stored_offsets_alone_are_committed(new_world: Callable[..., Any]) -> None:
    world = new_world(stores_offsets=False)
    world.add_records(T0, 10)
    world.engine.subscribe(["t"], [])
    world.poll()
    assert world.engine.subscriptions.uncommitted() == {}


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testPatternJoinGroupLeader",
    "ConsumerCoordinatorTest.testPatternJoinGroupFollower",
    "ConsumerCoordinatorTest.testRebalanceAfterTopicUnavailableWithPatternSubscribe",
)
def test_new_topics_that_match_a_pattern_are_joined(new_world: Callable[..., Any]) -> None:
    world = new_world(topics={"t": 1, "x": 1}, metadata_max_age_ms=10_000)
    world.engine.subscribe([], [re.compile("^[tu]$")])
    world.poll()
    world.logs[U0] = []
    world.settle(10_000)
    world.poll()
    assert world.engine.subscriptions.partitions.keys() == {T0, U0}
    assert world.callbacks == [("assigned", [0]), ("revoked", [0]), ("assigned", [0, 0])]


@pytest.mark.conformance("ConsumerCoordinatorTest.testRebalanceAfterTopicUnavailableWithSubscribe")
def test_a_topic_that_is_missing_is_looked_for(new_world: Callable[..., Any]) -> None:
    world = new_world(topics={"x": 1})
    world.engine.subscribe(["t"], [])
    world.poll()
    assert world.callbacks == [("assigned", [])]
    world.logs[T0] = []
    world.settle(1_000)
    world.poll()
    world.poll()
    assert world.callbacks[-1] == ("assigned", [0])


def test_a_cooperative_member_revokes_only_what_moves(new_world: Callable[..., Any]) -> None:
    world = new_world("cooperative-sticky", topics={"t": 2})
    world.engine.subscribe(["t"], [])
    world.poll()
    kept = world.engine.subscriptions.partitions[T0]
    world.assignment = encode_assignment({"t": [0]})
    world.engine.membership.request_rejoin("group is already rebalancing")
    world.poll()
    world.poll()
    assert world.callbacks == [("assigned", [0, 1]), ("revoked", [1]), ("assigned", []), ("assigned", [])]
    assert world.engine.subscriptions.partitions == {T0: kept}
    assert [each.reason for each in world.sent if isinstance(each, JoinGroup)][-1] == "need to revoke partitions and re-join"


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testOutdatedCoordinatorAssignment", "SubscriptionStateTest.cantAssignPartitionForUnsubscribedTopics"
)
def test_an_assignment_outside_of_the_subscription_is_not_taken(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.assignment = encode_assignment({"other": [0]})
    world.engine.subscribe(["t"], [])
    world.poll()
    world.assignment = b""
    world.now += 1_000
    world.poll()
    world.poll()
    assert world.engine.subscriptions.partitions.keys() == {T0}


def test_assignments_outside_of_the_subscription_are_refused_later_and_later(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.assignment = encode_assignment({"other": [0]})
    world.engine.subscribe(["t"], [])
    for _ in range(200):  # 2 s
        world.poll()
        world.settle(10)
    assert 4 <= world.count(JoinGroup) <= 9


def test_a_topic_that_is_there_again_is_read_as_soon_as_metadata_show_it(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.engine.subscribe(["t"], [])
    world.add_records(T0, 1)
    response, topic_id = world.response, ["A" * 22]

    def recreated(request: Any) -> Any:
        found = response(request)
        if isinstance(request, Metadata):
            return found._replace(topics=tuple(each._replace(topic_id=topic_id[0]) for each in found.topics))
        if isinstance(request, Fetch) and any(each.topic_id == "A" * 22 for each in request.fetches):
            topic_id[0] = "B" * 21 + "A"
            refused = tuple(PartitionResponse(each.partition, ErrorCode.UNKNOWN_TOPIC_ID) for each in request.fetches)
            return found._replace(partitions=refused)
        return found

    world.response = recreated
    taken = []
    for _ in range(100):
        taken += world.offsets(world.poll())
        world.settle(20)
    assert taken == [0]


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testJoinPrepareAndCommitCompleted", "ConsumerCoordinatorTest.testAutoCommitDynamicAssignmentRebalance"
)
def test_a_rebalance_commits_before_it_gives_up(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 10)
    world.engine.subscribe(["t"], [])
    world.poll(6)
    world.engine.membership.request_rejoin("group is already rebalancing")
    world.poll()
    assert world.committed[T0].offset == 6
    assert world.callbacks[1] == ("revoked", [0])
    world.poll()
    assert world.offsets(world.poll()) == [], "all were given by the poll before"


@pytest.mark.conformance("ConsumerCoordinatorTest.shouldLoseAllOwnedPartitionsBeforeRejoiningAfterDroppingOutOfTheGroup")
def test_lost_partitions_are_not_committed(new_world: Callable[..., Any]) -> None:
    world = new_world(group={"max_poll_interval_ms": 10_000, "session_timeout_ms": 8_000}, auto_commit_interval_ms=60_000)
    world.add_records(T0, 10)
    world.engine.subscribe(["t"], [])
    world.poll(6)
    for _ in range(4):
        world.settle(2_999)
    assert world.count(LeaveGroup) == 1
    world.poll()
    assert T0 not in world.committed
    assert world.engine.commits.finished == [], "no commit was tried"
    assert ("lost", [0]) in world.callbacks
    assert world.engine.take_events() == [PollIntervalExceeded(10_000)]


@pytest.mark.conformance(
    "AbstractCoordinatorTest.testHandleNormalLeaveGroupResponse",
    "ConsumerCoordinatorTest.testUnsubscribeWithValidGeneration",
    "ConsumerCoordinatorTest.testCloseDynamicAssignment",
)
def test_leaving_commits_revokes_and_sends_leave_group(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 3)
    world.engine.subscribe(["t"], [])
    world.poll()
    world.engine.leave("the consumer is being closed", world.now)
    while world.engine.rebalances.is_active:
        callback = world.engine.next_callback(world.now)
        if callback is not None:
            world.callbacks.append((callback.kind, [each.partition for each in callback.partitions]))
        world.settle()
    assert world.engine.is_leaving is False
    assert (world.committed[T0].offset, world.callbacks[-1], world.count(LeaveGroup)) == (3, ("revoked", [0]), 1)
    assert world.engine.subscriptions.is_empty


def test_ends_of_partitions_are_reported_once(new_world: Callable[..., Any]) -> None:
    world = new_world(reports_ends=True)
    world.add_records(T0, 3)
    world.engine.subscribe(["t"], [])
    assert len(world.offsets(world.poll())) == 3
    for _ in range(3):
        world.settle()
        world.end_fetches()
    assert world.engine.take_events() == [PartitionEnd(T0, 3)]


@pytest.mark.conformance("FetcherTest.testUnauthorizedTopic")
def test_a_partition_that_may_not_be_read_is_reported_and_tried_again(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 1)
    refused = PartitionResponse(T0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    world.errors[Fetch] = [FetchResponse((refused,), {})] * 3
    world.engine.subscribe(["t"], [])
    world.poll()
    assert [event.error for event in world.engine.take_events()] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert world.count(Fetch) == 1
    for _ in range(3):
        world.settle(1_000)
    assert [event.error for event in world.engine.take_events()] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED], "not more than one waits"
    assert world.offsets(world.poll()) == [0]


@pytest.mark.conformance("FetcherTest.testFetchDisconnected")
@pytest.mark.parametrize("kind", [Metadata, OffsetFetch, ListOffsets, Fetch, JoinGroup])
def test_a_request_that_is_lost_is_repeated(new_world: Callable[..., Any], kind: type) -> None:
    world = new_world()
    world.add_records(T0, 3)
    world.errors[kind] = ["lost"]
    world.engine.subscribe(["t"], [])
    found: list[int] = []
    for _ in range(12):
        found += world.offsets(world.poll())
        world.now = max(world.now + 50, world.engine.next_ms(world.now) or 0)
    assert found == [0, 1, 2]
    assert world.count(kind) >= 2


@pytest.mark.conformance("SubscriptionStateTest.partitionAssignment")
def test_assigned_by_hand(new_world: Callable[..., Any]) -> None:
    world = new_world(topics={"t": 2})
    world.add_records(T1, 9)
    world.engine.assign({T1: OffsetAndMetadata(7)})
    assert world.offsets(world.poll()) == [7, 8]
    commit = world.engine.commits.commit(Commit({T1: OffsetAndMetadata(9)}))
    world.settle()
    assert commit.is_done
    assert commit.error is ErrorCode.NONE
    assert world.count(JoinGroup) == 0
    world.engine.unassign([T1])
    assert world.engine.subscriptions.is_empty


def test_there_is_news_when_the_application_has_something_to_do(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.engine.subscribe(["t"], [])
    world.settle()
    assert world.engine.has_news(), "the first join needs a poll"
    world.poll()
    assert not world.engine.has_news()
    world.add_records(T0, 1)
    world.end_fetches()
    assert world.engine.has_news()


def take_row(world: Any) -> int:
    """The offset of the next record of the run, as the application takes it without the lock."""
    run = world.engine.run
    return int(run.columns.offset(run.rows.popleft()))


def has_run(world: Any) -> bool:
    world.engine.settle()
    world.engine.start_run(world.now)
    return bool(world.engine.run.rows)


def test_positions_follow_a_run_when_it_is_settled(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 10)
    world.engine.subscribe(["t"], [])
    assert world.offsets(world.poll(1)) == [0]
    assert has_run(world)
    assert [take_row(world), take_row(world)] == [1, 2]
    world.engine.settle()
    state = world.engine.subscriptions.partitions[T0]
    assert (state.position, state.stored) == (3, OffsetAndMetadata(3, 0))
    assert not world.engine.run.rows
    assert world.offsets(world.poll()) == list(range(3, 10))
    assert not has_run(world), "nothing is left"


def test_a_run_to_the_end_of_a_fetch_makes_the_next_one_due(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 150)
    world.engine.subscribe(["t"], [])
    offsets = world.offsets(world.poll(1))
    while len(offsets) < 150:
        while not has_run(world):
            offsets += world.offsets(world.poll(1))
            if len(offsets) == 150:
                break
        while world.engine.run.rows:
            offsets.append(take_row(world))
    assert offsets == list(range(150))


def test_a_run_grows_while_it_is_used_up(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 100)
    world.engine.subscribe(["t"], [])
    world.poll(1)
    assert has_run(world)
    sizes = [len(world.engine.run.rows)]
    for taken in (32, 0):
        for _ in range(taken):
            take_row(world)
        assert has_run(world)
        sizes.append(len(world.engine.run.rows))
    assert sizes == [32, 64, 32]


def test_a_run_ends_when_the_next_commit_is_due(new_world: Callable[..., Any]) -> None:
    world = new_world(auto_commit_interval_ms=40)
    world.add_records(T0, 10)
    world.engine.subscribe(["t"], [])
    world.poll(1)
    world.now += 10
    assert has_run(world)
    assert world.engine.run.ends_ms == 40
    take_row(world)
    world.now = 40
    world.engine.poll(world.now)
    world.settle()
    assert world.committed[T0].offset == 2
    world.engine.commits.poll(world.now)
    assert not has_run(world), "the result of the commit is reported first"
    world.engine.commits.finished.clear()
    assert has_run(world)


def test_a_poll_waits_until_a_commit_is_due_or_it_has_to_be_renewed(new_world: Callable[..., Any]) -> None:
    world = new_world(group={"max_poll_interval_ms": 10_000, "session_timeout_ms": 8_000}, auto_commit_interval_ms=3_000)
    world.add_records(T0, 2)
    world.engine.subscribe(["t"], [])
    assert world.engine.idle_ms(1_000) == 5_000, "there is nothing to commit"
    world.poll()
    assert world.engine.idle_ms(1_000) == 2_000
    assert world.engine.idle_ms(3_500) == 1, "the commit is overdue"
    assert world.engine.idle_ms(1_000, has_records=True) == 5_000, "records in hand are not processed yet"


def test_a_run_counts_as_polls(new_world: Callable[..., Any]) -> None:
    world = new_world(group={"max_poll_interval_ms": 10_000, "session_timeout_ms": 8_000})
    world.add_records(T0, 10)
    world.engine.subscribe(["t"], [])
    world.poll(1)
    assert has_run(world)
    take_row(world)
    world.engine.run.polled_ms = 90.0
    for _ in range(3):
        world.settle(2_999)
    world.settle(10_050 - world.now)
    assert world.count(LeaveGroup) == 0
    world.settle(40)
    assert world.count(LeaveGroup) == 1


@pytest.mark.parametrize("change", ["rebalance", "response"])
def test_a_run_ends_when_something_else_is_due(new_world: Callable[..., Any], change: str) -> None:
    world = new_world()
    world.add_records(T0, 10)
    world.engine.subscribe(["t"], [])
    world.poll(1)
    assert has_run(world)
    take_row(world)
    if change == "rebalance":
        world.engine.membership.request_rejoin("group is already rebalancing")
        world.settle()
    else:
        world.settle(3_000)
        assert world.count(Heartbeat) == 1
    assert not world.engine.run.rows
    assert world.engine.subscriptions.partitions[T0].position == 2


def test_a_seek_drops_a_run(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 10)
    world.engine.subscribe(["t"], [])
    world.poll(1)
    assert has_run(world)
    take_row(world)
    world.engine.settle()
    world.engine.seek(T0, OffsetAndMetadata(7))
    assert world.offsets(world.poll()) == [7, 8, 9]


def test_events_are_given_a_few_at_a_time(new_world: Callable[..., Any]) -> None:
    world = new_world(topics={"t": 2}, reset=None)
    world.engine.subscribe(["t"], [])
    world.poll()
    first, second = world.engine.take_events(1), world.engine.take_events(1)
    assert {event.partition for event in first + second} == {T0, T1}
    assert world.engine.take_events() == []


def test_records_that_cannot_be_read_are_an_error_until_the_application_seeks(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 10)
    good = world.fetched

    def damaged(fetch: Any) -> Any:
        found = good(fetch)
        data = bytearray(found.records)
        data[-1] ^= 1
        return found._replace(records=memoryview(bytes(data))) if fetch.offset < 5 else found

    world.fetched = damaged
    world.engine.subscribe(["t"], [])

    def fails() -> bool:
        world.settle(10)
        try:
            world.poll()
        except UndecodableRecords as error:
            return "t-0 cannot be read from offset 0 on" in str(error)
        return False

    errors = sum(fails() for _ in range(200))  # an application that polls again at once, for 2 s
    assert 3 <= errors <= 8, "each fetch waits longer than the one before, up to a second"
    assert world.count(Fetch) <= errors + 2
    world.engine.seek(T0, OffsetAndMetadata(5))
    assert world.offsets(world.poll()) == [5, 6, 7, 8, 9]


def test_without_a_group_every_partition_is_read(new_world: Callable[..., Any]) -> None:
    world = new_world(group={"group_id": ""}, topics={"t": 2, "u": 1})
    world.add_records(T0, 3)
    world.add_records(T1, 2)
    world.engine.subscribe(["t"], [])
    assert sorted(world.offsets(world.poll())) == [0, 0, 1, 1, 2]
    assert world.callbacks == []
    assert world.count(OffsetFetch) == world.count(JoinGroup) == 0
    world.engine.subscribe([], [re.compile("u")])
    world.add_records(U0, 1)
    world.now += 1_000
    world.settle()
    assert set(world.engine.subscriptions.partitions) == {U0}
    world.end_fetches()
    assert world.offsets(world.poll()) == [0]
    world.engine.assign({T1: None})
    world.settle()
    world.end_fetches()
    assert world.offsets(world.poll()) == [0, 1]
    world.engine.leave("end", world.now)
    world.poll()
    assert world.count(LeaveGroup) == 0
    assert world.engine.subscriptions.is_empty


def test_records_of_some_partitions_alone(new_world: Callable[..., Any]) -> None:
    world = new_world(topics={"t": 2})
    world.add_records(T0, 3)
    world.add_records(T1, 3)
    world.engine.subscribe(["t"], [])
    world.poll(0)
    assert {part.partition for part in world.engine.take(100, among={T1})} == {T1}
    assert not world.engine.has_records({T1})
    assert world.engine.has_records({T0})
    assert world.engine.has_records()
    assert world.engine.subscriptions.partitions[T1].fetched_ms == world.now


def test_positions_that_were_reset_are_committed_where_that_is_wanted(new_world: Callable[..., Any]) -> None:
    world = new_world(stores_resets=True, auto_commit_interval_ms=0, reset=-1)
    world.add_records(T0, 4)
    world.engine.subscribe(["t"], [])
    world.poll()
    world.poll()
    world.settle()
    assert world.committed == {T0: OffsetAndMetadata(4, 0)}


def test_an_offset_out_of_range_without_a_reset_policy_is_reported_once(new_world: Callable[..., Any]) -> None:
    world = new_world(reset=None)
    world.add_records(T0, 3)
    world.committed[T0] = OffsetAndMetadata(7)
    world.engine.subscribe(["t"], [])
    world.poll()
    world.settle(1_000)
    (failure,) = world.engine.take_events()
    assert (failure.error, failure.why) == (ErrorCode.OFFSET_OUT_OF_RANGE, "the log has no offset 7, and auto.offset.reset is none")
    assert world.count(Fetch) == 1
    world.engine.seek(T0, OffsetAndMetadata(1))
    assert world.offsets(world.poll()) == [1, 2]


def test_a_topic_that_does_not_exist_is_reported_once_each_time(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.engine.subscribe(["t", "later"], [])

    def reported(error: ErrorCode) -> list[Any]:
        send = Send(Metadata(("later",)), Route.ANY, -1, 1_000)
        world.engine.on_response(send, MetadataResponse({}, (TopicMetadata("later", error),)), world.now)
        return world.engine.take_events()  # type: ignore[no-any-return]

    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reported(missing) == [TopicUnavailable("later", missing)]
    assert reported(missing) == []
    assert reported(ErrorCode.NONE) == []
    assert reported(missing) == [TopicUnavailable("later", missing)]
    world.engine.subscribe(["later"], [])
    assert reported(missing) == [TopicUnavailable("later", missing)], "it is new for this subscription"


def test_a_topic_that_does_not_exist_does_not_keep_others_waiting(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 1)
    world.engine.subscribe(["t", "later"], [])
    assert world.offsets(world.poll()) == [0]
    assert world.engine.take_events() == [TopicUnavailable("later", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_what_is_taken_back_comes_before_what_has_not_been_taken(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.engine.subscribe(["t", "x", "y", "z"], [])
    world.poll()
    first = world.engine.take_events(1)
    world.engine.take_back(first, {})
    assert [event.topic for event in world.engine.take_events()] == ["x", "y", "z"]


def test_topics_that_a_pattern_does_not_find_are_no_error(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.engine.subscribe([], [re.compile("^u")])
    world.poll()
    assert world.engine.take_events() == []


def test_the_rebalance_timeout_of_a_join(new_world: Callable[..., Any]) -> None:
    world = new_world(group={"rebalance_timeout_ms": 9_000})
    world.engine.subscribe(["t"], [])
    world.poll()
    (join,) = [request for request in world.sent if isinstance(request, JoinGroup)]
    assert join.rebalance_timeout_ms == 9_000
