"""`Broker` and `Cluster` as tests of applications use them: those of `ottla.broker`, with verbs; and a broker for each unittest.

The verbs need no client library, and nothing of the application under test. The journal has the group events as they were published: the
last ones of each group, and every partition that it has owned.
"""

import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import ClassVar, Final, TypeVar
from unittest import TestCase

from ottla import broker
from ottla.broker.clock import now_ms
from ottla.broker.composition import Components
from ottla.broker.embedded import Embedded
from ottla.config import GivenValue
from ottla.groups.events import GroupEvent
from ottla.protocol.model import TopicPartition
from ottla.testing.application.consuming import ConsumedRecord, consume, consume_async, read_topic
from ottla.testing.application.groups import TIMEOUT_S, Group
from ottla.testing.application.producing import Headers, ToProduce, produce
from ottla.testing.application.transactions import OpenTransaction, begin_abort, in_words, open_transactions
from ottla.testing.raw_client import create_topic, delete_topic
from ottla.testing.waiting import HIDE_FAILURES, wait_until, wait_until_in_threads

__tracebackhide__ = HIDE_FAILURES

EVENTS_MAX: Final = 10_000
"""Of one group; no test looks at more."""

T = TypeVar("T")

_NO_SETTINGS: Final[Mapping[str, GivenValue]] = {}
_NO_HEADERS: Final[Headers] = ()


class Journal:
    """Keeps events, and passes them on to the callback that the test gave. `add` is called in the broker's thread."""

    def __init__(self, callback: Callable[[GroupEvent], None] | None) -> None:
        self._callback = callback
        self._events: dict[str, deque[GroupEvent]] = {}
        self._owned: dict[str, set[TopicPartition]] = {}

    def add(self, event: GroupEvent) -> None:
        """Keep an event."""
        self._events.setdefault(event.group, deque(maxlen=EVENTS_MAX)).append(event)
        if event.kind == "sync_completed":
            assignments = [member.assignment for member in event.members]
            owned = {TopicPartition(topic, number) for topics in assignments for topic, numbers in topics.items() for number in numbers}
            self._owned.setdefault(event.group, set()).update(owned)
        if self._callback is not None:
            self._callback(event)

    def of_group(self, group_id: str) -> tuple[GroupEvent, ...]:
        """The events of a group, oldest first. In the broker's thread."""
        return tuple(self._events.get(group_id, ()))

    def owned_by(self, group_id: str) -> Set[TopicPartition]:
        """Every partition that a member of the group has owned. In the broker's thread."""
        return self._owned.get(group_id, frozenset())


class Verbs(Embedded):
    """What a test does with its broker or its cluster. What fails is an AssertionError."""

    _journal: Journal

    @property
    def _verb_servers(self) -> str:
        """Where the verbs connect: a listener without TLS and SASL."""
        return self.bootstrap_servers

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        *,
        replication_factor: int = -1,
        config: Mapping[str, GivenValue] = _NO_SETTINGS,
    ) -> None:
        """Create a topic; -1: as many as the broker's settings say (num.partitions, default.replication.factor).

        `config` takes Kafka's names: {"cleanup.policy": "compact"}. Raises AssertionError with the broker's error.
        """
        settings = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}
        create_topic(self._verb_servers, name, partitions, replicas=replication_factor, **settings)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records, and what groups have committed for it. Raises AssertionError with the broker's error."""
        delete_topic(self._verb_servers, name)

    def produce(
        self,
        topic: str,
        records: Sequence[ToProduce],
        *,
        partition: int | None = None,
        headers: Headers = _NO_HEADERS,
        timestamp_ms: int | None = None,
    ) -> None:
        """Append records, each a value or a (key, value); a null value is None. All are acknowledged when this returns.

        The partition is that of the key's hash, as with the Java producer; records without a key go to the partitions in turn, or all
        records to `partition`. The topic is created where the broker does that (`auto.create.topics.enable`). `timestamp_ms`: now;
        warns of one that is so old that the topic's retention will remove the records.
        `headers` are those of every record: {name: value}, or [(name, value), ...] where a name occurs more than once.
        """
        at_ms = now_ms() if timestamp_ms is None else timestamp_ms
        produce(self._verb_servers, topic, records, partition=partition, headers=headers, timestamp_ms=at_ms)
        retention_ms = None if timestamp_ms is None else self._call_in_loop(lambda components: _retention_ms(components, topic))
        if retention_ms is not None and at_ms < now_ms() - retention_ms:
            warnings.warn(
                f"the broker will remove these records of topic {topic}: their timestamp is older than retention.ms={retention_ms};"
                ' to keep them, create_topic(..., config={"retention.ms": -1})',
                stacklevel=2,
            )

    def consume(self, topic: str, count: int, *, timeout: float = TIMEOUT_S) -> list[ConsumedRecord]:
        """The first `count` records of a topic, as soon as it has so many: each call begins at the topic's beginning.

        Each partition's records are in the order of their offsets, those of several partitions in that of their timestamps. Records of
        aborted and open transactions do not count. Raises AssertionError after `timeout` seconds, with what the topic has.
        """
        return consume(self._verb_servers, topic, count, timeout=timeout)

    async def consume_async(self, topic: str, count: int, *, timeout: float = TIMEOUT_S) -> list[ConsumedRecord]:
        """`consume` for coroutines: the event loop runs meanwhile."""
        return await consume_async(self._verb_servers, topic, count, timeout=timeout)

    def values(self, topic: str) -> list[bytes | None]:
        """The values of all records that a topic has now, in the order of `consume`. Raises NotYet, an AssertionError that `wait_until`
        waits for, when there is no such topic.
        """
        return [record.value for record in read_topic(self._verb_servers, topic)]

    def group(self, name: str) -> Group:
        """A consumer group of the application, which need not exist yet."""
        return Group(name, self._call_in_loop, read_events=self._group_events, owned_by=self._journal.owned_by)

    def transactions(self) -> dict[str, OpenTransaction]:
        """The open transactions by transactional id, with state, partitions, start and timeout. One whose markers are due is open, too."""
        return wait_until(lambda: [found for found in [self._call_in_loop(open_transactions)] if found is not None], "coordinators")[0]

    def wait_for_no_transactions(self, *, timeout: float = TIMEOUT_S) -> None:
        """Wait until no transaction is open: all are committed or aborted, and readers of committed records see all that was committed.

        Raises AssertionError after `timeout` seconds, with those that are open.
        """
        wait_until(self._has_no_transactions, self._wanted_no_transactions, seconds=timeout)

    async def wait_for_no_transactions_async(self, *, timeout: float = TIMEOUT_S) -> None:
        """`wait_for_no_transactions` for coroutines: the event loop runs meanwhile."""
        await wait_until_in_threads(self._has_no_transactions, self._wanted_no_transactions, seconds=timeout)

    def abort(self, transactional_id: str, *, timeout: float = TIMEOUT_S) -> None:
        """Abort the open transaction of a producer and fence the producer, as if its transaction.timeout.ms were over.

        The transaction has ended when this returns; the producer learns it from its next request. Raises AssertionError where the id has
        no open transaction, and when the markers are not written after `timeout` seconds.
        """
        begun = self.transactions().get(transactional_id)
        self._call_in_loop(lambda components: begin_abort(components, transactional_id))

        def has_ended() -> bool:
            now = self.transactions().get(transactional_id)
            return now is None or begun is None or now.start_ms != begun.start_ms

        wait_until(has_ended, lambda: f"the abort of {transactional_id}. {in_words(self.transactions().values())}", seconds=timeout)

    def _has_no_transactions(self) -> bool:
        return not self.transactions()

    def _wanted_no_transactions(self) -> str:
        return f"no transaction to be open. {in_words(self.transactions().values())}"

    def _call_in_loop(self, work: Callable[[Components], T]) -> T:
        components = self._running().cluster

        async def run() -> T:
            return work(components)

        return self._in_loop(run())

    def _group_events(self, group_id: str) -> tuple[GroupEvent, ...]:
        components = self._running().cluster

        async def read() -> tuple[GroupEvent, ...]:
            # Published events are written before they are passed on: after a restart, when their topic is open.
            await components.events.open()
            components.events.flush()
            return self._journal.of_group(group_id)

        return self._in_loop(read())


def _retention_ms(components: Components, name: str) -> int | None:
    """How long a topic keeps records by their timestamps; None: for ever, or the topic is gone."""
    metadata = components.cluster_metadata
    topic = metadata.topics.get(name)
    if topic is None or "delete" not in metadata.value_in_force(topic, "cleanup.policy")[0]:
        return None
    retention_ms = metadata.number_in_force(topic, "retention.ms")
    return retention_ms if retention_ms >= 0 else None


class Broker(Verbs, broker.Broker):
    """One broker with the verbs of tests; the arguments are those of `ottla.broker.Broker`, and one more.

    `topics_at_once`: a client's first question about a topic that is not there creates it and is answered with it. False: as with Kafka,
    the topic is unknown in the first answer and there in the next, for which clients wait some 100 ms.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        config: Mapping[str, GivenValue] | None = None,
        listen: str | None = None,
        on_group_event: Callable[[GroupEvent], None] | None = None,
        metrics: str | None = None,
        topics_at_once: bool = True,
        listeners: Sequence[str] = (),
        scram_users: Sequence[str] = (),
    ) -> None:
        self._journal = Journal(on_group_event)
        self._topics_at_once = topics_at_once
        event = self._journal.add
        super().__init__(
            data_dir, config=config, listen=listen, on_group_event=event, metrics=metrics, listeners=listeners, scram_users=scram_users
        )


class Cluster(Verbs, broker.Cluster):
    """Several brokers with the verbs of tests; the arguments are those of `ottla.broker.Cluster`, and `topics_at_once` of `Broker`."""

    def __init__(
        self,
        brokers: int = 3,
        data_dir: str | Path | None = None,
        *,
        config: Mapping[str, GivenValue] | None = None,
        listen: str | None = None,
        on_group_event: Callable[[GroupEvent], None] | None = None,
        metrics: str | None = None,
        topics_at_once: bool = True,
        listeners: Sequence[str] = (),
        scram_users: Sequence[str] = (),
    ) -> None:
        self._journal = Journal(on_group_event)
        self._topics_at_once = topics_at_once
        super().__init__(
            brokers,
            data_dir,
            config=config,
            listen=listen,
            on_group_event=self._journal.add,
            metrics=metrics,
            listeners=listeners,
            scram_users=scram_users,
        )


class OttlaCase(TestCase):
    """`self.ottla_broker` is a fresh broker in memory, with the verbs of tests; `ottla_config` are its settings.

    A broker of a whole class: `cls.ottla_broker = cls.enterClassContext(Broker())` in setUpClass of a plain TestCase. With Django, name it
    before its own: `class OrderTest(OttlaCase, django.test.TestCase)`.
    """

    ottla_config: ClassVar[Mapping[str, GivenValue]] = {}
    ottla_broker: Broker

    def setUp(self) -> None:
        """Start the broker, then what other classes set up."""
        self.ottla_broker = self.enterContext(Broker(config=self.ottla_config))
        super().setUp()
