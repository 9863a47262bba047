"""Which Fetch requests are sent, and what their responses mean: ranges of offsets and responses in, requests and records out. No I/O.

It decides what to fetch from which broker and when, what an error means, whether a retry is worth it, and when a range is complete. Each
broker has at most one request in flight. The shell carries out `next_actions`, reports what happened (`on_response`, `on_disconnect`,
`on_metadata`, `on_metadata_failure`), and hands out the records; a `problem` ends the read. Open ranges may be added, removed and held
while others are read; a problem of one of them ends that range alone, and a refusal does not end it (`take_problems`).

Of fetched batches it reads the headers, as much as finding the next batch takes; decoders check the checksums. Sources: KIP-74 (the first
batch always comes), KIP-98, KIP-320 (leader epochs), KIP-392 (followers named by leaders), KIP-516 (topic ids), KIP-580 (back-off), KIP-951
(leaders named in responses).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

from ottla.client.backoff import backoff_ms
from ottla.client.fetch.fetch_values import (
    BULK_BYTES,
    NO_REPLICA,
    OPEN_END,
    BrokersUnreachable,
    FetchedRecords,
    FetchPolicy,
    FetchRange,
    Need,
    OffsetOutOfRange,
    PartitionFetch,
    PartitionRefused,
    PartitionResponse,
    Problem,
    RefreshMetadata,
    SendFetch,
    TopicRecreated,
    UnknownPartition,
)
from ottla.client.fetch.leaders import NO_EPOCH, NO_LEADER, LeaderAndEpoch, Leaders, TopicMetadata
from ottla.client.reactions import FETCH, INVALID_METADATA, METADATA, UNKNOWN_TOPIC, Reaction
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import TopicPartition
from ottla.protocol.records.batch import BATCH_LENGTH_MIN, HEADER_BYTES, LENGTH_OVERHEAD_BYTES, MAGIC

_HEAD: Final = Struct(">qi4xb6xi")  # base offset, length, (leader epoch), magic, (checksum, attributes), last offset delta
_OFFSET_MAX: Final = 2**63 - 2


class WholeBatches(NamedTuple):
    """The first `size_bytes` bytes are whole batches; `next_offset` follows the last of them, -1 when there is none."""

    size_bytes: int
    next_offset: int


def scan_batches(records: memoryview) -> WholeBatches:
    """Find whole batches; the last one may be cut, and is left out. Raises PeerError for bytes that are no batches of format 2."""
    at, next_offset, size = 0, -1, len(records)
    while at + HEADER_BYTES <= size:
        base, length, magic, delta = _HEAD.unpack_from(records, at)
        if magic != MAGIC:
            raise PeerError(f"a batch of format {magic}: only format {MAGIC} is read (Kafka 0.11 and later)")
        if length < BATCH_LENGTH_MIN or base < 0 or delta < 0 or base + delta > _OFFSET_MAX:
            raise PeerError("a batch header with an impossible length or offset")
        following = at + LENGTH_OVERHEAD_BYTES + length
        if following > size:
            break
        if base < next_offset:
            raise PeerError(f"the batch at offset {base} comes behind one that ends at offset {next_offset - 1}")
        next_offset = base + delta + 1
        at = following
    return WholeBatches(at, next_offset)


ATTEMPTS_MIN: Final = 4
"""Attempts before giving up, however much time the reader itself took in between."""
SHORT_MS: Final = 1_000
"""How long a log may seem truncated, or a topic missing: a new leader, or a broker that lags behind, may not know better yet."""


class PreferredReplica(NamedTuple):
    """A follower to read from, named by a leader; it holds for this leader, up to a time."""

    broker_id: int
    leader: LeaderAndEpoch
    until_ms: float


class RangeProgress:
    """A range that is being read.

    `fetch_offset`: what the next request asks for. It is `position`, unless the range may hold no more records (see `fetch_machine`).
    `need`: whether it is requested for now. `replica`: the follower to read from, None for the leader. `needs_metadata`: the leader has to
    be looked up. `is_topic_doubted`: the topic may have been deleted or re-created. `failures` in a row began at `failing_since_ms`; the
    `kind_` fields count those of the last kind of problem.
    """

    __slots__ = (
        "empty_responses",
        "end",
        "failing_since_ms",
        "failures",
        "fetch_offset",
        "is_topic_doubted",
        "kind",
        "kind_failures",
        "kind_since_ms",
        "need",
        "needs_metadata",
        "partition",
        "position",
        "replica",
        "retry_at_ms",
        "topic_id",
    )

    def __init__(self, each: FetchRange) -> None:
        self.partition = each.partition
        self.position = self.fetch_offset = each.start
        self.end = each.end
        self.topic_id = each.topic_id
        self.need = Need.NOW
        self.replica: PreferredReplica | None = None
        self.needs_metadata = False
        self.is_topic_doubted = False
        self.retry_at_ms = 0.0
        self.failures = self.kind_failures = self.empty_responses = 0
        self.failing_since_ms = self.kind_since_ms = 0.0
        self.kind: type[Problem] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the range has no end."""
        return self.end == OPEN_END

    def broker_id(self, leader: LeaderAndEpoch, now_ms: float) -> int:
        """The broker to read from: the leader, or the follower that it has named."""
        if self.replica is not None and (self.replica.leader != leader or now_ms > self.replica.until_ms):
            self.replica = None
        return leader.broker_id if self.replica is None else self.replica.broker_id

    def may_retry_at_once(self, now_ms: float) -> bool:
        """Count a failure after which the next attempt is expected to succeed: whether that still is so."""
        self.failures += 1
        if self.failures >= ATTEMPTS_MIN:
            return False
        self.failing_since_ms = now_ms
        return True

    def advance(self, next_offset: int) -> None:
        """Move behind records that were received; earlier failures do not count any more."""
        self.position = self.fetch_offset = next_offset
        self.failures = self.empty_responses = 0
        self.kind = None
        self.is_topic_doubted = False

    def record_failure(
        self, problem: Problem, now_ms: float, *, policy: FetchPolicy, rng: float, is_short: bool, is_connecting: bool
    ) -> bool:
        """Count a failure and schedule a retry. False to give up: it failed for too long (`is_short`: for SHORT_MS in this way). An open
        range is retried without end.

        `rng` is a number from 0 to 1; `is_connecting` takes the back-off of connection attempts.
        """
        if self.failures == 0:
            self.failing_since_ms = now_ms
        if type(problem) is not self.kind:
            self.kind, self.kind_failures, self.kind_since_ms = type(problem), 0, now_ms
        self.failures += 1
        self.kind_failures += 1
        if not self.is_open and self.failures >= ATTEMPTS_MIN and now_ms - self.failing_since_ms >= policy.api_timeout_ms:
            return False
        if not self.is_open and is_short and self.kind_failures >= ATTEMPTS_MIN and now_ms - self.kind_since_ms >= SHORT_MS:
            return False
        waits = policy.reconnect_backoff_ms if is_connecting else policy.retry_backoff_ms
        self.retry_at_ms = now_ms + backoff_ms(self.failures, *waits, rng)
        return True


EMPTY_TO_END: Final = 2
"""Empty responses in a row, each of which had space for a batch, after which a range counts as complete.

The last of them is for the last readable offset: records from there show that the earlier responses were empty for another reason, as they
are while a broker waits for its remote storage (KIP-405).
"""

EMPTY_AT_ONCE_MAX: Final = 4
"""Empty responses in a row that came long before fetch.max.wait.ms was over: after so many, an open range waits before the next request."""


class FetchMachine:
    """Reads `ranges`. `leaders` is what is known already; the machine updates it. `rng` gives numbers from 0 to 1.

    Ranges of one partition are read one after another. After a `problem` there are no more actions.
    """

    def __init__(self, ranges: Iterable[FetchRange], *, policy: FetchPolicy, leaders: Leaders, rng: Callable[[], float]) -> None:
        self.problem: Problem | None = None
        self._policy = policy
        self._leaders = leaders
        self._rng = rng
        self._later: dict[TopicPartition, list[FetchRange]] = {}
        for each in sorted(ranges, key=lambda each: each.start, reverse=True):
            if each.start < each.end:
                self._later.setdefault(each.partition, []).append(each)
        # In the order of the next requests: a partition that got records goes to the back.
        self._active: dict[TopicPartition, RangeProgress] = {}
        for partition in sorted(self._later):
            self._start_next_range(partition)
        self._in_flight: dict[int, tuple[PartitionFetch, ...]] = {}
        self._sent_ms: dict[int, float] = {}
        self._resumed: set[int] = set()
        self._refreshing: frozenset[str] = frozenset()
        self._received_bytes = self._received_offsets = 0
        self._problems: list[tuple[TopicPartition, Problem]] = []

    def add(self, partition: TopicPartition, position: int) -> None:
        """Read a partition from `position` on, without end. A range of it that is being read already is replaced: this is a seek."""
        self._later[partition] = []
        self._active[partition] = RangeProgress(FetchRange(partition, position))

    def remove(self, partition: TopicPartition) -> None:
        """Read a partition no more. What a request on its way brings for it is dropped."""
        self._active.pop(partition, None)
        self._later.pop(partition, None)

    def set_need(self, partition: TopicPartition, need: Need) -> bool:
        """How much of a partition is wanted for now: whether that is new, and a reason for a request.

        What a request on its way brings is handed out in any case.
        """
        each = self._active.get(partition)
        if each is None or each.need is need:
            return False
        each.need = need
        return need is Need.NOW

    def position(self, partition: TopicPartition) -> int:
        """The offset behind the records that were received; -1 for a partition that is not read."""
        each = self._active.get(partition)
        return -1 if each is None else each.position

    def take_problems(self) -> list[tuple[TopicPartition, Problem]]:
        """The open ranges that were refused or ended since the last call, each with its problem."""
        problems, self._problems = self._problems, []
        return problems

    @property
    def is_done(self) -> bool:
        """Whether every record of every range was handed out."""
        return not self._active

    def resume(self, broker_id: int, fetches: tuple[PartitionFetch, ...]) -> bool:
        """Take over a request that was sent before the ranges were known. False when the ranges need nothing of its response."""
        if not any(self._is_current(fetch) for fetch in fetches):
            return False
        self._in_flight[broker_id] = fetches
        self._resumed.add(broker_id)
        return True

    def next_actions(self, now_ms: float) -> list[SendFetch | RefreshMetadata]:
        """What to do now. Each action is given once, and the shell reports its outcome."""
        if self.problem is not None:
            return []
        by_broker: dict[int, list[RangeProgress]] = {}
        unknown: dict[str, None] = {}
        in_flight = {fetch.partition for fetches in self._in_flight.values() for fetch in fetches}
        for each in self._active.values():
            if each.need is Need.NOT or each.retry_at_ms > now_ms or each.partition in in_flight:
                continue
            # Brokers that know no ids in Fetch would read a re-created topic by its name.
            known_id = self._leaders.topic_id(each.partition.topic)
            each.needs_metadata = each.needs_metadata or ("" != each.topic_id != known_id != "")
            leader = None if each.needs_metadata else self._leaders.leader(each.partition)
            if leader is None:
                if each.need is Need.NOW:
                    unknown[each.partition.topic] = None
            elif (broker_id := each.broker_id(leader, now_ms)) not in self._in_flight:
                by_broker.setdefault(broker_id, []).append(each)
        actions: list[SendFetch | RefreshMetadata] = []
        for broker_id, ranges in by_broker.items():
            if not any(each.need is Need.NOW for each in ranges):
                continue
            self._in_flight[broker_id], self._sent_ms[broker_id] = self._fetches(ranges), now_ms
            actions.append(SendFetch(broker_id, self._in_flight[broker_id], self._is_bulk(ranges)))
        if unknown and not self._refreshing:
            self._refreshing = frozenset(unknown)
            actions.append(RefreshMetadata(tuple(unknown)))
        return actions

    def next_action_ms(self, now_ms: float) -> float | None:
        """When `next_actions` has something to do without any report; None when it waits for responses alone."""
        waiting = [each.retry_at_ms for each in self._active.values() if each.retry_at_ms > now_ms and each.need is Need.NOW]
        return min(waiting, default=None)

    def on_response(self, broker_id: int, responses: Sequence[PartitionResponse], now_ms: float) -> list[FetchedRecords]:
        """A broker's response to its request in flight. Raises PeerError when it makes no sense.

        `responses` are in the order of the response.
        """
        fetches = self._in_flight.pop(broker_id)
        was_resumed = broker_id in self._resumed
        self._resumed.discard(broker_id)
        by_partition = {response.partition: response for response in responses}
        if len(by_partition) < len(responses) or not by_partition.keys() <= {fetch.partition for fetch in fetches}:
            raise PeerError("a Fetch response with partitions that were not requested, or with one of them twice")
        # Before anything changes: where one partition makes no sense, the records of the others are fetched again.
        scanned = self._scan(fetches, by_partition)
        waited_ms = now_ms - self._sent_ms.pop(broker_id, now_ms)
        found: list[FetchedRecords] = []
        before_records = _up_to_first_records(responses)
        for fetch in fetches:
            response = by_partition.get(fetch.partition)
            is_first = fetch.partition in before_records
            if self._is_current(fetch):
                each = self._active[fetch.partition]
                if response is None:
                    # A broker that throttles leaves out the partitions.
                    self._fail(each, PartitionRefused(each.partition, ErrorCode.REQUEST_TIMED_OUT), now_ms)
                elif response.error is not ErrorCode.NONE:
                    self._on_error(each, response, now_ms)
                elif response.records:
                    found.extend(self._on_records(each, response, scanned[each.partition], is_first, now_ms))
                elif response.preferred_replica != NO_REPLICA:
                    self._on_preferred_replica(each, broker_id, response, now_ms)
                elif not was_resumed:  # a resumed request is older than the range: records may have been appended since
                    found.extend(self._on_empty(each, response, is_first, now_ms, waited_ms))
        return found

    def on_disconnect(self, broker_id: int, why: str, now_ms: float) -> None:
        """A broker cannot be reached, or did not respond: look up the leaders of all partitions that are read from it."""
        self._in_flight.pop(broker_id, None)
        self._resumed.discard(broker_id)
        for each in list(self._active.values()):
            leader = self._leaders.leader(each.partition)
            if leader is not None and each.broker_id(leader, now_ms) == broker_id and not each.needs_metadata:
                each.needs_metadata, each.replica = True, None
                self._fail(each, BrokersUnreachable(why), now_ms, is_connecting=True)

    def on_metadata(self, topics: Iterable[TopicMetadata], now_ms: float) -> None:
        """The metadata of the topics that `RefreshMetadata` named."""
        waiting = self._take_waiting_for_metadata(now_ms)
        by_name = {topic.name: topic for topic in topics}
        self._leaders.update(by_name.values())
        for each in waiting:
            self._on_topic_metadata(each, by_name.get(each.partition.topic), now_ms)

    def on_metadata_failure(self, why: str, now_ms: float) -> None:
        """No broker answered Metadata."""
        for each in self._take_waiting_for_metadata(now_ms):
            self._fail(each, BrokersUnreachable(why), now_ms)

    def _take_waiting_for_metadata(self, now_ms: float) -> list[RangeProgress]:
        """The ranges that wait for the Metadata request, which is complete now or has failed."""
        topics, self._refreshing = self._refreshing, frozenset()
        ranges = [each for each in self._active.values() if each.retry_at_ms <= now_ms and each.partition.topic in topics]
        return [each for each in ranges if each.needs_metadata or self._leaders.leader(each.partition) is None]

    def _start_next_range(self, partition: TopicPartition) -> None:
        """Start the partition's next range, if there is one."""
        later = self._later[partition]
        if later:
            self._active[partition] = RangeProgress(later.pop())
        else:
            del self._later[partition]

    def _is_current(self, fetch: PartitionFetch) -> bool:
        each = self._active.get(fetch.partition)
        return each is not None and each.fetch_offset == fetch.offset and each.topic_id in ("", fetch.topic_id)

    def _fetches(self, ranges: list[RangeProgress]) -> tuple[PartitionFetch, ...]:
        by_topic: dict[str, list[PartitionFetch]] = {}
        for each in ranges:
            leader = self._leaders.leader(each.partition)
            epoch = NO_EPOCH if leader is None else leader.epoch
            each.topic_id = each.topic_id or self._leaders.topic_id(each.partition.topic)
            fetch = PartitionFetch(each.partition, each.fetch_offset, epoch, each.topic_id)
            by_topic.setdefault(each.partition.topic, []).append(fetch)
        return tuple(fetch for fetches in by_topic.values() for fetch in fetches)

    def _is_bulk(self, ranges: list[RangeProgress]) -> bool:
        """Whether the ranges probably hold several more large responses, by the bytes per offset so far."""
        offsets = sum(each.end - each.fetch_offset for each in ranges if not each.empty_responses and not each.is_open)
        return offsets * self._received_bytes >= 2 * BULK_BYTES * self._received_offsets > 0

    def _scan(
        self, fetches: Iterable[PartitionFetch], responses: Mapping[TopicPartition, PartitionResponse]
    ) -> dict[TopicPartition, WholeBatches]:
        """The batches of every partition that is still read as it was requested. Raises PeerError."""
        scanned = {}
        for fetch in filter(self._is_current, fetches):
            response = responses.get(fetch.partition)
            if response is None or response.error is not ErrorCode.NONE or not response.records:
                continue
            whole = scanned[fetch.partition] = scan_batches(response.records)
            if 0 <= whole.next_offset <= self._active[fetch.partition].position:
                raise PeerError(f"a Fetch from offset {fetch.offset} of {fetch.partition} was answered with records before it")
        return scanned

    def _on_records(
        self, each: RangeProgress, response: PartitionResponse, scanned: WholeBatches, is_first: bool, now_ms: float
    ) -> list[FetchedRecords]:
        """The batches of one partition. `is_first`: no records came before them in the response."""
        if each.fetch_offset != each.position:
            self._fetch_position_again(each, now_ms)
            return []
        if scanned.next_offset < 0:
            if is_first:  # the first batch comes whole, however large it is (KIP-74)
                self._fail(each, PartitionRefused(each.partition, ErrorCode.RECORD_LIST_TOO_LARGE), now_ms)
            return []
        position = each.position
        self._received_bytes += scanned.size_bytes
        self._received_offsets += scanned.next_offset - position
        each.advance(scanned.next_offset)
        del self._active[each.partition]
        if each.position < each.end:
            self._active[each.partition] = each
        else:
            self._start_next_range(each.partition)
        records = response.records[: scanned.size_bytes].toreadonly()
        return [FetchedRecords(each.partition, position, scanned.next_offset, records, response.aborted)]

    def _on_error(self, each: RangeProgress, response: PartitionResponse, now_ms: float) -> None:
        error, refused = response.error, PartitionRefused(each.partition, response.error)
        is_from_follower, each.replica = each.replica is not None, None
        reaction = FETCH.of(error)
        has_new_leader = error in INVALID_METADATA and self._leaders.update_leader(each.partition, response.current_leader)
        is_refused_by_follower = is_from_follower and error is ErrorCode.OFFSET_OUT_OF_RANGE
        if (has_new_leader or is_refused_by_follower or reaction is Reaction.NEW_SESSION) and each.may_retry_at_once(now_ms):
            return  # where brokers keep naming each other, or lose every session, back-off begins
        if reaction in (Reaction.NEW_SESSION, Reaction.RETRY) or is_refused_by_follower:
            self._fail(each, refused, now_ms)
        elif error in UNKNOWN_TOPIC:
            each.needs_metadata = each.is_topic_doubted = True
            self._fail(each, self._missing(each), now_ms, is_short=True)
        elif reaction is Reaction.REFRESH:
            each.needs_metadata = True
            self._fail(each, refused, now_ms)
        elif reaction is Reaction.RESET and each.fetch_offset != each.position:
            self._fetch_position_again(each, now_ms)  # a new leader, whose high watermark lags behind
        elif reaction is Reaction.RESET:
            self._end(each, OffsetOutOfRange(each.partition, each.position, response.log_start_offset, response.high_watermark))
        else:
            self._refuse(each, refused, now_ms)

    def _on_preferred_replica(self, each: RangeProgress, broker_id: int, response: PartitionResponse, now_ms: float) -> None:
        """The leader names a follower that is closer. Followers name none: one that does knows another leader."""
        leader = self._leaders.leader(each.partition)
        if leader is not None and leader.broker_id == broker_id != response.preferred_replica:
            each.replica = PreferredReplica(response.preferred_replica, leader, now_ms + self._policy.metadata_max_age_ms)
        else:
            self._on_error(each, response._replace(error=ErrorCode.REPLICA_NOT_AVAILABLE), now_ms)

    def _fetch_position_again(self, each: RangeProgress, now_ms: float) -> None:
        """Retry from the position a little later: there are records behind it, although the responses from there were empty."""
        each.fetch_offset, each.empty_responses = each.position, 0
        self._fail(each, PartitionRefused(each.partition, ErrorCode.OFFSET_NOT_AVAILABLE), now_ms)

    def _on_empty(
        self, each: RangeProgress, response: PartitionResponse, is_first: bool, now_ms: float, waited_ms: float
    ) -> list[FetchedRecords]:
        """No batch came: there is none yet, none any more, or the response had no space left.

        `is_first`: no records came before in the response, so that it would hold a batch if there were one.
        """
        if each.is_open:
            # A broker waits for records; one that does not, again and again, is asked less often.
            quick = each.empty_responses + 1 if is_first and waited_ms < self._policy.max_wait_ms / 2 else 0
            each.advance(each.position)
            each.empty_responses = quick
            if quick > EMPTY_AT_ONCE_MAX:
                each.retry_at_ms = now_ms + backoff_ms(quick - EMPTY_AT_ONCE_MAX, *self._policy.retry_backoff_ms, self._rng())
            return []
        if each.replica is not None and response.high_watermark < each.end:  # the follower lags behind
            each.replica = None
            self._fail(each, PartitionRefused(each.partition, ErrorCode.OFFSET_NOT_AVAILABLE), now_ms)
            return []
        readable_to = response.last_stable_offset if self._policy.is_read_committed else response.high_watermark
        if readable_to >= each.end:
            each.empty_responses += is_first
            if each.empty_responses >= EMPTY_TO_END:
                del self._active[each.partition]
                self._start_next_range(each.partition)
                return [FetchedRecords(each.partition, each.position, each.end, memoryview(b""))]
            if each.empty_responses:
                each.fetch_offset = readable_to - 1
        elif response.high_watermark >= each.end:
            self._fail(each, PartitionRefused(each.partition, ErrorCode.OFFSET_NOT_AVAILABLE), now_ms)  # a transaction is open again
        else:
            truncated = OffsetOutOfRange(each.partition, each.position, response.log_start_offset, response.high_watermark)
            self._fail(each, truncated, now_ms, is_short=True)
        return []

    def _on_topic_metadata(self, each: RangeProgress, topic: TopicMetadata | None, now_ms: float) -> None:
        """Find one range's leader in new metadata."""
        if topic is None or topic.error in UNKNOWN_TOPIC:
            self._fail(each, self._missing(each), now_ms, is_short=True)
            return
        if topic.error is not ErrorCode.NONE:
            refused = PartitionRefused(each.partition, topic.error)
            if METADATA.of(topic.error) is Reaction.TELL:
                self._refuse(each, refused, now_ms)
            else:
                self._fail(each, refused, now_ms)
            return
        if each.topic_id and topic.topic_id and topic.topic_id != each.topic_id:
            self._on_other_topic_id(each, topic.topic_id, now_ms)
            return
        partition = topic.partitions.get(each.partition.partition)
        if partition is None:
            self._fail(each, UnknownPartition(each.partition), now_ms, is_short=True)
        elif partition.leader.broker_id == NO_LEADER:
            self._fail(each, PartitionRefused(each.partition, ErrorCode.LEADER_NOT_AVAILABLE), now_ms)
        else:
            each.needs_metadata = False

    def _on_other_topic_id(self, each: RangeProgress, found: str, now_ms: float) -> None:
        """Metadata has the name with another id: the topic was re-created, unless that broker lags behind."""
        problem = TopicRecreated(each.partition.topic, each.topic_id, found)
        if each.is_topic_doubted:
            self._end(each, problem)
            return
        each.needs_metadata = each.is_topic_doubted = True
        self._fail(each, problem, now_ms)

    def _missing(self, each: RangeProgress) -> Problem:
        return TopicRecreated(each.partition.topic, each.topic_id, "") if each.topic_id else UnknownPartition(each.partition)

    def _fail(self, each: RangeProgress, problem: Problem, now_ms: float, *, is_short: bool = False, is_connecting: bool = False) -> None:
        """Schedule a retry, or end with `problem` when retries are exhausted."""
        retries = each.record_failure(problem, now_ms, policy=self._policy, rng=self._rng(), is_short=is_short, is_connecting=is_connecting)
        if not retries:
            self._end(each, problem)

    def _refuse(self, each: RangeProgress, refused: PartitionRefused, now_ms: float) -> None:
        """Report what waiting may not end: an open range is tried again all the same, as by Kafka's clients, any other read ends."""
        if each.is_open:
            self._problems.append((each.partition, refused))
            self._fail(each, refused, now_ms)
        else:
            self.problem = refused

    def _end(self, each: RangeProgress, problem: Problem) -> None:
        """End an open range alone, or the whole read."""
        if each.is_open:
            self.remove(each.partition)
            self._problems.append((each.partition, problem))
        else:
            self.problem = problem


def _up_to_first_records(responses: Sequence[PartitionResponse]) -> set[TopicPartition]:
    """The partitions of a response that had all its space: those before the first one with records, and that one."""
    found: set[TopicPartition] = set()
    for response in responses:
        found.add(response.partition)
        if response.records:
            break
    return found
