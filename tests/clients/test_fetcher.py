"""The fetch client against real brokers: every record of every range once, whatever happens to leaders, brokers and topics meanwhile."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from confluent_kafka.admin import NewTopic

from ottla.broker import Cluster
from ottla.cli.processes import OttlaProcess
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import EARLIEST, LATEST, DescribedTopic
from ottla.client.errors import OffsetOutOfRangeError, TopicRecreatedError
from ottla.client.fetch.fetch_values import FetchedRecords, FetchRange
from ottla.client.fetch.fetcher import Fetcher
from ottla.client.settings import ClientSettings
from ottla.columnar import RecordBatchDecoder
from ottla.protocol.model import TopicPartition
from ottla.testing.waiting import wait_until

Read = dict[TopicPartition, list[tuple[int, bytes]]]


class Topic:
    """A topic with numbered records, and a fetcher for it."""

    def __init__(self, servers: str, name: str, partitions: int, replicas: int = 1) -> None:
        self.servers, self.name = servers, name
        self.places = [TopicPartition(name, number) for number in range(partitions)]
        self.admin = ConfluentAdmin({"bootstrap.servers": servers, "log_level": 0})
        self.admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(30)

    def produce(self, values: Iterable[bytes], **config: Any) -> None:
        """One record after another to the partitions in turn; those of a large size become batches of their own."""
        producer = Producer(
            {"bootstrap.servers": self.servers, "linger.ms": 20, "batch.size": 4_000, "enable.idempotence": True, "log_level": 0} | config
        )
        for number, value in enumerate(values):
            producer.produce(self.name, value, partition=number % len(self.places))
        assert producer.flush(30) == 0

    def described(self) -> DescribedTopic:
        with AdminClient(self.servers) as admin:
            (found,) = admin.describe_topics([self.name]).values()
        assert isinstance(found, DescribedTopic)
        return found

    def ends(self, **settings: Any) -> dict[TopicPartition, int]:
        with AdminClient(ClientSettings(bootstrap_servers=self.servers, **settings)) as admin:
            return {place: listed.offset for place, listed in admin.offsets_for_times(dict.fromkeys(self.places, LATEST)).items()}

    def fetcher(self, **settings: Any) -> Fetcher:
        return Fetcher(ClientSettings(bootstrap_servers=self.servers, **settings))


def values(pieces: Iterable[FetchedRecords], ranges: Iterable[FetchRange], between: Callable[[], None] = lambda: None) -> Read:
    """Offsets and values by partition; `between` is done once, after the first piece."""
    bounds = {each.partition: each for each in ranges}
    found: Read = {place: [] for place in bounds}
    at = {place: each.start for place, each in bounds.items()}
    for count, piece in enumerate(pieces):
        assert piece.position == at[piece.partition] < piece.next_offset
        assert piece.records.readonly
        at[piece.partition] = piece.next_offset
        decoder = RecordBatchDecoder(*piece.partition, columns=("offset", "value"), rows_max=10_000)
        wanted = bounds[piece.partition]
        for batch in decoder.decode(piece.records, offset_start=piece.position, offset_end=wanted.end, aborted=piece.aborted):
            found[piece.partition].extend(zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True))
        if count == 0:
            between()
    return found


def expected(ranges: Iterable[FetchRange], partitions: int, value: Callable[[int], bytes]) -> Read:
    """What `produce` has put there."""
    return {
        place: [(offset, value(offset * partitions + place.partition)) for offset in range(start, end)] for place, start, end, _ in ranges
    }


def test_many_partitions_and_batches_larger_than_every_limit(kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    topic = Topic(kafka_broker.bootstrap_servers, unique_name("wide"), 12)

    def value(number: int) -> bytes:
        return b"%d" % number * (20_000 if number % 101 == 0 else 1)

    topic.produce(map(value, range(3_600)))
    topic_id, ends = topic.described().topic_id, topic.ends()
    assert ends == dict.fromkeys(topic.places, 300)
    ranges = [FetchRange(place, 7 * place.partition, 300 - place.partition, topic_id) for place in topic.places]
    with topic.fetcher(max_partition_fetch_bytes=10_000, fetch_max_bytes=30_000) as fetcher:
        assert values(fetcher.read(ranges), ranges) == expected(ranges, 12, value)
        # By name, as where no id is known; and split into ranges that meet.
        halves = [FetchRange(topic.places[3], 0, 150), FetchRange(topic.places[3], 150, 300)]
        assert [offset for piece in halves for offset, _ in values(fetcher.read([piece]), [piece])[topic.places[3]]] == list(range(300))
        pieces = list(fetcher.read(halves))
        assert (pieces[0].position, pieces[-1].next_offset) == (0, 300)

        # What is asked for ahead is used when it begins where it was said, and dropped when not.
        later = [FetchRange(place, 100, 300, topic_id) for place in topic.places]
        for ahead in (later, [each._replace(start=50) for each in later], later[:5]):
            fetcher.prefetch(ahead)
            assert values(fetcher.read(later), later) == expected(later, 12, value)
        fetcher.prefetch([each._replace(start=300) for each in later])  # nothing is there yet
        topic.produce(map(value, range(3_600, 3_612)))
        more = [each._replace(start=300, end=301) for each in later]
        assert values(fetcher.read(more), more) == expected(more, 12, value)

        # A reader that stops early leaves nothing behind for the next one.
        next(fetcher.read(ranges))
        assert values(fetcher.read(later[:1]), later[:1]) == expected(later[:1], 12, value)


def test_offsets_that_are_not_there_and_a_topic_that_was_recreated(kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    topic = Topic(kafka_broker.bootstrap_servers, unique_name("flights"), 1)
    topic.produce(b"%d" % number for number in range(20))
    (zero,) = topic.places
    topic_id = topic.described().topic_id
    topic.admin.delete_records([Place(topic.name, 0, 5)])[Place(topic.name, 0, 5)].result(30)
    with topic.fetcher(fetch_max_wait_ms=20) as fetcher:
        for start in (4, 30):
            with pytest.raises(OffsetOutOfRangeError) as raised:
                list(fetcher.read([FetchRange(zero, start, 40, topic_id)]))
            assert (raised.value.position, raised.value.log_start_offset, raised.value.end_offset) == (start, 5, 20)
        pieces = fetcher.read([FetchRange(zero, 5, 40, topic_id)])
        assert next(pieces).position == 5
        with pytest.raises(OffsetOutOfRangeError, match="ends at offset 20") as raised:
            list(pieces)
        assert (raised.value.position, raised.value.log_start_offset) == (20, 5)

        topic.admin.delete_topics([topic.name])[topic.name].result(30)
        topic = Topic(kafka_broker.bootstrap_servers, topic.name, 1)
        topic.produce(b"%d" % number for number in range(20))
        began = time.monotonic()
        with pytest.raises(TopicRecreatedError) as recreated:
            list(fetcher.read([FetchRange(zero, 5, 20, topic_id)]))
        assert (recreated.value.expected, recreated.value.found) == (topic_id, topic.described().topic_id)
        assert time.monotonic() - began < 30, "both, broker and metadata, say so: it does not look for the topic for default.api.timeout.ms"
        assert len(values(fetcher.read([FetchRange(zero, 0, 20)]), [FetchRange(zero, 0, 20)])[zero]) == 20


@pytest.mark.kafka
def test_only_what_was_committed(reference: Any, unique_name: Callable[[str], str]) -> None:
    topic = Topic(reference.shared().bootstrap_servers, unique_name("paid"), 1)
    (zero,) = topic.places
    name = unique_name("payer")
    producer = Producer({"bootstrap.servers": topic.servers, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    for number, is_cached in enumerate((True, False, True, False)):
        producer.begin_transaction()
        producer.produce(topic.name, b"%d" % number, partition=0)
        producer.flush(30)
        if is_cached:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    # Each transaction is a record and a marker, which comes after the answer that ended it; the last record is an aborted one.
    wait_until(lambda: topic.ends(is_read_committed=True)[zero] == 8, "the last marker")
    with topic.fetcher(is_read_committed=True) as fetcher:
        for wanted in (FetchRange(zero, 0, 8), FetchRange(zero, 0, 7), FetchRange(zero, 7, 8)):
            kept = [pair for pair in ((0, b"0"), (4, b"2")) if pair[0] >= wanted.start]
            assert values(fetcher.read([wanted]), [wanted])[zero] == kept
        producer.begin_transaction()
        producer.produce(topic.name, b"open", partition=0)
        producer.flush(30)
        assert (topic.ends(is_read_committed=True)[zero], topic.ends()[zero]) == (8, 9)
        producer.abort_transaction(30)


def test_leaders_that_move_and_a_broker_that_goes_while_it_is_read(unique_name: Callable[[str], str]) -> None:
    with Cluster(brokers=3) as cluster:
        topic = Topic(cluster.bootstrap_servers, unique_name("moved"), 6, replicas=3)

        def value(number: int) -> bytes:
            return b"%d" % number * 200

        topic.produce(map(value, range(6_000)))
        ranges = [FetchRange(place, 0, 1_000, topic.described().topic_id) for place in topic.places]

        def move() -> None:
            for place in topic.places:
                cluster.move_leader(place.topic, place.partition, to=2)

        with topic.fetcher(max_partition_fetch_bytes=50_000) as fetcher:
            assert values(fetcher.read(ranges), ranges, move) == expected(ranges, 6, value)
            assert values(fetcher.read(ranges), ranges, lambda: cluster.stop_broker(2)) == expected(ranges, 6, value)
        with AdminClient(cluster.bootstrap_servers) as admin:
            assert admin.list_offsets(topic.places, EARLIEST) == dict.fromkeys(topic.places, 0)


def test_a_broker_that_is_killed_and_comes_back_while_it_is_read(tmp_path: Path, unique_name: Callable[[str], str]) -> None:
    with OttlaProcess(tmp_path / "data") as broker:
        topic = Topic(broker.bootstrap_servers, unique_name("killed"), 2)

        def value(number: int) -> bytes:
            return b"%d" % number * 200

        topic.produce(map(value, range(2_000)))
        ranges = [FetchRange(place, 0, 1_000, topic.described().topic_id) for place in topic.places]

        def kill() -> None:
            broker.kill()
            broker.start()

        with topic.fetcher(max_partition_fetch_bytes=50_000) as fetcher:
            assert values(fetcher.read(ranges), ranges, kill) == expected(ranges, 2, value)
