"""`ottla.group.mode`, and the settings of members."""

import re
from typing import Any

import pytest

from ottla.spark.options.group_mode import MemberOptions
from ottla.spark.options.source_options import Query, SourceOptions, parse_options
from ottla.spark.options.values import OptionError

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t, u", "group.id": "g", "ottla.group.mode": "member"}


def parse(query: Query = Query.STREAM, **given: str | None) -> SourceOptions:
    return parse_options({name: text for name, text in {**NEEDED, **given}.items() if text is not None}, query)


def member(**given: Any) -> MemberOptions:
    found = parse(**given).member
    assert found is not None
    return found


def test_commit_mode_is_the_default() -> None:
    assert parse(**{"ottla.group.mode": None}).member is None
    assert parse(**{"ottla.group.mode": "COMMIT"}).member is None


def test_a_member_has_a_consumer_s_properties() -> None:
    found = member(
        **{
            "kafka.group.instance.id": "i",
            "kafka.session.timeout.ms": "6000",
            "kafka.partition.assignment.strategy": "cooperative-sticky",
            "kafka.auto.offset.reset": "earliest",
            "kafka.group.id": "other",
        }
    )
    assert found == MemberOptions(
        {
            "bootstrap.servers": "localhost:9092",
            "client.id": "ottla-spark",
            "group.id": "g",
            "group.instance.id": "i",
            "session.timeout.ms": "6000",
            "max.poll.interval.ms": "300000",
            "partition.assignment.strategy": "cooperative-sticky",
            "auto.offset.reset": "earliest",
        },
        ("t", "u"),
        "earliest",
    )
    assert member().reset == "latest"
    assert member(startingOffsets="group").topics == ("t", "u")


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("flights", ["flights", "all-flights", "flights2"], ["flight", "FLIGHTS"]),
        ("^flights$", ["flights"], ["all-flights", "flights2"]),
        ("(?i)fl|we", ["FLIGHTS", "weather", "my-Weather"], ["cars"]),
    ],
)
def test_a_pattern_means_the_same_to_the_group(pattern: str, names: list[str], others: list[str]) -> None:
    (topic,) = member(subscribe=None, subscribePattern=pattern).topics
    found = re.compile(topic)
    assert topic.startswith("^")
    assert all(found.match(name) for name in names)
    assert not any(found.match(name) for name in others)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ottla.group.mode": "joined"}, "must be commit or member, not 'joined'"),
        ({"group.id": None}, 'name the group with the option "group.id"'),
        ({"subscribe": None, "assign": '{"t":[0]}'}, 'use "subscribe"'),
        ({"startingOffsets": "earliest"}, '"startingOffsets" is not for members'),
        ({"startingTimestamp": "5"}, '"startingTimestamp" is not for members'),
        ({"startingOffsetsByTimestamp": '{"t":{"0":5}}'}, '"startingOffsetsByTimestamp" is not for members'),
        ({"kafka.heartbeat.interval.ms": "45000"}, "heartbeat.interval.ms"),
        ({"kafka.partition.assignment.strategy": "unknown-one"}, "partition.assignment.strategy"),
        ({"kafka.group.protocol": "consumer"}, "group.protocol can only be classic"),
        ({"kafka.auto.offset.reset": "by_duration:PT1H"}, "must be one of earliest, latest, none"),
        ({"kafka.enable.auto.commit": "true"}, "'enable.auto.commit' is not supported"),
    ],
)
def test_what_is_refused(given: dict[str, str | None], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        parse(**given)


def test_a_batch_query_joins_no_group() -> None:
    with pytest.raises(OptionError, match="a batch query joins no group"):
        parse(Query.BATCH, startingOffsets="group")


def test_warnings_fit_the_mode(caplog: pytest.LogCaptureFixture) -> None:
    given = {"kafka.session.timeout.ms": "9000", "kafka.group.id": "other"}
    parse(**given)
    (message,) = caplog.messages
    assert message.startswith('Kafka option "kafka.group.id" has no effect')
    caplog.clear()
    parse(**given, **{"ottla.group.mode": "commit"})
    assert 'Kafka option "kafka.session.timeout.ms" has no effect' in caplog.messages[0]
