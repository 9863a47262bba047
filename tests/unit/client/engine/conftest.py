"""A cluster of values for the engine: one broker that answers every request at once, and logs in memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.client.engine.engine import Engine
from ottla.client.engine.record_buffer import Slice
from ottla.client.engine.values import (
    ConsumerSettings,
    CoordinatorResponse,
    Endpoint,
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
    Request,
    Send,
)
from ottla.client.fetch.fetch_values import FetchedRecords, PartitionFetch, PartitionResponse
from ottla.client.fetch.leaders import LeaderAndEpoch, PartitionMetadata, TopicMetadata
from ottla.client.membership.values import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    FindCoordinator,
    GroupSettings,
    Heartbeat,
    JoinedMember,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    SyncGroup,
    SyncResponse,
)
from ottla.groups.assignors import assignors
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import decode_batch, encode_batch, split_batches

OK = ErrorCode.NONE
SESSION_ID = 7


class Rows:
    """Records of a batch."""

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        self.size_bytes = len(records)

    def __len__(self) -> int:
        return len(self.records)

    def offset(self, row: int) -> int:
        return self.records[row].offset

    def leader_epoch(self, row: int) -> int:
        return 0


def decode(fetched: FetchedRecords) -> Iterator[Rows]:
    for at, _ in split_batches(fetched.records):
        records = [record for record in decode_batch(fetched.records, at) if record.offset >= fetched.position]
        if records:
            yield Rows(records)


@dataclass
class World:
    """One consumer and its cluster. `errors` are given once instead of the response; requests of the types in `silent` are not answered.

    `epochs`: leader epochs, 0 where there is none; `epoch_ends`: what OffsetForLeaderEpoch gives, where it is not the end of the log;
    `stable`: last stable offsets, where they are not the end of the log; `target`: partitions by topic id, which the coordinator of the
    consumer protocol assigns.
    """

    settings: ConsumerSettings
    assignor: str = "range"
    logs: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    committed: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    epochs: dict[TopicPartition, int] = field(default_factory=dict)
    epoch_ends: dict[TopicPartition, EpochEnd] = field(default_factory=dict)
    stable: dict[TopicPartition, int] = field(default_factory=dict)
    errors: dict[type, list[Any]] = field(default_factory=dict)
    silent: set[type] = field(default_factory=set)
    sent: list[Request] = field(default_factory=list)
    callbacks: list[tuple[str, list[int]]] = field(default_factory=list)
    waiting: list[Send] = field(default_factory=list)
    now: float = 0.0
    generation: int = 0
    assignment: bytes = b""
    leader: int = 1
    topic_ids: dict[str, str] = field(default_factory=dict)
    target: dict[str, list[int]] = field(default_factory=dict)
    told: dict[str, list[int]] | None = None

    def __post_init__(self) -> None:
        self.engine = Engine(
            self.settings,
            [assignors()[self.assignor]],
            decode,
            now_ms=0,
            rng=lambda: 0.5,
            time_of_day_ms=lambda: 10_000,
        )

    def add_records(self, partition: TopicPartition, count: int, per_batch: int = 10) -> None:
        log = self.logs.setdefault(partition, [])
        log += [b"%d" % number for number in range(len(log), len(log) + count)]

    def count(self, kind: type) -> int:
        return sum(isinstance(request, kind) for request in self.sent)

    def settle(self, after_ms: float = 0) -> None:
        """Answer all requests, over and over, until none is sent any more."""
        self.now += after_ms
        while sends := self.engine.next_sends(self.now):
            for send in sends:
                self.sent.append(send.request)
                self.answer(send)

    def answer(self, send: Send) -> None:
        kind = type(send.request)
        if kind in self.silent or (isinstance(send.request, Fetch) and send.request.fetches and not self.has_records(send.request)):
            self.waiting.append(send)
        elif self.errors.get(kind):
            error = self.errors[kind].pop(0)
            if error == "lost":
                self.engine.on_no_response(send, "lost", self.now)
            else:
                self.engine.on_response(send, error, self.now)
        else:
            self.engine.on_response(send, self.response(send.request), self.now)

    def end_fetches(self) -> None:
        """Answer the fetches that wait for records, with what there is."""
        waiting, self.waiting = self.waiting, []
        for send in waiting:
            self.engine.on_response(send, self.response(send.request), self.now)

    def has_records(self, fetch: Fetch) -> bool:
        return any(each.offset != self.stable.get(each.partition, len(self.logs.get(each.partition, []))) for each in fetch.fetches)

    def poll(self, count: int = 1_000) -> list[Slice]:
        """The application's poll: callbacks, then records."""
        engine = self.engine
        engine.poll(self.now)
        for _ in range(20):
            self.settle()
            callback = engine.next_callback(self.now)
            if callback is not None:
                self.callbacks.append((callback.kind, [each.partition for each in callback.partitions]))
            self.settle()
            if callback is None and not (engine.rebalances.is_active or engine.membership.must_prepare or engine.membership.assigned):
                break
        return engine.take(count)

    def offsets(self, slices: list[Slice]) -> list[int]:
        return [part.columns.offset(row) for part in slices for row in range(part.first, part.end)]

    def response(self, request: Request) -> Any:
        match request:
            case Metadata():
                topics: dict[str, dict[int, PartitionMetadata]] = {}
                for topic, number in self.logs:
                    epoch = self.epochs.get(TopicPartition(topic, number), 0)
                    topics.setdefault(topic, {})[number] = PartitionMetadata(OK, LeaderAndEpoch(self.leader, epoch))
                ids = self.topic_ids
                if ids:
                    asked = {*(request.topics or ()), *request.topic_ids}
                    topics = {name: each for name, each in topics.items() if asked & {name, ids[name]}}
                found = [TopicMetadata(name, OK, ids.get(name, ""), False, partitions) for name, partitions in topics.items()]
                missing = [each for each in request.topics or () if each not in topics]
                unknown = [TopicMetadata(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in missing]
                return MetadataResponse({self.leader: Endpoint("h", 1)}, tuple(found + unknown))
            case FindCoordinator():
                return CoordinatorResponse(OK, 1, Endpoint("h", 1))
            case JoinGroup():
                self.generation += 1
                members = (JoinedMember("me", None, request.protocols[0][1]),)
                return JoinResponse(
                    error=OK, generation=self.generation, protocol_name=self.assignor, leader="me", member_id="me", members=members
                )
            case SyncGroup():
                return SyncResponse(error=OK, assignment=self.assignment or dict(request.assignments)["me"])
            case ConsumerGroupHeartbeat():
                if request.member_epoch == 0:
                    self.generation, self.told = self.generation + 1, None
                news, self.told = self.target if self.target != self.told else None, dict(self.target)
                return ConsumerGroupHeartbeatResponse(
                    error=OK, member_epoch=self.generation, heartbeat_interval_ms=1_000, assignment=None if request.is_leave else news
                )
            case Heartbeat() | LeaveGroup():
                return OK
            case OffsetFetch():
                nothing = OffsetAndMetadata(-1)
                return OffsetFetchResponse(OK, {each: FetchedOffset(OK, self.committed.get(each, nothing)) for each in request.partitions})
            case OffsetCommit():
                self.committed.update(request.offsets)
                return dict.fromkeys(request.offsets, OK)
            case ListOffsets():
                return {each: ListedOffset(OK, self.listed(each, at), 0) for each, at in request.timestamps.items()}
            case OffsetForLeaderEpoch():
                ends = {each: EpochEnd(OK, wanted.leader_epoch, len(self.logs[each])) for each, wanted in request.epochs.items()}
                return ends | self.epoch_ends
            case Fetch():
                return FetchResponse(tuple(self.fetched(each) for each in request.fetches), {}, OK, SESSION_ID)
        raise AssertionError(request)

    def listed(self, partition: TopicPartition, timestamp: int) -> int:
        return {-2: self.starts.get(partition, 0), -1: len(self.logs[partition])}.get(timestamp, 5)

    def fetched(self, fetch: PartitionFetch) -> PartitionResponse:
        log, start = self.logs[fetch.partition], self.starts.get(fetch.partition, 0)
        if not start <= fetch.offset <= len(log):
            return PartitionResponse(fetch.partition, ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=start, high_watermark=len(log))
        stable = self.stable.get(fetch.partition, len(log))
        records = [Record(number, 0, None, log[number]) for number in range(fetch.offset, min(fetch.offset + 100, stable))]
        data = bytes(encode_batch(records, base_offset=fetch.offset)) if records else b""
        return PartitionResponse(fetch.partition, OK, len(log), stable, start, memoryview(data))


@pytest.fixture
def new_world() -> Callable[..., World]:
    """`new_world(t=2, **settings)`: a cluster with topics and their partition counts, and a consumer with these settings."""

    def make(assignor: str = "range", group: dict[str, Any] | None = None, topics: dict[str, int] | None = None, **settings: Any) -> World:
        settings.setdefault("reset", -2)
        world = World(ConsumerSettings(group=GroupSettings(**{"group_id": "g", **(group or {})}), **settings), assignor)
        for topic, count in (topics or {"t": 1}).items():
            for number in range(count):
                world.logs[TopicPartition(topic, number)] = []
        return world

    return make
