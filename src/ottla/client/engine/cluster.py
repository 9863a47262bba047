"""What the consumer knows of the cluster, and when it asks again: metadata of the topics of interest (Kafka: `ConsumerMetadata`)."""

from collections.abc import Callable, Iterable

from ottla.client.backoff import backoff_ms
from ottla.client.engine.values import ConsumerSettings, Endpoint, Metadata, MetadataResponse
from ottla.client.fetch.leaders import NO_LEADER, Leaders, TopicMetadata
from ottla.protocol.errors import ErrorCode


class ClusterView:
    """Brokers and topics by the last responses. `partitions`: how many each known topic has; `racks`: of the replicas of its partitions;
    `internal`: the brokers' own topics.
    """

    def __init__(self, settings: ConsumerSettings, leaders: Leaders, *, rng: Callable[[], float]) -> None:
        self.endpoints: dict[int, Endpoint] = {}
        self.partitions: dict[str, int] = {}
        self.racks: dict[str, tuple[frozenset[str], ...]] = {}
        self.internal: frozenset[str] = frozenset()
        self._settings = settings
        self._leaders = leaders
        self._rng = rng
        self._in_flight: Metadata | None = None
        self._wanted: set[str] = set()
        self._wanted_ids: frozenset[str] = frozenset()
        self._has_all = self._is_incomplete = False
        self._wants_brokers = False
        self._refresh_at_ms = 0.0
        self._retry_at_ms = 0.0
        self._failures = 0

    def request_update(self, topics: Iterable[str]) -> None:
        """Ask for these topics soon: their leaders have changed."""
        self._wanted.update(topics)

    def request_topic_ids(self, topic_ids: frozenset[str]) -> None:
        """Ask for these topics soon: only their ids are known."""
        self._wanted_ids = topic_ids

    def request_brokers(self) -> None:
        """Ask for the brokers soon, although no topic is of interest yet."""
        self._wants_brokers = True

    def next_request(self, topics: frozenset[str], *, is_all: bool, now_ms: float) -> Metadata | None:
        """The request to send now. `topics`: those of interest; `is_all`: every topic, for patterns."""
        if self._in_flight is not None or now_ms < self._retry_at_ms:
            return None
        if self._wanted_ids:
            self._in_flight = Metadata((), topic_ids=tuple(sorted(self._wanted_ids)))
            self._wanted_ids = frozenset()
            return self._in_flight
        if is_all:
            is_new = not self._has_all
        else:
            is_new = not topics <= self.partitions.keys()
        if not (self._wanted or is_new or now_ms >= self._refresh_at_ms):
            return None
        if not (is_all or topics or self._wanted or self._wants_brokers):
            return None
        names = None if is_all else tuple(sorted(topics | self._wanted))
        self._in_flight = Metadata(names, creates=self._settings.creates_topics)
        self._has_all = is_all
        self._wanted = set()
        return self._in_flight

    def next_ms(self, *, has_topics: bool = True) -> float | None:
        """When `next_request` may have something without any report. `has_topics`: some are of interest."""
        if self._in_flight is not None or not (has_topics or self._wanted or self._wanted_ids or self._wants_brokers):
            return None
        return self._retry_at_ms if self._wanted or self._wanted_ids or self._is_incomplete else max(self._refresh_at_ms, self._retry_at_ms)

    def on_response(self, request: Metadata, response: MetadataResponse, now_ms: float) -> None:
        """A response to Metadata. A topic that exists no more is forgotten."""
        self._in_flight = None
        self._wants_brokers = False
        is_complete = set(request.topic_ids) <= {topic.topic_id for topic in response.topics if _is_known(topic)}
        if not request.topic_ids:
            self._is_incomplete = False
            self._refresh_at_ms = now_ms + self._settings.metadata_max_age_ms
        self.endpoints = dict(response.endpoints)
        self._leaders.update(response.topics)
        for topic in response.topics:
            self.racks[topic.name] = tuple(each.racks for _, each in sorted(topic.partitions.items()))
        found = {topic.name: len(topic.partitions) for topic in response.topics if _is_known(topic)}
        if request.topics is None:
            self.partitions = found
            self.internal = frozenset(topic.name for topic in response.topics if topic.is_internal)
        else:
            for topic in response.topics:
                if _is_known(topic):
                    self.partitions[topic.name] = found[topic.name]
                elif topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    self.partitions.pop(topic.name, None)
            self._is_incomplete |= any(topic not in self.partitions for topic in request.topics)
        has_leaders = all(each.leader.broker_id != NO_LEADER for topic in response.topics for each in topic.partitions.values())
        # What is missing is looked for soon, then later and later (librdkafka: topic.metadata.refresh.fast.interval.ms).
        self._failures = 0 if has_leaders and is_complete and not self._is_incomplete else self._failures + 1
        self._retry_at_ms = now_ms + self._backoff_ms(max(self._failures, 1))

    def on_no_response(self, now_ms: float) -> None:
        """The request was lost with its connection, or not answered in time."""
        self._in_flight = None
        self._failures += 1
        self._is_incomplete = True
        self._refresh_at_ms = now_ms
        self._retry_at_ms = now_ms + self._backoff_ms(self._failures)

    def _backoff_ms(self, failures: int) -> float:
        return backoff_ms(failures, *self._settings.group.retry_backoff_ms, self._rng())


def _is_known(topic: TopicMetadata) -> bool:
    """Whether the partitions of a topic are known: it has at least one."""
    return topic.error is ErrorCode.NONE and bool(topic.partitions)
