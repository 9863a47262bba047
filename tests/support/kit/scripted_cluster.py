"""A cluster in memory for the tests of `ottla watch`: what an AdminClient and a Fetcher are asked for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.values import EARLIEST, CommittedOffset, DescribedGroup, DescribedMember, DescribedTopic, Failure, ListedGroup
from ottla.client.errors import RequestFailedError
from ottla.client.fetch.fetch_values import FetchedRecords, FetchRange
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import encode_batch
from tests.support.kit.consumer_protocol import encode_assignment
from tests.support.kit.offsets_topic_records import Pair


class ScriptedCluster:
    """Topics by name: for each partition a log of batches with the offset of each. It is its own admin client and fetcher."""

    def __init__(self) -> None:
        self.logs: dict[str, dict[int, list[tuple[int, bytes]]]] = {"t": {0: []}}
        self.starts: dict[TopicPartition, int] = {}
        self.groups: dict[str, DescribedGroup | Failure] = {}
        self.offsets: dict[str, Mapping[TopicPartition, CommittedOffset]] = {}
        self.refused: ErrorCode | None = None
        self.fetched: list[FetchRange] = []

    def add(self, topic: str, partition: int, *pairs: Pair) -> None:
        """One batch."""
        log = self.logs.setdefault(topic, {}).setdefault(partition, [])
        base = self._end(topic, partition)
        records = [Record(base + number, 1_000 + base + number, *pair) for number, pair in enumerate(pairs)]
        log.append((base + len(pairs), bytes(encode_batch(records, base_offset=base))))

    def set_group(self, name: str, *members: str, state: str = "Stable") -> None:
        described = [
            DescribedMember(member_id=each, instance_id=None, client_id="c", host="/h", assignment_bytes=encode_assignment({"t": [0]}))
            for each in members
        ]
        self.groups[name] = DescribedGroup(
            group_id=name,
            kind="classic",
            protocol_type="consumer",
            state=state,
            assignor="range",
            coordinator=BrokerEndpoint(0, "h", 1),
            members=tuple(described),
        )

    def _end(self, topic: str, partition: int) -> int:
        log = self.logs[topic][partition]
        return log[-1][0] if log else 0

    def list_groups(self) -> list[ListedGroup]:
        return [ListedGroup(group_id=name, protocol_type="consumer", state="", kind="classic") for name in self.groups]

    def describe_groups(self, names: Iterable[str]) -> dict[str, DescribedGroup | Failure]:
        return {name: self.groups.get(name, Failure(ErrorCode.GROUP_ID_NOT_FOUND)) for name in names}

    def committed(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: self.offsets.get(name, {}) for name in names}

    def describe_topics(self, names: Iterable[str]) -> dict[str, DescribedTopic | Failure]:
        if self.refused is not None:
            return dict.fromkeys(names, Failure(self.refused))
        known = self.list_topics()
        return {name: known.get(name, Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) for name in names}

    def list_topics(self) -> dict[str, DescribedTopic]:
        return {name: DescribedTopic(name, dict.fromkeys(partitions, 0), f"id-{name}") for name, partitions in self.logs.items()}

    def list_offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        return {each: self.starts.get(each, 0) if timestamp == EARLIEST else self._end(*each) for each in partitions}

    def read(self, ranges: Sequence[FetchRange]) -> Iterator[FetchedRecords]:
        if self.refused is not None and ranges:
            raise RequestFailedError("refused", self.refused)
        self.fetched += ranges
        for each in ranges:
            log = self.logs[each.partition.topic][each.partition.partition]
            data = b"".join(batch for next_offset, batch in log if next_offset > each.start)
            yield FetchedRecords(each.partition, each.start, each.end, memoryview(data))
