"""Every error that a broker may give, to every request of a consumer, again and again: no hot loop, the application hears of it or it is
repeated, the consumer goes on when the broker does, and close ends. The engine alone, in virtual time.
"""

import itertools
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import pytest

from ottla.client import reactions
from ottla.client.engine.engine import CLOSE_COMMIT_MS
from ottla.client.engine.values import (
    CoordinatorResponse,
    EpochEnd,
    Fetch,
    FetchedOffset,
    FetchResponse,
    ListedOffset,
    ListOffsets,
    Metadata,
    MetadataResponse,
    OffsetAndMetadata,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetForLeaderEpoch,
    Send,
    TopicUnavailable,
)
from ottla.client.fetch.fetch_values import PartitionResponse
from ottla.client.fetch.leaders import LeaderAndEpoch, PartitionMetadata, TopicMetadata
from ottla.client.membership.values import FindCoordinator, Heartbeat, JoinGroup, JoinResponse, LeaveGroup, SyncGroup, SyncResponse
from ottla.client.reactions import Reaction, ReactionTable
from ottla.protocol.errors import ErrorCode as E
from ottla.protocol.model import TopicPartition

REQUESTS_MAX: Final = 20
"""In any second, of all kinds."""
OTHERS: Final = (
    E.UNKNOWN_SERVER_ERROR,
    E.INVALID_REQUEST,
    E.TOPIC_AUTHORIZATION_FAILED,
    E.GROUP_AUTHORIZATION_FAILED,
)
T0: Final = TopicPartition("t", 0)
LATENCY_MS, FETCH_WAIT_MS, FAULT_MS, HEALED_MS = 1, 500, 3_000, 5_000


def listed(offset: int) -> Callable[[Any, E], Any]:
    return lambda request, error: {each: ListedOffset(error, offset, -1) for each in request.timestamps}


FAULTS: Final[dict[str, tuple[type, ReactionTable, Callable[[Any, E], Any]]]] = {
    "Metadata": (Metadata, reactions.METADATA, lambda request, error: MetadataResponse({}, (TopicMetadata("t", error),))),
    "FindCoordinator": (FindCoordinator, reactions.FIND_COORDINATOR, lambda request, error: CoordinatorResponse(error)),
    "JoinGroup": (JoinGroup, reactions.JOIN, lambda request, error: JoinResponse(error=error, member_id="me")),
    "SyncGroup": (SyncGroup, reactions.SYNC, lambda request, error: SyncResponse(error=error)),
    "Heartbeat": (Heartbeat, reactions.HEARTBEAT, lambda request, error: error),
    # Not sent again, and no table: the coordinator removes the member when its session expires.
    "LeaveGroup": (LeaveGroup, ReactionTable({}, Reaction.RETRY), lambda request, error: error),
    "OffsetCommit": (OffsetCommit, reactions.COMMIT, lambda request, error: dict.fromkeys(request.offsets, error)),
    "OffsetFetch": (OffsetFetch, reactions.OFFSET_FETCH, lambda request, error: OffsetFetchResponse(error, {})),
    "OffsetFetch, a partition": (
        OffsetFetch,
        reactions.OFFSET_FETCH,
        lambda request, error: OffsetFetchResponse(
            E.NONE, {each: FetchedOffset(error, OffsetAndMetadata(-1)) for each in request.partitions}
        ),
    ),
    "ListOffsets": (ListOffsets, reactions.LIST_OFFSETS, listed(-1)),
    "OffsetForLeaderEpoch": (
        OffsetForLeaderEpoch,
        reactions.EPOCH_END,
        lambda request, error: {each: EpochEnd(error, -1, -1) for each in request.epochs},
    ),
    "Fetch": (Fetch, ReactionTable({}, Reaction.NEW_SESSION), lambda request, error: FetchResponse((), {}, error)),
    "Fetch, a partition": (
        Fetch,
        reactions.FETCH,
        lambda request, error: FetchResponse(tuple(PartitionResponse(each.partition, error) for each in request.fetches), {}, E.NONE, 7),
    ),
}


class Trial:
    """A consumer whose application polls and commits, and a broker whose responses to one request are wrong while there `is_fault`."""

    def __init__(self, world: Any, kind: type, fault: Callable[[Any], Any]) -> None:
        self.world, self.engine = world, world.engine
        self.kind, self.fault, self.is_fault = kind, fault, True
        self.now = 0.0
        self.sent: list[tuple[float, type]] = []
        self.told: list[Any] = []
        self.taken = 0
        self.flying: list[tuple[float, Send, bool]] = []

    def run(self, until_ms: float, is_over: Callable[[], bool] = lambda: False, *, polls: bool = True) -> bool:
        """Whether it `is_over` before that time."""
        engine = self.engine
        while not is_over():
            if self.now >= until_ms:
                return False
            if polls:
                self._poll()
            else:
                while engine.next_callback(self.now) is not None:
                    continue
            for send in engine.next_sends(self.now):
                self.sent.append((self.now, type(send.request)))
                is_faulty = self.is_fault and type(send.request) is self.kind
                waits = (
                    isinstance(send.request, Fetch) and send.request.fetches and not is_faulty and not self.world.has_records(send.request)
                )
                self.flying.append((self.now + (FETCH_WAIT_MS if waits else LATENCY_MS), send, is_faulty))
            times = [at_ms for at_ms, _, _ in self.flying] + [each for each in [engine.next_ms(self.now)] if each is not None]
            # An engine that is due at once, over and over, is a loop that costs a processor.
            self.now = max(min([*times, self.now + 50]), self.now + 0.5)
            self._answer()
        return True

    def _poll(self) -> None:
        engine = self.engine
        failure = engine.poll(self.now)
        if failure is not None:
            self.told.append(failure)
        while engine.next_callback(self.now) is not None:
            continue
        self.told += engine.take_events()
        self.told += [commit.error for commit in engine.commits.finished if commit.error is not E.NONE]
        engine.commits.finished.clear()
        self.taken += sum(part.end - part.first for part in engine.take(100))

    def _answer(self) -> None:
        due = [each for each in self.flying if each[0] <= self.now]
        self.flying = [each for each in self.flying if each[0] > self.now]
        for _, send, is_faulty in due:
            response = self.fault(send.request) if is_faulty else self.world.response(send.request)
            if response == "lost":
                self.engine.on_no_response(send, "lost", self.now)
            else:
                self.engine.on_response(send, response, self.now)

    def most_in_a_second(self) -> int:
        times = [at_ms for at_ms, _ in self.sent]
        return max((sum(at_ms <= each < at_ms + 1_000 for each in times) for at_ms in times), default=0)


ROWS: Final = [(name, error) for name, (_, table, _) in FAULTS.items() for error in dict.fromkeys((None, *table.named, *OTHERS))]


@pytest.mark.parametrize(("name", "error"), ROWS, ids=lambda value: "lost" if value is None else getattr(value, "name", value))
def test_an_error_that_comes_again_and_again(new_world: Callable[..., Any], name: str, error: E | None) -> None:
    kind, table, fault = FAULTS[name]
    world = new_world(auto_commit_interval_ms=500, group={"heartbeat_interval_ms": 500})
    world.add_records(T0, 20)
    if kind is OffsetForLeaderEpoch:
        world.committed[T0] = OffsetAndMetadata(1, 0)
    trial = Trial(world, kind, lambda request: "lost" if error is None else fault(request, error))
    trial.engine.subscribe(["t"], [])
    trial.run(FAULT_MS)
    assert trial.most_in_a_second() <= REQUESTS_MAX
    reaction = Reaction.RETRY if error is None else table.of(error)
    if kind is not OffsetCommit:  # whose results the application gets in any case
        assert bool(trial.told) == (reaction is Reaction.TELL), trial.told
    trial.is_fault = False
    world.add_records(T0, 5)
    before = trial.taken
    if reaction is not Reaction.TELL or kind not in (JoinGroup, SyncGroup, Heartbeat):
        assert trial.run(trial.now + HEALED_MS, lambda: trial.taken > before), "it goes on when the broker does"
    trial.is_fault = True
    begun = trial.now
    trial.engine.close("the test is over", begun)
    engine = trial.engine
    assert trial.run(begun + CLOSE_COMMIT_MS + 1_500, lambda: not (engine.rebalances.is_active or engine.is_leaving), polls=False)
    assert trial.most_in_a_second() <= REQUESTS_MAX


def test_offsets_without_the_partitions_that_were_requested(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 5)
    trial = Trial(world, OffsetFetch, lambda request: OffsetFetchResponse(E.NONE, {}))
    trial.engine.subscribe(["t"], [])
    trial.run(FAULT_MS)
    assert (trial.told, trial.most_in_a_second() <= REQUESTS_MAX) == ([], True)
    trial.is_fault = False
    assert trial.run(trial.now + HEALED_MS, lambda: trial.taken == 5)


@pytest.mark.parametrize("offset", [-1, -2, -5, -(2**63)])
def test_a_log_without_a_start(new_world: Callable[..., Any], offset: int) -> None:
    trial = Trial(new_world(), ListOffsets, lambda request: listed(offset)(request, E.NONE))
    trial.engine.subscribe(["t"], [])
    trial.run(FAULT_MS)
    assert trial.most_in_a_second() <= REQUESTS_MAX


@pytest.mark.parametrize("error", [None, E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR])
def test_a_short_interval_of_automatic_commits(new_world: Callable[..., Any], error: E | None) -> None:
    world = new_world(auto_commit_interval_ms=50)
    world.add_records(T0, 20)
    trial = Trial(world, OffsetCommit, lambda request: "lost" if error is None else dict.fromkeys(request.offsets, error))
    trial.engine.subscribe(["t"], [])
    trial.run(FAULT_MS)
    assert sum(kind is OffsetCommit for at_ms, kind in trial.sent if at_ms > FAULT_MS - 2_000) <= 3, "the back-off counts, not the interval"


def test_a_topic_with_another_id_each_time(new_world: Callable[..., Any]) -> None:
    numbers = itertools.count()

    def recreated(request: Metadata) -> MetadataResponse:
        honest = trial.world.response(request)
        return honest._replace(topics=tuple(each._replace(topic_id=str(UUID(int=next(numbers)))) for each in honest.topics))

    world = new_world()
    world.add_records(T0, 5)
    fetched = world.fetched
    world.fetched = lambda each: PartitionResponse(T0, E.UNKNOWN_TOPIC_ID) if trial.is_fault else fetched(each)
    trial = Trial(world, Metadata, recreated)
    trial.engine.subscribe(["t"], [])
    trial.run(FAULT_MS)
    assert sum(kind in (Metadata, Fetch) for at_ms, kind in trial.sent if at_ms > FAULT_MS - 2_000) <= 14
    trial.is_fault = False
    assert trial.run(trial.now + HEALED_MS, lambda: trial.taken == 5)


def test_partitions_without_leaders(new_world: Callable[..., Any]) -> None:
    def leaderless(request: Metadata) -> MetadataResponse:
        partition = PartitionMetadata(E.LEADER_NOT_AVAILABLE, LeaderAndEpoch(-1, -1))
        return MetadataResponse({}, (TopicMetadata("t", E.NONE, "", False, {0: partition}),))

    world = new_world()
    world.add_records(T0, 5)
    trial = Trial(world, Metadata, leaderless)
    trial.engine.subscribe(["t"], [])
    trial.run(FAULT_MS)
    assert sum(kind is Metadata for _, kind in trial.sent) <= 6, "later and later"
    trial.is_fault = False
    assert trial.run(trial.now + HEALED_MS, lambda: trial.taken == 5)


def test_an_unknown_topic_is_told_once(new_world: Callable[..., Any]) -> None:
    trial = Trial(new_world(), Metadata, lambda request: MetadataResponse({}, (TopicMetadata("t", E.UNKNOWN_TOPIC_OR_PARTITION),)))
    trial.engine.subscribe(["t"], [])
    trial.run(FAULT_MS)
    assert trial.told == [TopicUnavailable("t", E.UNKNOWN_TOPIC_OR_PARTITION)]
