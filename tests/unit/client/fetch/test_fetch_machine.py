"""The fetch machine against a cluster of values, in virtual time: every record comes once and in order, whatever the brokers do."""

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.fetch.fetch_machine import (
    ATTEMPTS_MIN,
    SHORT_MS,
    FetchMachine,
    PreferredReplica,
    RangeProgress,
    WholeBatches,
    scan_batches,
)
from ottla.client.fetch.fetch_values import (
    BULK_BYTES,
    BrokersUnreachable,
    FetchPolicy,
    FetchRange,
    Need,
    OffsetOutOfRange,
    PartitionFetch,
    PartitionRefused,
    PartitionResponse,
    RefreshMetadata,
    SendFetch,
    TopicRecreated,
    UnknownPartition,
)
from ottla.client.fetch.leaders import LeaderAndEpoch, Leaders, PartitionMetadata, TopicMetadata
from ottla.client.reactions import FETCH, UNKNOWN_TOPIC, Reaction
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import TopicPartition

RETRIED = frozenset(error for error, reaction in FETCH.named.items() if reaction in (Reaction.RETRY, Reaction.REFRESH))
NEW_SESSION = frozenset(error for error, reaction in FETCH.named.items() if reaction is Reaction.NEW_SESSION)
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
OK = ErrorCode.NONE


def batch(base: int, count: int, size: int = 0) -> bytes:
    """A header of format 2 with `size` bytes behind it."""
    return struct.pack(">qiibIhiqqqhii", base, 49 + size, 0, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count) + bytes(size)


@dataclass
class Log:
    """A partition: batches as (base offset, records, bytes); `end` is its high watermark, `stable` its last stable offset."""

    batches: list[tuple[int, int, int]]
    end: int
    start: int = 0
    stable: int | None = None
    leader: LeaderAndEpoch = field(default_factory=lambda: LeaderAndEpoch(1, 5))

    @property
    def log_end(self) -> int:
        """Behind the last record, which may be above the high watermark."""
        return max((base + count for base, count, _ in self.batches), default=0)

    def read(self, offset: int, bytes_max: int, at_least_one: bool, committed: bool) -> bytes:
        bound = self.end if self.stable is None or not committed else self.stable
        found = b""
        for base, count, size in self.batches:
            if base + count <= offset or base + count > bound:
                continue
            data = batch(base, count, size)
            if found and len(found) + len(data) > bytes_max:
                return found + data[: bytes_max - len(found)]
            if not found and len(data) > bytes_max and not at_least_one:
                return b""
            found += data
        return found


@dataclass
class World:
    """Brokers 1 to 3 with their logs. `failure(now)` may give an error code, "lost", "throttled", or None, for each request."""

    logs: dict[TopicPartition, Log]
    policy: FetchPolicy = field(default_factory=FetchPolicy)
    topic_ids: dict[str, str] = field(default_factory=lambda: {"t": "id-t", "u": "id-u"})
    failure: Callable[[float], Any] = lambda now: None
    metadata_failure: Callable[[float], Any] = lambda now: None
    now: float = 0.0
    asked: list[SendFetch] = field(default_factory=list)
    seen: list[tuple[TopicPartition, int, int]] = field(default_factory=list)
    followers: dict[int, Log] = field(default_factory=dict)
    """Of partition 0, by broker id; its leader names the first one whose log holds the offset."""

    def run(self, *ranges: FetchRange, leaders: Leaders | None = None, ms_max: float = 200_000) -> FetchMachine:
        machine = FetchMachine(ranges, policy=self.policy, leaders=leaders or Leaders(), rng=lambda: 0.5)
        waiting: list[SendFetch] = []
        while not machine.is_done and machine.problem is None:
            assert self.now < ms_max, "it hangs"
            for action in machine.next_actions(self.now):
                if isinstance(action, RefreshMetadata):
                    self.refresh(machine, action)
                else:
                    assert action.broker_id not in {each.broker_id for each in waiting}, "one request a broker"
                    waiting.append(action)
                    self.asked.append(action)
            if waiting:
                self.answer(machine, waiting.pop(0))
            elif machine.problem is None and not machine.is_done:
                wake = machine.next_action_ms(self.now)
                self.now = max(self.now, wake) if wake is not None else self.now + 0.1
        return machine

    def refresh(self, machine: FetchMachine, action: RefreshMetadata) -> None:
        self.now += 1
        failure = self.metadata_failure(self.now)
        if failure == "lost":
            machine.on_metadata_failure("no broker", self.now)
            return
        views = []
        for topic in action.topics:
            partitions = {each.partition: PartitionMetadata(OK, log.leader) for each, log in self.logs.items() if each.topic == topic}
            known = OK if partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            views.append(TopicMetadata(topic, failure or known, self.topic_ids.get(topic, ""), False, partitions))
        machine.on_metadata(views, self.now)

    def answer(self, machine: FetchMachine, send: SendFetch) -> None:
        failure = self.failure(self.now)
        self.now += 1
        if failure == "lost":
            machine.on_disconnect(send.broker_id, "gone", self.now)
            return
        answers, size = [], 0
        for ask in send.fetches:
            answer = self.part(send.broker_id, ask, failure, size)
            size += len(answer.records)
            answers.append(answer)
        if size == 0 and all(answer.error is OK for answer in answers):
            self.now += self.policy.max_wait_ms
        for records in machine.on_response(send.broker_id, [] if failure == "throttled" else answers, self.now):
            assert records.position < records.next_offset
            self.seen.append((records.partition, records.position, records.next_offset))

    def part(self, broker_id: int, ask: PartitionFetch, failure: Any, size: int) -> PartitionResponse:
        log = self.logs.get(ask.partition)
        if log is None:
            return PartitionResponse(ask.partition, ErrorCode.UNKNOWN_TOPIC_ID if ask.topic_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if isinstance(failure, ErrorCode):
            return PartitionResponse(ask.partition, failure)
        if ask.topic_id and ask.topic_id != self.topic_ids.get(ask.partition.topic):
            return PartitionResponse(ask.partition, ErrorCode.UNKNOWN_TOPIC_ID)
        if ask.partition == ZERO and broker_id in self.followers:
            log = self.followers[broker_id]
        elif broker_id != log.leader.broker_id:
            return PartitionResponse(ask.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif ask.partition == ZERO:
            for follower, other in self.followers.items():
                if other.start <= ask.offset <= other.log_end:
                    return PartitionResponse(ask.partition, OK, log.end, log.end, log.start, preferred_replica=follower)
        if not log.start <= ask.offset <= log.end:
            return PartitionResponse(ask.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        space = self.policy.max_bytes - size
        bytes_max = min(self.policy.partition_max_bytes, space)
        records = log.read(ask.offset, bytes_max, size == 0, self.policy.is_read_committed)
        stable = log.end if log.stable is None else log.stable
        return PartitionResponse(ask.partition, OK, log.end, stable, log.start, memoryview(records), ((7, 0),))

    def offsets(self, partition: TopicPartition) -> list[int]:
        """The offsets between the positions that were handed out, in their order."""
        return [offset for each, start, end in self.seen if each == partition for offset in range(start, end)]


def log_of(*sizes: int, **more: Any) -> Log:
    """One batch of ten records for each size."""
    return Log([(at * 10, 10, size) for at, size in enumerate(sizes)], len(sizes) * 10, **more)


def test_partitions_of_one_broker_share_a_request() -> None:
    world = World({TopicPartition("t", number): log_of(100, 100) for number in range(8)})
    machine = world.run(*(FetchRange(each, 0, 20, "id-t") for each in world.logs))
    assert machine.is_done
    assert [len(send.fetches) for send in world.asked] == [8]
    assert {ask.leader_epoch for ask in world.asked[0].fetches} == {5}
    assert all(world.offsets(each) == list(range(20)) for each in world.logs)


def test_surplus_records_are_handed_out_with_their_range() -> None:
    world = World({ZERO: log_of(0, 0, 0, 0)})
    world.run(FetchRange(ZERO, 15, 25))
    assert world.seen == [(ZERO, 15, 40)]


def test_ranges_of_one_partition_come_one_after_another_in_their_order() -> None:
    world = World({ZERO: log_of(*[0] * 10)})
    assert world.run(FetchRange(ZERO, 50, 60), FetchRange(ZERO, 0, 20), FetchRange(ZERO, 30, 30)).is_done
    assert [position for _, position, _ in world.seen] == [0, 50]


def test_a_batch_above_all_limits_still_comes() -> None:
    world = World({ZERO: log_of(50, 5_000, 50), ONE: log_of(5_000, 50, 5_000)}, FetchPolicy(max_bytes=1_000, partition_max_bytes=200))
    assert world.run(FetchRange(ZERO, 0, 30), FetchRange(ONE, 0, 30)).is_done
    assert world.offsets(ZERO) == world.offsets(ONE) == list(range(30))


def test_no_partition_starves_when_a_response_has_no_space_for_all() -> None:
    logs = {TopicPartition(topic, number): log_of(*[400] * 20) for topic in "tu" for number in range(4)}
    world = World(logs, FetchPolicy(max_bytes=1_000, partition_max_bytes=500))
    machine = world.run(*(FetchRange(each, 0, 200) for each in logs))
    assert machine.is_done
    last = {each: max(at for at, seen in enumerate(world.seen) if seen[0] == each) for each in logs}
    assert min(last.values()) > len(world.seen) * 3 // 4, "all advance at about the same pace"


@pytest.mark.conformance("FetcherTest.testFetchError", "FetcherTest.testFetchRequestInternalError", "FetcherTest.testCorruptMessageError")
@pytest.mark.parametrize("code", [*sorted(RETRIED), "lost", "throttled"])
def test_retriable_errors_are_retried(code: Any) -> None:
    world = World({ZERO: log_of(0, 0)}, failure=lambda now: code if now < 500 else None)
    assert world.run(FetchRange(ZERO, 0, 20, "id-t")).is_done
    assert world.offsets(ZERO) == list(range(20))
    assert 4 <= len(world.asked) <= 7, "waits grow"


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE])
def test_lasting_errors_end_the_read_after_the_timeout(code: ErrorCode) -> None:
    world = World({ZERO: log_of(0)}, FetchPolicy(api_timeout_ms=5_000), failure=lambda now: code)
    assert world.run(FetchRange(ZERO, 0, 10)).problem == PartitionRefused(ZERO, code)
    assert 5_000 <= world.now < 8_000


def test_a_broker_that_never_comes_back() -> None:
    world = World({ZERO: log_of(0)}, FetchPolicy(api_timeout_ms=5_000), failure=lambda now: "lost")
    assert world.run(FetchRange(ZERO, 0, 10)).problem == BrokersUnreachable("gone")
    world = World({ZERO: log_of(0)}, FetchPolicy(api_timeout_ms=5_000), metadata_failure=lambda now: "lost")
    assert world.run(FetchRange(ZERO, 0, 10)).problem == BrokersUnreachable("no broker")


def test_a_refusal_is_not_retried() -> None:
    world = World({ZERO: log_of(0)}, failure=lambda now: ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert world.run(FetchRange(ZERO, 0, 10)).problem == PartitionRefused(ZERO, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert len(world.asked) == 1
    world = World({ZERO: log_of(0)}, metadata_failure=lambda now: ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert world.run(FetchRange(ZERO, 0, 10)).problem == PartitionRefused(ZERO, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@pytest.mark.conformance(
    "FetcherTest.testWhenFetchResponseReturnsALeaderShipChangeErrorButNoNewLeaderInformation", "FetcherTest.testEpochSetInFetchRequest"
)
def test_a_moved_leader_is_looked_up() -> None:
    world = World({ZERO: log_of(0, leader=LeaderAndEpoch(2, 6)), ONE: log_of(0)})
    leaders = Leaders()
    leaders.update(
        [
            TopicMetadata(
                "t", OK, "id-t", False, {0: PartitionMetadata(OK, LeaderAndEpoch(1, 5)), 1: PartitionMetadata(OK, LeaderAndEpoch(1, 5))}
            )
        ]
    )
    assert world.run(FetchRange(ZERO, 0, 10), FetchRange(ONE, 0, 10), leaders=leaders).is_done
    assert [(send.broker_id, [ask.partition for ask in send.fetches]) for send in world.asked] == [(1, [ZERO, ONE]), (2, [ZERO])]
    assert leaders.leader(ZERO) == LeaderAndEpoch(2, 6)


def machine_of(*ranges: FetchRange, **policy: Any) -> FetchMachine:
    """A machine that knows broker 1 as the leader of all partitions, with epoch 5."""
    leaders = Leaders()
    leaders.update([TopicMetadata("t", OK, "id-t", False, {number: PartitionMetadata(OK, LeaderAndEpoch(1, 5)) for number in range(3)})])
    return FetchMachine(ranges, policy=FetchPolicy(**policy), leaders=leaders, rng=lambda: 0.5)


@pytest.mark.conformance("FetcherTest.testWhenFetchResponseReturnsALeaderShipChangeErrorAndNewLeaderInformation")
def test_a_leader_that_a_response_names_is_used_at_once() -> None:
    machine = machine_of(FetchRange(ZERO, 0, 10))
    machine.next_actions(0)
    machine.on_response(1, [PartitionResponse(ZERO, ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=LeaderAndEpoch(3, 6))], 1)
    assert machine.next_actions(1) == [SendFetch(3, (PartitionFetch(ZERO, 0, 6, "id-t"),))]


def test_brokers_that_keep_naming_each_other_are_retried_with_back_off() -> None:
    machine, now = machine_of(FetchRange(ZERO, 0, 10)), 100_000
    for epoch in range(6, 10):
        (send,) = machine.next_actions(now)
        assert isinstance(send, SendFetch)
        machine.on_response(
            send.broker_id, [PartitionResponse(ZERO, ErrorCode.FENCED_LEADER_EPOCH, current_leader=LeaderAndEpoch(epoch, epoch))], now
        )
    assert machine.next_actions(now) == []
    assert machine.next_action_ms(now) is not None
    assert machine.problem is None


def test_a_partition_is_in_one_request_at_a_time() -> None:
    machine = machine_of(FetchRange(ZERO, 10, 20, "id-t"))
    assert machine.resume(3, (PartitionFetch(ZERO, 10, 4, "id-t"),))
    assert machine.next_actions(0) == [], "broker 1 leads now, but an answer of broker 3 is on its way"
    machine.on_response(3, [PartitionResponse(ZERO, ErrorCode.NOT_LEADER_OR_FOLLOWER)], 0)
    assert machine.next_actions(0) == []
    assert machine.next_actions(100) == [RefreshMetadata(("t",))]


def test_a_broker_with_old_metadata_does_not_make_a_topic_re_created() -> None:
    world = World({ZERO: log_of(0)}, topic_ids={"t": "id-old"})

    def catch_up(now: float) -> None:
        world.topic_ids["t"] = "id-old" if now < 50 else "id-t"

    world.metadata_failure = catch_up
    assert world.run(FetchRange(ZERO, 0, 10, "id-t")).is_done


def test_the_next_request_is_sent_before_records_are_processed() -> None:
    machine = machine_of(FetchRange(ZERO, 0, 20))
    machine.next_actions(0)
    answer = PartitionResponse(ZERO, OK, 20, 20, 0, memoryview(batch(0, 10)))
    assert [records.next_offset for records in machine.on_response(1, [answer], 1)] == [10]
    assert machine.next_actions(1) == [SendFetch(1, (PartitionFetch(ZERO, 10, 5, "id-t"),))]


@pytest.mark.parametrize(
    "batches",
    [
        [(0, 10, 0)],  # the tail was compacted away
        [(0, 10, 0), (90, 10, 0)],  # what lies behind begins after the range
        [(0, 10, 0), (10, 90, 0)],  # one batch of few records that reaches to the end
    ],
)
def test_a_range_with_an_empty_tail_ends(batches: list[tuple[int, int, int]]) -> None:
    world = World({ZERO: Log(batches, 100)})
    assert world.run(FetchRange(ZERO, 0, 50)).is_done
    assert world.seen[-1][2] >= 50, "the reader gets the end of the range"
    assert world.now < 5_000


def test_a_full_response_is_not_an_empty_partition() -> None:
    machine = machine_of(FetchRange(ZERO, 0, 20), FetchRange(ONE, 0, 20))
    empty = PartitionResponse(ONE, OK, 20, 20, 0)
    machine.next_actions(0)
    machine.on_response(1, [PartitionResponse(ZERO, OK, 20, 20, 0, memoryview(batch(0, 10))), empty], 0)
    for at, asked_at in enumerate((0, 19)):
        assert not machine.is_done
        assert machine.next_actions(0) == [
            SendFetch(1, (PartitionFetch(ONE, asked_at, 5, "id-t"), PartitionFetch(ZERO, 10 + 5 * at, 5, "id-t")))
        ]
        machine.on_response(1, [empty, PartitionResponse(ZERO, OK, 20, 20, 0, memoryview(batch(10 + 5 * at, 5)))], 0)
    assert machine.is_done


def test_empty_responses_do_not_count_where_the_end_has_records() -> None:
    machine, now, empties = machine_of(FetchRange(ZERO, 0, 20), api_timeout_ms=60_000), 0.0, 0
    seen: list[tuple[int, int]] = []
    while not machine.is_done:
        for send in machine.next_actions(now):
            assert isinstance(send, SendFetch)
            (ask,) = send.fetches
            is_slow = ask.offset == 0 and empties < 5
            empties += is_slow
            records = b"" if is_slow else batch(ask.offset // 10 * 10, 10)
            found = machine.on_response(1, [PartitionResponse(ZERO, OK, 30, 30, 0, memoryview(records))], now)
            seen.extend((each.position, each.next_offset) for each in found)
        now = machine.next_action_ms(now) or now
    assert machine.problem is None
    assert seen == [(0, 10), (10, 20)]


def test_a_leader_with_an_older_end_is_retried() -> None:
    machine = machine_of(FetchRange(ZERO, 0, 20))
    assert machine.next_actions(0) == [SendFetch(1, (PartitionFetch(ZERO, 0, 5, "id-t"),))]
    machine.on_response(1, [PartitionResponse(ZERO, OK, 30, 30, 0)], 0)
    assert machine.next_actions(0) == [SendFetch(1, (PartitionFetch(ZERO, 29, 5, "id-t"),))]
    machine.on_response(1, [PartitionResponse(ZERO, ErrorCode.OFFSET_OUT_OF_RANGE)], 0)
    assert machine.next_actions(1_000) == [SendFetch(1, (PartitionFetch(ZERO, 0, 5, "id-t"),))]


def test_a_name_with_another_topic_id_is_looked_up_before_it_is_fetched() -> None:
    leaders = Leaders()
    leaders.update([TopicMetadata("t", OK, "id-t", False, {0: PartitionMetadata(OK, LeaderAndEpoch(1, 5))})])
    world = World({ZERO: log_of(0)})
    assert world.run(FetchRange(ZERO, 0, 10, "id-old"), leaders=leaders).problem == TopicRecreated("t", "id-old", "id-t")
    assert world.asked == []


def test_a_truncated_log_is_a_problem_after_a_while() -> None:
    world = World({ZERO: log_of(0, 0)})
    assert world.run(FetchRange(ZERO, 10, 99)).problem == OffsetOutOfRange(ZERO, 20, 0, 20)
    assert 1_000 <= world.now < 4_000


def test_a_high_watermark_that_lags_behind_a_new_leader_is_waited_for() -> None:
    log = log_of(0, 0)
    world = World({ZERO: log})
    log.end = 10

    def grow(now: float) -> None:
        log.end = 20 if now > 800 else 10

    world.failure = grow
    assert world.run(FetchRange(ZERO, 0, 20)).is_done


def test_offsets_that_the_broker_does_not_hold() -> None:
    world = World({ZERO: log_of(0, 0, start=15)})
    assert world.run(FetchRange(ZERO, 10, 20)).problem == OffsetOutOfRange(ZERO, 10, -1, -1)


def test_committed_records_end_at_the_stable_offset_with_aborted_transactions() -> None:
    world = World({ZERO: log_of(0, 0, 0, stable=20)}, FetchPolicy(is_read_committed=True))
    assert world.run(FetchRange(ZERO, 0, 20)).is_done
    assert world.offsets(ZERO) == list(range(20))
    waiting = World({ZERO: log_of(0, 0, 0, stable=20)}, FetchPolicy(is_read_committed=True, api_timeout_ms=4_000))
    assert waiting.run(FetchRange(ZERO, 0, 30)).problem == PartitionRefused(ZERO, ErrorCode.OFFSET_NOT_AVAILABLE)


def test_a_re_created_topic() -> None:
    world = World({ZERO: log_of(0)})
    assert world.run(FetchRange(ZERO, 0, 10, "id-old")).problem == TopicRecreated("t", "id-old", "id-t")
    assert world.now < 500
    leaders = Leaders()
    leaders.update([TopicMetadata("t", OK, "id-old", False, {0: PartitionMetadata(OK, LeaderAndEpoch(1, 5))})])
    again = World({ZERO: log_of(0)})
    assert again.run(FetchRange(ZERO, 0, 10, "id-old"), leaders=leaders).problem == TopicRecreated("t", "id-old", "id-t")


def test_a_topic_that_is_re_created_during_a_read_without_its_id() -> None:
    world = World({ZERO: log_of(*[0] * 5)}, FetchPolicy(partition_max_bytes=10))

    def remade(now: float) -> None:
        world.topic_ids["t"] = "id-new" if now > 3 else "id-t"

    world.failure = remade
    assert world.run(FetchRange(ZERO, 0, 50)).problem == TopicRecreated("t", "id-t", "id-new")


def test_a_deleted_topic() -> None:
    assert World({}).run(FetchRange(ZERO, 0, 10)).problem == UnknownPartition(ZERO)
    assert World({}).run(FetchRange(ZERO, 0, 10, "id-t")).problem == TopicRecreated("t", "id-t", "")
    assert World({ONE: log_of(0)}).run(FetchRange(ZERO, 0, 10)).problem == UnknownPartition(ZERO)


def test_a_prefetch_request_is_resumed() -> None:
    machine = machine_of(FetchRange(ZERO, 10, 30, "id-t"), FetchRange(ONE, 0, 10, "id-t"))
    ahead = (PartitionFetch(ZERO, 10, 5, "id-t"), PartitionFetch(ONE, 5, 5, "id-t"), PartitionFetch(TopicPartition("t", 2), 0, 5, "id-t"))
    assert machine.resume(1, ahead)
    assert machine.next_actions(0) == []
    answers = [PartitionResponse(ask.partition, OK, 30, 30, 0, memoryview(batch(ask.offset, 10))) for ask in ahead]
    assert [(each.partition, each.position) for each in machine.on_response(1, answers, 1)] == [(ZERO, 10)]
    assert machine.next_actions(1) == [SendFetch(1, (PartitionFetch(ONE, 0, 5, "id-t"), PartitionFetch(ZERO, 20, 5, "id-t")))]


def test_a_prefetch_request_for_other_ranges_is_not_resumed() -> None:
    machine = machine_of(FetchRange(ZERO, 10, 20, "id-t"))
    assert not machine.resume(1, (PartitionFetch(ZERO, 11, 5, "id-t"),))
    assert not machine.resume(1, (PartitionFetch(ZERO, 10, 5, "id-old"),))
    assert len(machine.next_actions(0)) == 1


def test_a_lost_prefetch_request_is_forgotten() -> None:
    machine = machine_of(FetchRange(ZERO, 10, 20, "id-t"))
    assert machine.resume(1, (PartitionFetch(ZERO, 10, 5, "id-t"),))
    machine.on_disconnect(1, "gone", 0)
    machine.next_actions(1_000)
    machine.on_metadata([TopicMetadata("t", OK, "id-t", False, {0: PartitionMetadata(OK, LeaderAndEpoch(1, 5))})], 1_000)
    for _ in range(2):  # as many empty answers as say that nothing is there
        assert not machine.is_done
        assert len(machine.next_actions(1_000)) == 1
        machine.on_response(1, [PartitionResponse(ZERO, OK, 20, 20, 0)], 1_000)
    assert machine.is_done


def test_an_empty_response_to_a_prefetch_costs_no_wait() -> None:
    machine = machine_of(FetchRange(ZERO, 10, 20, "id-t"))
    assert machine.resume(1, (PartitionFetch(ZERO, 10, 5, "id-t"),))
    machine.on_response(1, [PartitionResponse(ZERO, OK, 10, 10, 0)], 1)
    assert machine.next_actions(1) == [SendFetch(1, (PartitionFetch(ZERO, 10, 5, "id-t"),))]


@pytest.mark.parametrize(
    "answers",
    [
        [PartitionResponse(ONE, OK, 1, 1, 0)],
        [PartitionResponse(ZERO, OK, 1, 1, 0), PartitionResponse(ZERO, OK, 1, 1, 0)],
        [PartitionResponse(ZERO, OK, 9, 9, 0, memoryview(batch(0, 3)))],
        [PartitionResponse(ZERO, OK, 9, 9, 0, memoryview(bytes(100)))],
    ],
)
def test_a_malformed_response(answers: list[PartitionResponse]) -> None:
    machine = machine_of(FetchRange(ZERO, 5, 10))
    machine.next_actions(0)
    with pytest.raises(PeerError):
        machine.on_response(1, answers, 1)


def test_a_broker_that_does_not_wait_for_records_is_asked_less_often() -> None:
    machine, now, requests = machine_of(max_wait_ms=500), 0.0, 0
    machine.add(ZERO, 5)
    for _ in range(2_000):  # 2 s
        now += 1
        if machine.next_actions(now):
            requests += 1
            assert machine.on_response(1, [PartitionResponse(ZERO, OK, 9, 9, 0)], now) == []
    assert 5 <= requests <= 12
    machine.set_need(ZERO, Need.NOT)
    machine.set_need(ZERO, Need.NOW)
    for _ in range(20):  # one that waits is asked again at once
        now += 1_000
        (action,) = machine.next_actions(now)
        assert isinstance(action, SendFetch)
        machine.on_response(1, [PartitionResponse(ZERO, OK, 5, 5, 0)], now + 500)
        assert machine.next_action_ms(now + 500) is None


@pytest.mark.parametrize("nonsense", [bytes(100), batch(0, 3), batch(7, 2) + batch(0, 9)])
def test_what_one_partition_has_wrong_costs_no_records_of_the_others(nonsense: bytes) -> None:
    machine = machine_of(FetchRange(ZERO, 0, 10), FetchRange(ONE, 5, 10))
    (sent,) = machine.next_actions(0)
    assert isinstance(sent, SendFetch)
    with pytest.raises(PeerError):
        machine.on_response(
            1,
            [PartitionResponse(ZERO, OK, 9, 9, 0, memoryview(batch(0, 9))), PartitionResponse(ONE, OK, 9, 9, 0, memoryview(nonsense))],
            1,
        )
    assert machine.position(ZERO) == 0


def test_a_first_batch_that_never_comes_whole_is_a_problem() -> None:
    machine, now = machine_of(FetchRange(ZERO, 0, 10), api_timeout_ms=1_000), 0.0
    while machine.problem is None:
        for send in machine.next_actions(now):
            assert isinstance(send, SendFetch)
            machine.on_response(1, [PartitionResponse(ZERO, OK, 10, 10, 0, memoryview(batch(0, 10, 500)[:300]))], now)
        now = machine.next_action_ms(now) or now
    assert machine.problem == PartitionRefused(ZERO, ErrorCode.RECORD_LIST_TOO_LARGE)


def troubles(seed: int) -> Iterator[Any]:
    """Three requests in ten fail; never twice in a row by an unknown topic, which is a problem after a while."""
    rng = random.Random(seed)
    codes = [*sorted(RETRIED), "lost", "throttled"]
    while True:
        yield (code := rng.choice(codes) if rng.random() < 0.3 else None)
        if code in UNKNOWN_TOPIC:
            yield None


@given(st.integers(0, 2**32), st.data())
def test_every_record_comes_once_and_in_order_through_any_failures(seed: int, data: st.DataObject) -> None:
    logs = {}
    for number in range(data.draw(st.integers(1, 4))):
        sizes = data.draw(st.lists(st.sampled_from([0, 50, 300, 3_000]), min_size=1, max_size=8))
        logs[TopicPartition("t", number)] = log_of(*sizes, leader=LeaderAndEpoch(data.draw(st.integers(1, 3)), 5))
    stream, moves = troubles(seed), random.Random(seed)
    policy = FetchPolicy(max_bytes=data.draw(st.sampled_from([100, 1_000, 10_000])), partition_max_bytes=200, metadata_max_age_ms=50)
    world = World(logs, policy)
    if data.draw(st.booleans()):  # a follower of partition 0, which may have less of the log and know less of what it has
        copied = logs[ZERO].batches[: data.draw(st.integers(0, len(logs[ZERO].batches)))]
        world.followers[4] = Log(copied, 10 * data.draw(st.integers(0, len(copied))))

    def failure(now: float) -> Any:
        if now > 10_000:
            world.followers.clear()
        log = logs[moves.choice(sorted(logs))]
        if moves.random() < 0.2:
            log.leader = LeaderAndEpoch(moves.randint(1, 3), log.leader.epoch + 1)
        return next(stream) if now < 20_000 else None

    world.failure = failure
    wanted = {}
    for each, log in logs.items():
        start = data.draw(st.integers(0, log.end - 1))
        wanted[each] = (start, data.draw(st.integers(start + 1, log.end)))
    machine = world.run(*(FetchRange(each, *bounds, "id-t") for each, bounds in wanted.items()))
    assert machine.is_done
    for each, (start, end) in wanted.items():
        offsets = world.offsets(each)
        assert offsets == list(range(start, start + len(offsets)))
        assert len(offsets) >= end - start


def test_bulk_requests_while_much_data_is_expected() -> None:
    size = BULK_BYTES // 4
    world = World({ZERO: Log([(10 * number, 10, size) for number in range(20)], 200)}, FetchPolicy(partition_max_bytes=4 * (size + 61)))
    world.run(FetchRange(ZERO, 0, 200))
    asked = [(send.fetches[0].offset, send.is_bulk) for send in world.asked]
    assert asked == [(0, False), (40, True), (80, True), (120, True), (160, False)], "the first is not known to be one of many"


def test_small_or_doubted_ranges_are_no_bulk() -> None:
    world = World({ZERO: Log([(10 * number, 10, 1_000) for number in range(20)], 200)}, FetchPolicy(partition_max_bytes=3_000))
    world.run(FetchRange(ZERO, 0, 200))
    assert len(world.asked) > 5
    assert not any(send.is_bulk for send in world.asked)
    # Large ones, and then nothing up to the end: whether there is nothing is no question of size.
    world = World({ZERO: Log([(10 * number, 10, BULK_BYTES) for number in range(5)], 1_000)}, FetchPolicy(partition_max_bytes=BULK_BYTES))
    world.run(FetchRange(ZERO, 0, 1_000))
    assert [(send.fetches[0].offset, send.is_bulk) for send in world.asked[5:]] == [(50, True), (999, False)]


class Open:
    """A machine of open ranges, by hand: partition 0 of topic t has leader 1, partition 1 has leader 2."""

    def __init__(self) -> None:
        self.leaders = Leaders()
        partitions = {0: PartitionMetadata(OK, LeaderAndEpoch(1, 5)), 1: PartitionMetadata(OK, LeaderAndEpoch(2, 5))}
        self.leaders.update([TopicMetadata("t", OK, "", partitions=partitions)])
        self.machine = FetchMachine((), policy=FetchPolicy(), leaders=self.leaders, rng=lambda: 0.5)

    def fetches(self, now: float = 0) -> list[tuple[TopicPartition, int]]:
        actions = self.machine.next_actions(now)
        assert all(isinstance(action, SendFetch) and not action.is_bulk for action in actions)
        return [(fetch.partition, fetch.offset) for action in actions for fetch in action.fetches]  # type: ignore[union-attr]

    def answer(self, partition: TopicPartition, data: bytes = b"", error: ErrorCode = OK, now: float = 0) -> list[int]:
        response = PartitionResponse(partition, error, high_watermark=1_000, records=memoryview(data))
        return [found.next_offset for found in self.machine.on_response(1 + partition.partition, [response], now)]


def test_open_ranges_go_on() -> None:
    open_ranges = Open()
    open_ranges.machine.add(ZERO, 5)
    assert open_ranges.fetches() == [(ZERO, 5)]
    assert open_ranges.answer(ZERO, batch(5, 3)) == [8]
    assert open_ranges.machine.position(ZERO) == 8
    assert open_ranges.fetches() == [(ZERO, 8)]
    assert open_ranges.answer(ZERO) == []
    assert open_ranges.fetches() == [(ZERO, 8)], "an empty response is nothing special"


def test_open_ranges_are_added_and_removed_while_others_are_read() -> None:
    open_ranges = Open()
    open_ranges.machine.add(ZERO, 0)
    assert open_ranges.fetches() == [(ZERO, 0)]
    open_ranges.machine.add(ONE, 7)
    assert open_ranges.fetches() == [(ONE, 7)]
    open_ranges.machine.remove(ZERO)
    assert open_ranges.machine.position(ZERO) == -1
    assert open_ranges.answer(ZERO, batch(0, 3)) == [], "what comes for it is dropped"
    assert open_ranges.fetches() == []


@pytest.mark.conformance("FetcherTest.testStaleOutOfRangeError")
def test_a_seek_drops_the_response_that_is_on_its_way() -> None:
    open_ranges = Open()
    open_ranges.machine.add(ZERO, 0)
    open_ranges.fetches()
    open_ranges.machine.add(ZERO, 50)
    assert open_ranges.fetches() == [], "the broker's connection is in use"
    assert open_ranges.answer(ZERO, batch(0, 3)) == []
    assert open_ranges.fetches() == [(ZERO, 50)]


@pytest.mark.parametrize("need", [Need.NOT, Need.WITH_OTHERS])
def test_a_range_that_is_not_needed_is_not_fetched(need: Need) -> None:
    open_ranges = Open()
    open_ranges.machine.add(ZERO, 0)
    assert not open_ranges.machine.set_need(ZERO, need)
    assert open_ranges.fetches() == []
    assert open_ranges.machine.set_need(ZERO, Need.NOW)
    assert not open_ranges.machine.set_need(ZERO, Need.NOW), "it was fetched already"
    assert open_ranges.fetches() == [(ZERO, 0)]


def test_a_range_is_fetched_with_others() -> None:
    open_ranges = Open()
    open_ranges.leaders.update_leader(ONE, LeaderAndEpoch(1, 6))
    for partition in (ZERO, ONE):
        open_ranges.machine.add(partition, 0)
    open_ranges.machine.set_need(ZERO, Need.WITH_OTHERS)
    assert sorted(open_ranges.fetches()) == [(ZERO, 0), (ONE, 0)]


def test_a_range_that_waits_for_others_neither_looks_for_its_leader_nor_wakes() -> None:
    machine = FetchMachine((), policy=FetchPolicy(), leaders=Leaders(), rng=lambda: 0.5)
    machine.add(ZERO, 0)
    machine.next_actions(0)
    machine.on_metadata_failure("no broker", 0)
    assert machine.next_action_ms(0) is not None
    machine.set_need(ZERO, Need.WITH_OTHERS)
    assert machine.next_action_ms(0) is None
    assert machine.next_actions(10_000) == []


@pytest.mark.conformance("FetcherTest.testHandleFetchResponseError")
@pytest.mark.parametrize("error", sorted(RETRIED))
def test_an_open_range_is_retried_without_end(error: ErrorCode) -> None:
    open_ranges = Open()
    open_ranges.machine.add(ZERO, 0)
    now = 0.0
    for _ in range(20):
        now += 100_000
        actions = open_ranges.machine.next_actions(now)
        if actions == [RefreshMetadata(("t",))]:
            open_ranges.machine.on_metadata_failure("no broker", now)
        elif actions:
            open_ranges.answer(ZERO, error=error, now=now)
    assert open_ranges.machine.take_problems() == []
    assert open_ranges.machine.problem is None


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, OffsetOutOfRange(ZERO, 3, -1, 1_000)),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, PartitionRefused(ZERO, ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
        (ErrorCode.CORRUPT_MESSAGE, PartitionRefused(ZERO, ErrorCode.CORRUPT_MESSAGE)),
    ],
)
def test_a_problem_concerns_one_open_range_alone(error: ErrorCode, problem: object) -> None:
    open_ranges = Open()
    open_ranges.machine.add(ZERO, 3)
    open_ranges.machine.add(ONE, 0)
    assert open_ranges.fetches() == [(ZERO, 3), (ONE, 0)]
    open_ranges.answer(ZERO, error=error)
    assert open_ranges.machine.take_problems() == [(ZERO, problem)]
    assert open_ranges.machine.take_problems() == []
    assert open_ranges.machine.problem is None
    assert open_ranges.answer(ONE, batch(0, 1)) == [1]
    assert open_ranges.fetches() == [(ONE, 1)]
    assert open_ranges.answer(ONE, batch(1, 1), now=2_000) == [2]
    is_over = isinstance(problem, OffsetOutOfRange)
    assert open_ranges.fetches(2_000) == [(ONE, 2)] if is_over else [(ONE, 2), (ZERO, 3)]


def brokers_asked(world: World) -> list[int]:
    return [send.broker_id for send in world.asked]


@pytest.mark.conformance("FetcherTest.testPreferredReadReplica")
def test_a_follower_that_the_leader_names_is_read() -> None:
    world = World({ZERO: log_of(*[400] * 5)}, FetchPolicy(partition_max_bytes=500), followers={2: log_of(*[400] * 5)})
    assert world.run(FetchRange(ZERO, 0, 50)).is_done
    assert world.offsets(ZERO) == list(range(50))
    assert brokers_asked(world) == [1, 2, 2, 2, 2, 2]


def test_the_leader_is_asked_again_when_the_metadata_is_old() -> None:
    policy = FetchPolicy(partition_max_bytes=500, metadata_max_age_ms=3)
    world = World({ZERO: log_of(*[400] * 8)}, policy, followers={2: log_of(*[400] * 8)})
    assert world.run(FetchRange(ZERO, 0, 80)).is_done
    assert brokers_asked(world)[:8] == [1, 2, 2, 2, 2, 1, 2, 2]


def test_a_follower_whose_log_ends_too_early_is_given_up() -> None:
    world = World({ZERO: log_of(*[400] * 4)}, FetchPolicy(partition_max_bytes=500), followers={2: log_of(400, 400)})

    def fall_out_of_sync(now: float) -> None:
        if now > 2_000:
            world.followers.clear()

    world.failure = fall_out_of_sync
    assert world.run(FetchRange(ZERO, 0, 40)).is_done
    assert world.offsets(ZERO) == list(range(40))


def test_a_follower_whose_high_watermark_lags_behind_is_waited_for() -> None:
    lagging = log_of(400, 400)
    lagging.end = 10
    world = World({ZERO: log_of(400, 400)}, FetchPolicy(partition_max_bytes=500), followers={2: lagging})

    def catch_up(now: float) -> None:
        lagging.end = 20 if now > 2_000 else 10

    world.failure = catch_up
    assert world.run(FetchRange(ZERO, 0, 20)).is_done
    assert world.offsets(ZERO) == list(range(20))


@pytest.mark.conformance(
    "FetcherTest.testFetchDisconnectedShouldClearPreferredReadReplica",
    "FetcherTest.testFetchErrorShouldClearPreferredReadReplica",
    "FetcherTest.testPreferredReadReplicaOffsetError",
)
@pytest.mark.parametrize("failure", [*sorted((RETRIED - UNKNOWN_TOPIC) | {ErrorCode.OFFSET_OUT_OF_RANGE}), "lost"])
def test_a_follower_that_fails_is_given_up(failure: Any) -> None:
    world = World({ZERO: log_of(*[400] * 3)}, FetchPolicy(partition_max_bytes=500), followers={2: log_of(*[400] * 3)})
    failures = iter([None, failure])
    world.failure = lambda now: next(failures, None)
    assert world.run(FetchRange(ZERO, 0, 30)).is_done
    assert world.offsets(ZERO) == list(range(30))
    assert brokers_asked(world)[:4] == [1, 2, 1, 2]


def test_a_new_leader_is_asked_which_follower_to_read() -> None:
    world = World({ZERO: log_of(*[400] * 3)}, FetchPolicy(partition_max_bytes=500), followers={2: log_of(*[400] * 3)})
    leaders = Leaders()
    moved = iter([None, None, LeaderAndEpoch(3, 9)])

    def move(now: float) -> None:
        leader = next(moved, None)
        if leader is not None:
            world.logs[ZERO].leader = leader
            leaders.update_leader(ZERO, leader)

    world.failure = move
    assert world.run(FetchRange(ZERO, 0, 30), leaders=leaders).is_done
    assert brokers_asked(world) == [1, 2, 2, 3, 2]


@pytest.mark.parametrize("named", [1, 3])
def test_a_broker_that_names_itself_is_no_follower(named: int) -> None:
    """And one that does not lead the partition names no follower: the metadata is out of date."""
    leaders = Leaders()
    leaders.update_leader(ZERO, LeaderAndEpoch(1, 5))
    machine = FetchMachine([FetchRange(ZERO, 0)], policy=FetchPolicy(), leaders=leaders, rng=lambda: 0.5)
    machine.next_actions(0)
    if named != 1:
        leaders.update_leader(ZERO, LeaderAndEpoch(2, 6))
    machine.on_response(1, [PartitionResponse(ZERO, OK, 10, 10, 0, preferred_replica=named)], 0)
    assert machine.next_actions(0) == []
    assert machine.next_actions(1_000) == [RefreshMetadata(("t",))]


@pytest.mark.parametrize("error", sorted(NEW_SESSION))
def test_a_lost_session_is_begun_again_at_once_a_few_times(error: ErrorCode) -> None:
    world = World({ZERO: log_of(0)})
    failures = iter([error] * 6)
    world.failure = lambda now: next(failures, None)
    assert world.run(FetchRange(ZERO, 0, 10)).is_done
    assert len(world.asked) == 7
    assert world.now > 300, "a broker that loses every session is asked less and less often"


def test_a_follower_that_is_lost_after_its_partition_was_given_up_changes_nothing() -> None:
    open_ranges = Open()
    open_ranges.machine.add(ZERO, 0)
    open_ranges.fetches()
    open_ranges.machine.on_response(1, [PartitionResponse(ZERO, OK, 10, 10, 0, preferred_replica=3)], 0)
    (action,) = open_ranges.machine.next_actions(0)
    assert isinstance(action, SendFetch)
    assert action.broker_id == 3
    open_ranges.machine.remove(ZERO)
    open_ranges.machine.add(ONE, 0)
    open_ranges.machine.on_disconnect(3, "gone", 0)
    assert open_ranges.fetches() == [(ONE, 0)]


def scanned_batch(first: int, count: int, **changes: Any) -> bytes:
    fields = {"base": first, "length": 49, "epoch": 0, "magic": 2, "crc": 0, "attributes": 0, "delta": count - 1} | changes
    return struct.pack(">qiibIhiqqqhii", *fields.values(), 0, 0, -1, -1, -1, count)


TWO = memoryview(scanned_batch(0, 10) + scanned_batch(10, 5))


def test_whole_batches() -> None:
    assert scan_batches(TWO) == WholeBatches(122, 15)
    assert scan_batches(memoryview(b"")) == WholeBatches(0, -1)


@pytest.mark.conformance("FetcherTest.testFetchNonContinuousRecords")
def test_offsets_may_have_gaps() -> None:
    assert scan_batches(memoryview(scanned_batch(5, 3) + scanned_batch(50, 1, delta=49))) == WholeBatches(122, 100)


@pytest.mark.parametrize("size", [62, 100, 121])
def test_a_cut_batch_is_left_out(size: int) -> None:
    assert scan_batches(TWO[:size]) == WholeBatches(61, 10)
    assert scan_batches(TWO[: size - 62]) == WholeBatches(0, -1)


@pytest.mark.conformance("FetcherTest.testInvalidDefaultRecordBatch")
@pytest.mark.parametrize(
    "changes", [{"magic": 1}, {"length": 48}, {"base": -1}, {"delta": -1}, {"base": 2**63 - 5, "delta": 10}, {"length": -1}]
)
def test_bytes_that_are_no_batch(changes: dict[str, int]) -> None:
    with pytest.raises(PeerError):
        scan_batches(memoryview(scanned_batch(0, 10, **changes)))


@given(st.binary(max_size=300))
def test_any_bytes_end_in_a_scan_or_a_peer_error(data: bytes) -> None:
    try:
        walked = scan_batches(memoryview(data))
    except PeerError:
        return
    assert 0 <= walked.size_bytes <= len(data)


RANGE_ZERO = TopicPartition("t", 0)
REFUSED = PartitionRefused(RANGE_ZERO, ErrorCode.REQUEST_TIMED_OUT)
POLICY = FetchPolicy(api_timeout_ms=5_000)


def fail(progress: RangeProgress, problem: PartitionRefused | UnknownPartition, now_ms: float, *, is_short: bool = False) -> bool:
    return progress.record_failure(problem, now_ms, policy=POLICY, rng=0.5, is_short=is_short, is_connecting=False)


def test_retries_wait_longer_each_time_until_the_timeout() -> None:
    progress = RangeProgress(FetchRange(RANGE_ZERO, 0, 10))
    waits = []
    for now_ms in (0, 1_000, 2_000, 4_999):
        assert fail(progress, REFUSED, now_ms)
        waits.append(progress.retry_at_ms - now_ms)
    assert waits == [100, 200, 400, 800]
    assert not fail(progress, REFUSED, 5_000)


def test_a_few_attempts_are_made_however_late() -> None:
    progress = RangeProgress(FetchRange(RANGE_ZERO, 0, 10))
    assert [fail(progress, REFUSED, now_ms) for now_ms in (0, 10_000, 20_000, 30_000)] == [True] * (ATTEMPTS_MIN - 1) + [False]


def test_short_patience_counts_one_kind_of_problem_alone() -> None:
    progress = RangeProgress(FetchRange(RANGE_ZERO, 0, 10))
    assert all(fail(progress, REFUSED, 0) for _ in range(ATTEMPTS_MIN))
    results = [fail(progress, UnknownPartition(RANGE_ZERO), now_ms, is_short=True) for now_ms in (100, 200, 300, 100 + SHORT_MS)]
    assert results == [True] * (ATTEMPTS_MIN - 1) + [False]


def test_records_end_a_row_of_failures() -> None:
    progress = RangeProgress(FetchRange(RANGE_ZERO, 0, 10))
    assert all(fail(progress, REFUSED, 0) for _ in range(ATTEMPTS_MIN))
    progress.advance(7)
    assert (progress.position, progress.fetch_offset, progress.failures) == (7, 7, 0)
    assert fail(progress, REFUSED, 60_000)
    assert progress.retry_at_ms == 60_100


@pytest.mark.conformance("SubscriptionStateTest.testPreferredReadReplicaLease")
def test_a_follower_is_read_for_a_while_and_for_one_leader() -> None:
    progress, leader = RangeProgress(FetchRange(RANGE_ZERO, 0, 10)), LeaderAndEpoch(1, 5)
    assert progress.broker_id(leader, 0) == 1
    progress.replica = PreferredReplica(2, leader, 1_000)
    assert [progress.broker_id(leader, now_ms) for now_ms in (0, 1_000, 1_001, 1_000)] == [2, 2, 1, 1]
    progress.replica = PreferredReplica(2, leader, 1_000)
    assert progress.broker_id(LeaderAndEpoch(1, 6), 0) == 1


def test_a_few_failures_are_retried_at_once() -> None:
    progress = RangeProgress(FetchRange(RANGE_ZERO, 0, 10))
    assert [progress.may_retry_at_once(0) for _ in range(ATTEMPTS_MIN)] == [True] * (ATTEMPTS_MIN - 1) + [False]
    progress.advance(5)
    assert progress.may_retry_at_once(0)
