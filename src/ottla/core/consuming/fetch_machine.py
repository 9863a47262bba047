"""The fetch client's mind: ranges of offsets in, requests for brokers out; answers and losses in, records out. No socket, no clock.

It decides what is asked of whom and when, what an error means, when trying again is worth it, and when a range is done. A broker has one
request of ours at a time. The shell carries out `todo`, tells what happened (`answered`, `lost`, `learned`, `not_learned`), and hands out
the records; a `problem` is the end. Sources: KIP-74 (first batch always comes), KIP-320 (leader epochs), KIP-516 (topic ids), KIP-580
(back-off), KIP-951 (leaders named in answers).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ottla.core.consuming.backoff import backoff_ms
from ottla.core.consuming.batch_walk import walk
from ottla.core.consuming.cluster_view import NO_EPOCH, NO_LEADER, Leaders, TopicView
from ottla.core.consuming.fetch_values import (
    BULK_BYTES,
    FetchPolicy,
    OutOfRange,
    PartitionAnswer,
    PartitionAsk,
    Problem,
    Recreated,
    Refresh,
    Refused,
    Send,
    Unknown,
    Unreachable,
)
from ottla.core.consuming.ranges import FetchedRecords, FetchRange
from ottla.core.errors import ErrorCode, PeerError
from ottla.core.model import TopicPartition

ATTEMPTS_MIN: Final = 4
"""So often is tried at least, however long the reader was busy in between."""
SHORT_MS: Final = 1_000
"""How long a log may seem cut, or a topic gone: what a new leader, or a broker that lags behind, does not know yet."""
EMPTY_TO_END: Final = 2
"""So many empty answers in a row, which could have held a batch, say that there is none up to the end.

The last of them is to a question for the last readable offset: an answer from there shows that the others were empty for another reason, as
they are while a broker waits for its remote storage (KIP-405).
"""

LOOK_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""Somebody else may lead the partition now."""
TRY_AGAIN: Final = frozenset({ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})
"""The same broker may do better a little later."""
GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID})
"""The topic may have been deleted, or made anew."""


class _Lane:
    """How far one range is. `asked_at`: the offset that is asked for, `position` unless it is doubted that anything is left.

    `looks_again`: its leader has to be looked up; `failures` in a row, since `failing_since_ms`; of them, those of the last `kind` on their
    own.
    """

    __slots__ = (
        "asked_at",
        "empties",
        "end",
        "failing_since_ms",
        "failures",
        "is_doubted",
        "kind",
        "kind_failures",
        "kind_since_ms",
        "looks_again",
        "not_before_ms",
        "partition",
        "position",
        "topic_id",
    )

    def __init__(self, each: FetchRange) -> None:
        self.partition = each.partition
        self.position = self.asked_at = each.start
        self.end = each.end
        self.topic_id = each.topic_id
        self.looks_again = False
        self.is_doubted = False
        self.not_before_ms = 0.0
        self.failures = self.kind_failures = self.empties = 0
        self.failing_since_ms = self.kind_since_ms = 0.0
        self.kind: type[Problem] | None = None

    def progress(self) -> None:
        """Something went well: what failed before does not count any more."""
        self.failures = self.empties = 0
        self.kind = None
        self.is_doubted = False


class FetchMachine:
    """Reads `ranges`; `leaders` is what is known already, and learns with it. `dice` gives numbers from 0 to 1.

    Ranges of one partition are read one after another. After a `problem` nothing more is asked.
    """

    def __init__(self, ranges: Iterable[FetchRange], *, policy: FetchPolicy, leaders: Leaders, dice: Callable[[], float]) -> None:
        self.problem: Problem | None = None
        self._policy = policy
        self._leaders = leaders
        self._dice = dice
        self._later: dict[TopicPartition, list[FetchRange]] = {}
        for each in sorted(ranges, key=lambda each: each.start, reverse=True):
            if each.start < each.end:
                self._later.setdefault(each.partition, []).append(each)
        # In the order in which they are asked for next: who got records goes to the back.
        self._lanes: dict[TopicPartition, _Lane] = {}
        for partition in sorted(self._later):
            self._begin(partition)
        self._asked: dict[int, tuple[PartitionAsk, ...]] = {}
        self._adopted: set[int] = set()
        self._looked_for: frozenset[str] = frozenset()
        self._taken_bytes = self._taken_offsets = 0

    @property
    def is_done(self) -> bool:
        """Whether every record of every range was handed out."""
        return not self._lanes

    def adopt(self, broker_id: int, asks: tuple[PartitionAsk, ...]) -> bool:
        """Takes over a request that is on its way already. False when nothing of it is wanted: then its answer is not waited for."""
        if not any(self._is_wanted(ask) for ask in asks):
            return False
        self._asked[broker_id] = asks
        self._adopted.add(broker_id)
        return True

    def todo(self, now_ms: float) -> list[Send | Refresh]:
        """What is to be done now; each is given once, and answered by what came of it."""
        if self.problem is not None:
            return []
        by_broker: dict[int, list[_Lane]] = {}
        unknown: dict[str, None] = {}
        on_their_way = {ask.partition for asks in self._asked.values() for ask in asks}
        for lane in self._lanes.values():
            if lane.not_before_ms > now_ms or lane.partition in on_their_way:
                continue
            # By its name alone the other topic would be read, where brokers do not know ids in Fetch.
            known_id = self._leaders.topic_id(lane.partition.topic)
            lane.looks_again = lane.looks_again or ("" != lane.topic_id != known_id != "")
            leader = None if lane.looks_again else self._leaders.leader(lane.partition)
            if leader is None:
                unknown[lane.partition.topic] = None
            elif leader.broker_id not in self._asked:
                by_broker.setdefault(leader.broker_id, []).append(lane)
        found: list[Send | Refresh] = []
        for broker_id, lanes in by_broker.items():
            self._asked[broker_id] = self._asks(lanes)
            found.append(Send(broker_id, self._asked[broker_id], self._is_bulk(lanes)))
        if unknown and not self._looked_for:
            self._looked_for = frozenset(unknown)
            found.append(Refresh(tuple(unknown)))
        return found

    def wake_ms(self, now_ms: float) -> float | None:
        """When `todo` will have something though nothing happens; None when it waits for an answer alone."""
        waiting = [lane.not_before_ms for lane in self._lanes.values() if lane.not_before_ms > now_ms]
        return min(waiting, default=None)

    def answered(self, broker_id: int, answers: Sequence[PartitionAnswer], now_ms: float) -> list[FetchedRecords]:
        """A broker's answer to the request that it had. Raises PeerError when it makes no sense."""
        asks = self._asked.pop(broker_id)
        was_adopted = broker_id in self._adopted
        self._adopted.discard(broker_id)
        by_partition = {answer.partition: answer for answer in answers}
        if len(by_partition) < len(answers) or not by_partition.keys() <= {ask.partition for ask in asks}:
            raise PeerError("a Fetch answer about partitions that were not asked for, or twice about one")
        found: list[FetchedRecords] = []
        is_first = True
        for ask in asks:
            answer = by_partition.get(ask.partition)
            if self._is_wanted(ask):
                lane = self._lanes[ask.partition]
                if answer is None:
                    # A broker that throttles says nothing of its partitions.
                    self._fail(lane, Refused(lane.partition, ErrorCode.REQUEST_TIMED_OUT), now_ms)
                elif answer.error is not ErrorCode.NONE:
                    self._error(lane, answer, now_ms)
                elif answer.records:
                    found.extend(self._take(lane, answer, is_first, now_ms))
                elif not was_adopted:  # it was asked before the range was known: what it did not find may be there now
                    found.extend(self._empty(lane, answer, is_first, now_ms))
            is_first = is_first and not (answer and answer.records)
        return found

    def lost(self, broker_id: int, why: str, now_ms: float) -> None:
        """A broker cannot be asked, or did not answer: everything that it was thought to lead is looked up again."""
        self._asked.pop(broker_id, None)
        self._adopted.discard(broker_id)
        for lane in list(self._lanes.values()):
            leader = self._leaders.leader(lane.partition)
            if leader is not None and leader.broker_id == broker_id and not lane.looks_again:
                lane.looks_again = True
                self._fail(lane, Unreachable(why), now_ms, is_connecting=True)

    def learned(self, topics: Iterable[TopicView], now_ms: float) -> None:
        """What Metadata says of the topics that `Refresh` named."""
        waiting = self._looking(now_ms)
        views = {topic.name: topic for topic in topics}
        self._leaders.learn(views.values())
        for lane in waiting:
            self._look(lane, views.get(lane.partition.topic), now_ms)

    def not_learned(self, why: str, now_ms: float) -> None:
        """No broker answered Metadata."""
        for lane in self._looking(now_ms):
            self._fail(lane, Unreachable(why), now_ms)

    def _looking(self, now_ms: float) -> list[_Lane]:
        """The lanes that wait for Metadata, which has come now, or failed."""
        topics, self._looked_for = self._looked_for, frozenset()
        lanes = [lane for lane in self._lanes.values() if lane.not_before_ms <= now_ms and lane.partition.topic in topics]
        return [lane for lane in lanes if lane.looks_again or self._leaders.leader(lane.partition) is None]

    def _begin(self, partition: TopicPartition) -> None:
        """The partition's next range, if there is one."""
        later = self._later[partition]
        if later:
            self._lanes[partition] = _Lane(later.pop())
        else:
            del self._later[partition]

    def _is_wanted(self, ask: PartitionAsk) -> bool:
        lane = self._lanes.get(ask.partition)
        return lane is not None and lane.asked_at == ask.offset and lane.topic_id in ("", ask.topic_id)

    def _asks(self, lanes: list[_Lane]) -> tuple[PartitionAsk, ...]:
        by_topic: dict[str, list[PartitionAsk]] = {}
        for lane in lanes:
            leader = self._leaders.leader(lane.partition)
            epoch = NO_EPOCH if leader is None else leader.epoch
            lane.topic_id = lane.topic_id or self._leaders.topic_id(lane.partition.topic)
            ask = PartitionAsk(lane.partition, lane.asked_at, epoch, lane.topic_id)
            by_topic.setdefault(lane.partition.topic, []).append(ask)
        return tuple(ask for asks in by_topic.values() for ask in asks)

    def _is_bulk(self, lanes: list[_Lane]) -> bool:
        """Whether the ranges hold several large answers more, to go by what came so far."""
        offsets = sum(lane.end - lane.asked_at for lane in lanes if not lane.empties)
        return offsets * self._taken_bytes >= 2 * BULK_BYTES * self._taken_offsets > 0

    def _take(self, lane: _Lane, answer: PartitionAnswer, is_first: bool, now_ms: float) -> list[FetchedRecords]:
        """The batches of one partition. `is_first`: no records came before them in the answer."""
        if lane.asked_at != lane.position:
            self._ask_again(lane, now_ms)
            return []
        walked = walk(answer.records)
        if walked.next_offset < 0:
            if is_first:  # the first batch comes whole, however large it is (KIP-74)
                self._fail(lane, Refused(lane.partition, ErrorCode.RECORD_LIST_TOO_LARGE), now_ms)
            return []
        position = lane.position
        if walked.next_offset <= position:
            raise PeerError(f"a Fetch from offset {position} of {lane.partition} was answered with records before it")
        lane.progress()
        self._taken_bytes += walked.size_bytes
        self._taken_offsets += walked.next_offset - position
        lane.position = lane.asked_at = walked.next_offset
        del self._lanes[lane.partition]
        if lane.position < lane.end:
            self._lanes[lane.partition] = lane
        else:
            self._begin(lane.partition)
        records = answer.records[: walked.size_bytes].toreadonly()
        return [FetchedRecords(lane.partition, position, walked.next_offset, records, answer.aborted)]

    def _error(self, lane: _Lane, answer: PartitionAnswer, now_ms: float) -> None:
        error, refused = answer.error, Refused(lane.partition, answer.error)
        if error in LOOK_AGAIN and self._leaders.move(lane.partition, answer.moved_to):
            lane.failures += 1
            if lane.failures < ATTEMPTS_MIN:
                lane.failing_since_ms = now_ms
                return  # it is asked at once; if brokers go on naming each other, waits begin
        if error in LOOK_AGAIN:
            lane.looks_again = True
            self._fail(lane, refused, now_ms)
        elif error in TRY_AGAIN:
            self._fail(lane, refused, now_ms)
        elif error in GONE:
            lane.looks_again = lane.is_doubted = True
            self._fail(lane, self._gone(lane), now_ms, is_short=True)
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE and lane.asked_at != lane.position:
            self._ask_again(lane, now_ms)  # another leader, which knows less yet
        elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.problem = OutOfRange(lane.partition, lane.position, answer.log_start_offset, answer.high_watermark)
        else:
            self.problem = refused

    def _ask_again(self, lane: _Lane, now_ms: float) -> None:
        """There is something behind the position though nothing came from there: that is no end, and is asked for a little later."""
        lane.asked_at, lane.empties = lane.position, 0
        self._fail(lane, Refused(lane.partition, ErrorCode.OFFSET_NOT_AVAILABLE), now_ms)

    def _empty(self, lane: _Lane, answer: PartitionAnswer, is_first: bool, now_ms: float) -> list[FetchedRecords]:
        """No batch came: there is none yet, none any more, or there was no room left in the answer.

        `is_first`: no records came before in the answer, so that a batch would have been there if there is one.
        """
        readable_to = answer.last_stable_offset if self._policy.is_read_committed else answer.high_watermark
        if readable_to >= lane.end:
            lane.empties += is_first
            if lane.empties >= EMPTY_TO_END:
                del self._lanes[lane.partition]
                self._begin(lane.partition)
                return [FetchedRecords(lane.partition, lane.position, lane.end, memoryview(b""))]
            if lane.empties:
                lane.asked_at = readable_to - 1
        elif answer.high_watermark >= lane.end:
            self._fail(lane, Refused(lane.partition, ErrorCode.OFFSET_NOT_AVAILABLE), now_ms)  # a transaction is open again
        else:
            cut = OutOfRange(lane.partition, lane.position, answer.log_start_offset, answer.high_watermark)
            self._fail(lane, cut, now_ms, is_short=True)
        return []

    def _look(self, lane: _Lane, view: TopicView | None, now_ms: float) -> None:
        """One lane's leader in new metadata."""
        if view is None or view.error in GONE:
            self._fail(lane, self._gone(lane), now_ms, is_short=True)
            return
        if view.error is not ErrorCode.NONE:
            refused = Refused(lane.partition, view.error)
            if view.error in LOOK_AGAIN or view.error in TRY_AGAIN:
                self._fail(lane, refused, now_ms)
            else:
                self.problem = refused
            return
        if lane.topic_id and view.topic_id and view.topic_id != lane.topic_id:
            self._other_topic(lane, view.topic_id, now_ms)
            return
        partition = view.partitions.get(lane.partition.partition)
        if partition is None:
            self._fail(lane, Unknown(lane.partition), now_ms, is_short=True)
        elif partition.leader.broker_id == NO_LEADER:
            self._fail(lane, Refused(lane.partition, ErrorCode.LEADER_NOT_AVAILABLE), now_ms)
        else:
            lane.looks_again = False

    def _other_topic(self, lane: _Lane, found: str, now_ms: float) -> None:
        """Metadata has the name with another id: the topic was made anew, unless that broker lags behind."""
        problem = Recreated(lane.partition.topic, lane.topic_id, found)
        if lane.is_doubted:
            self.problem = problem
            return
        lane.looks_again = lane.is_doubted = True
        self._fail(lane, problem, now_ms)

    def _gone(self, lane: _Lane) -> Problem:
        return Recreated(lane.partition.topic, lane.topic_id, "") if lane.topic_id else Unknown(lane.partition)

    def _fail(self, lane: _Lane, problem: Problem, now_ms: float, *, is_short: bool = False, is_connecting: bool = False) -> None:
        """Another try later; or the end, when it has failed for too long (`is_short`: for SHORT_MS in this way)."""
        if lane.failures == 0:
            lane.failing_since_ms = now_ms
        if type(problem) is not lane.kind:
            lane.kind, lane.kind_failures, lane.kind_since_ms = type(problem), 0, now_ms
        lane.failures += 1
        lane.kind_failures += 1
        policy = self._policy
        is_over = lane.failures >= ATTEMPTS_MIN and now_ms - lane.failing_since_ms >= policy.api_timeout_ms
        if is_over or (is_short and lane.kind_failures >= ATTEMPTS_MIN and now_ms - lane.kind_since_ms >= SHORT_MS):
            self.problem = problem
            return
        waits = policy.reconnect_backoff_ms if is_connecting else policy.retry_backoff_ms
        lane.not_before_ms = now_ms + backoff_ms(lane.failures, *waits, self._dice())
