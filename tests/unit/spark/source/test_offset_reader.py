"""The driver's requests to brokers, against a scripted cluster."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.deadlines import DeadlineExceededError, NoBrokerReachedError
from ottla.client.errors import AuthenticationError, RequestFailedError, UnknownTopicError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.group.starting_offsets import NoCommittedOffsetError
from ottla.spark.options.source_options import Query, parse_options
from ottla.spark.options.values import OptionError
from ottla.spark.source.offset_reader import OffsetReader
from ottla.spark.source.planning import Offsets

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
IDS = {"t": "id-of-t"}


@pytest.fixture
def reader(cluster: Any) -> Callable[..., OffsetReader]:
    """`reader(option=value)` of topics t (10 to 50, 0 to 30), u and __internal; waits are in `cluster.waits`."""
    cluster.topic("t", (10, 50), (0, 30)).topic("u", (3, 4)).topic("__internal", (0, 9))
    cluster.internal.add("__internal")
    cluster.waits = []

    def make(**options: str) -> OffsetReader:
        given = {"subscribe": "t"} if not {"assign", "subscribePattern"} & set(options) else {}
        parsed = parse_options({"kafka.bootstrap.servers": "localhost:9092", **given, **options}, Query.STREAM)
        return OffsetReader(parsed, connect=cluster.connect, pause=cluster.waits.append)

    return make


def _start(reader: OffsetReader) -> dict[TopicPartition, int]:
    offsets, _ = reader.resolve(reader._options.starting, is_start=True)
    return dict(offsets.by_partition)


def test_which_partitions_a_query_has(reader: Callable[..., OffsetReader]):
    for options, partitions in [
        ({"subscribe": "u,t"}, {T0, T1, U0}),
        ({"subscribePattern": "[tuv]|__"}, {T0, T1, U0}),
        ({"subscribe": "__internal"}, {TopicPartition("__internal", 0)}),
        ({"assign": '{"t":[1,7]}'}, {T1}),
        ({"subscribePattern": "nothing"}, set()),
    ]:
        assert set(reader(**options).latest().by_partition) == partitions


def test_the_first_requests_end_soon_where_no_broker_is(reader: Callable[..., OffsetReader], cluster: Any):
    asks = reader()
    cluster.failures = [RequestFailedError("no", ErrorCode.UNKNOWN_SERVER_ERROR)]
    asks.latest()
    asks.close()
    asks.latest()
    assert cluster.bootstrap_timeouts == [5_000, 5_000, None], "until it has succeeded once"
    cluster.failures = [NoBrokerReachedError(5_000, "refused")]
    with pytest.raises(NoBrokerReachedError):
        reader(**{"kafka.default.api.timeout.ms": "700"}).latest()
    assert cluster.bootstrap_timeouts[3:] == [700], "as long as was asked for"


def test_the_ends_with_their_topics_ids(reader: Callable[..., OffsetReader], cluster: Any):
    assert reader().latest() == Offsets({T0: 50, T1: 30}, IDS)
    assert reader(assign='{"t":[0]}').latest(Offsets({T0: 50}, IDS)) == Offsets({T0: 50}, IDS)
    cluster.topic("t", (0, 5), topic_id="")
    assert reader().latest() == Offsets({T0: 5}, {})


def test_a_topic_that_does_not_exist(reader: Callable[..., OffsetReader], cluster: Any):
    with pytest.raises(UnknownTopicError, match="topic nope does not exist"):
        reader(subscribe="t,nope").latest()
    assert cluster.waits == [1, 1]
    assert reader(subscribe="t,nope").latest(Offsets({TopicPartition("nope", 0): 5}, {})).by_partition.keys() == {T0, T1}
    assert reader(subscribe="t,nope").latest(Offsets({}, {"nope": "id"})).by_partition.keys() == {T0, T1}
    with pytest.raises(UnknownTopicError):
        reader(subscribe="t,nope").latest(Offsets({T0: 5}, IDS))
    assert reader(subscribe="t,nope", failOnDataLoss="false").latest(Offsets({T0: 5}, IDS)).by_partition.keys() == {T0, T1}


def test_a_topic_that_goes_while_the_ends_are_asked_for(reader: Callable[..., OffsetReader], cluster: Any, monkeypatch: pytest.MonkeyPatch):
    listed = cluster.offsets_for_times

    def gone(timestamps: Any) -> Any:
        if U0 in timestamps:
            cluster.delete("u")
            raise UnknownTopicError("topic u does not exist")
        return listed(timestamps)

    monkeypatch.setattr(cluster, "offsets_for_times", gone)
    known = Offsets({T0: 50, T1: 30, U0: 4}, {**IDS, "u": "id-of-u"})
    assert reader(subscribe="t,u").latest(known) == Offsets({T0: 50, T1: 30}, IDS)


def test_what_may_pass_is_asked_again_with_new_connections(reader: Callable[..., OffsetReader], cluster: Any):
    failure = RequestFailedError("not now", ErrorCode.UNKNOWN_SERVER_ERROR)
    cluster.failures = [failure, failure]
    assert reader(**{"fetchOffset.retryIntervalMs": "250"}).latest().by_partition == {T0: 50, T1: 30}
    assert (cluster.waits, cluster.clients) == ([0.25, 0.25], 3)
    cluster.failures = [failure, failure]
    with pytest.raises(RequestFailedError, match="not now"):
        reader(**{"fetchOffset.numRetries": "2"}).latest()


@pytest.mark.parametrize("failure", [DeadlineExceededError("call", 1, None), AuthenticationError("who are you")])
def test_what_took_its_time_or_is_not_allowed_is_not(reader: Callable[..., OffsetReader], cluster: Any, failure: Exception):
    cluster.failures = [failure]
    with pytest.raises(type(failure)):
        reader().latest()
    assert cluster.waits == []


def test_an_end_before_what_was_read_is_asked_for_again(
    reader: Callable[..., OffsetReader], cluster: Any, caplog: pytest.LogCaptureFixture
):
    one = reader()
    with caplog.at_level(logging.WARNING):
        assert one.latest(Offsets({T0: 51, T1: 0}, IDS)).by_partition == {T0: 50, T1: 30}
    assert cluster.waits == [1, 1]
    assert caplog.messages == ["The latest offsets of some partitions lie before what was read: t-0"] * 3
    cluster.waits.clear()
    assert one.latest(Offsets({T0: 51, T1: 0}, {"t": "another"})).by_partition == {T0: 50, T1: 30}
    assert cluster.waits == []


def test_where_partitions_begin_as_far_as_they_exist(reader: Callable[..., OffsetReader], cluster: Any):
    assert reader().earliest([T0, TopicPartition("t", 9), TopicPartition("gone", 0)]) == {T0: 10}
    cluster.asked.clear()
    assert reader().earliest([]) == {}
    assert cluster.asked == []
    assert reader().topic_ids(["t", "gone"]) == {"t": "id-of-t"}


def test_starts(reader: Callable[..., OffsetReader], cluster: Any):
    cluster.times = {(T0, 5): 11, (T1, 5): 12, (T1, 6): 13}
    cluster.committed_offsets = {"g": {T0: 20, U0: 5}}
    group = {"startingOffsets": "group", "group.id": "g"}
    for options, starts in [
        ({"startingOffsets": "earliest"}, {T0: 10, T1: 0}),
        ({}, {T0: 50, T1: 30}),
        ({"startingOffsets": '{"t":{"0":-1,"1":7}}'}, {T0: 50, T1: 7}),
        ({"startingOffsets": '{"t":{"0":-2,"1":7}}'}, {T0: 10, T1: 7}),
        ({"startingOffsets": '{"t":{"0":0,"1":7}}'}, {T0: 0, T1: 7}),
        ({"startingTimestamp": "5"}, {T0: 11, T1: 12}),
        ({"startingOffsetsByTimestamp": '{"t":{"0":5,"1":6}}'}, {T0: 11, T1: 13}),
        ({"startingTimestamp": "6", "startingOffsetsByTimestampStrategy": "latest"}, {T0: 50, T1: 13}),
        (group, {T0: 20, T1: 30}),
        ({**group, "kafka.auto.offset.reset": "earliest"}, {T0: 20, T1: 0}),
    ]:
        assert _start(reader(**options)) == starts, options
    with pytest.raises(NoCommittedOffsetError, match="t-1"):
        _start(reader(**group, **{"kafka.auto.offset.reset": "none"}))


@pytest.mark.parametrize(
    ("options", "moves"),
    [
        ({"startingOffsets": "latest"}, True),
        ({"startingOffsets": "earliest"}, False),
        ({"startingOffsets": '{"t":{"0":5,"1":-1}}'}, True),
        ({"startingOffsets": '{"t":{"0":5,"1":-2}}'}, False),
        ({"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"}, True),
    ],
)
def test_a_start_at_the_end_moves(reader: Callable[..., OffsetReader], options: dict[str, str], moves: bool):
    one = reader(**options)
    assert one.resolve(one._options.starting, is_start=True)[1] is moves


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"startingOffsets": '{"t":{"0":5}}'},
            r"If startingOffsets contains specific offsets, you must specify all TopicPartitions.*Specified: t-0. Assigned: t-0, t-1",
        ),
        ({"startingOffsetsByTimestamp": '{"t":{"0":5,"1":5,"2":5}}'}, "If startingOffsetsByTimestamp contains"),
        ({"startingTimestamp": "7"}, r"No offset matched from request of topic-partition t-0 and timestamp 7\."),
    ],
)
def test_options_that_do_not_fit_the_topics(reader: Callable[..., OffsetReader], cluster: Any, options: dict[str, str], message: str):
    with pytest.raises(OptionError, match=message):
        _start(reader(**options))
    assert cluster.waits == []


def test_no_record_late_enough_for_an_end_means_the_end(reader: Callable[..., OffsetReader], cluster: Any):
    cluster.times = {(T0, 5): 11}
    one = reader(startingTimestamp="5")
    assert one.resolve(one._options.starting, is_start=False)[0].by_partition == {T0: 11, T1: 30}
