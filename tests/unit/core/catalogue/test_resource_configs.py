"""What was set on topics and brokers: what may be set, what is in force, and what lies there and cannot be."""

import pytest

from ottla.core.catalogue.records import ConfigRecord
from ottla.core.catalogue.resource_configs import (
    APPEND,
    BROKER_RESOURCE,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC_RESOURCE,
    Change,
    Refused,
    ResourceConfigs,
    suggestion,
)
from ottla.core.config import BrokerConfig, ConfigSource
from ottla.core.errors import ErrorCode


def configs(*lying: tuple[int, str, str, str], given: dict[str, str] | None = None) -> ResourceConfigs:
    made = ResourceConfigs(1, BrokerConfig(given).text)
    for kind, resource, name, value in lying:
        made.replay(ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value))
    return made


OF_T = (TOPIC_RESOURCE, "t")


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        ({"no.such": "1"}, "Unknown topic config name: no.such"),
        ({"compression.type": ""}, "Invalid value  for configuration compression.type"),
        ({"segment.bytes": "1_048_576"}, "Not a number of type INT"),
        ({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}, "conflict topic config setting"),
    ],
)
def test_a_topic_is_not_made_with_what_cannot_be(new: dict[str, str | None], words: str) -> None:
    refused = configs().problem_of_new(new)
    assert refused is not None
    assert refused.error is ErrorCode.INVALID_CONFIG
    assert words in refused.message


def test_a_topic_is_made_with_what_can_be() -> None:
    assert configs().problem_of_new({"compression.type": " gzip ", "cleanup.policy": ""}) is None


def test_a_topics_lag_is_held_against_the_brokers() -> None:
    ours = configs(given={"log.cleaner.max.compaction.lag.ms": "100"})
    refused = ours.problem_of_new({"min.compaction.lag.ms": "200"})
    assert refused is not None
    assert "min.compaction.lag.ms (200) > max.compaction.lag.ms (100)" in refused.message


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ([("cleanup.policy", APPEND, "compact")], {"cleanup.policy": "delete,compact"}),
        ([("cleanup.policy", APPEND, "delete,compact,compact")], {"cleanup.policy": "delete,compact"}),
        ([("cleanup.policy", SUBTRACT, "delete")], {"cleanup.policy": ""}),
        ([("cleanup.policy", SUBTRACT, "never.there")], {"cleanup.policy": "delete"}),
        ([("cleanup.policy", DELETE, None), ("retention.ms", SET, "5")], {"cleanup.policy": None, "retention.ms": "5"}),
        ([("from.elsewhere", DELETE, None)], {"from.elsewhere": None}),
    ],
)
def test_changes(changes: list[Change], after: dict[str, str | None]) -> None:
    ours = configs((*OF_T, "cleanup.policy", "delete"), (*OF_T, "from.elsewhere", "1"))
    assert ours.altered(*OF_T, changes) == after


@pytest.mark.parametrize(
    ("resource", "change", "words"),
    [
        (OF_T, ("cleanup.policy", APPEND, "Compact"), "Invalid value Compact for configuration cleanup.policy"),
        (OF_T, ("cleanup.policy", APPEND, " compact,"), "values must not be empty"),
        (OF_T, ("retention.ms", APPEND, "5"), "Can't APPEND to key retention.ms because its type is not LIST."),
        (OF_T, ("retention.ms", SUBTRACT, "5"), "Can't SUBTRACT to key retention.ms because its type is not LIST."),
        (OF_T, ("max.compaction.lag.ms", SET, "4"), "min.compaction.lag.ms (5) > max.compaction.lag.ms (4)"),
        (OF_T, ("no.such", APPEND, "5"), "Can't APPEND to key no.such because its type is not LIST."),
        (OF_T, ("no.such", DELETE, None), "Unknown topic config name: no.such"),
        ((BROKER_RESOURCE, ""), ("log.retention.ms", SET, "0"), "log.retention.ms must be unlimited (-1)"),
        ((BROKER_RESOURCE, "1"), ("log.cleaner.max.compaction.lag.ms", SET, "4"), "(7) > max.compaction.lag.ms (4)"),
    ],
)
def test_changes_that_are_refused(resource: tuple[int, str], change: Change, words: str) -> None:
    ours = configs((*OF_T, "min.compaction.lag.ms", "5"), (BROKER_RESOURCE, "", "log.cleaner.min.compaction.lag.ms", "7"))
    refused = ours.altered(*resource, [change])
    assert isinstance(refused, Refused)
    assert words in refused.message


def test_a_deleted_value_no_longer_counts() -> None:
    ours = configs((BROKER_RESOURCE, "", "log.cleaner.min.compaction.lag.ms", "7"))
    changes = [("log.cleaner.min.compaction.lag.ms", DELETE, None), ("log.cleaner.max.compaction.lag.ms", SET, "4")]
    assert not isinstance(ours.altered(BROKER_RESOURCE, "", changes), Refused)


def test_what_lies_there_and_cannot_be_is_not_in_force_and_is_named() -> None:
    ours = configs(
        (*OF_T, "compression.type", ""),
        (*OF_T, "segment.bytes", "1_048_576"),
        (*OF_T, "from.elsewhere", "anything"),
        (BROKER_RESOURCE, "1", "log.retention.ms", "soon"),
        (BROKER_RESOURCE, "9", "log.retention.ms", "soon"),
        given={"log.segment.bytes": "2000000"},
    )
    of_topic = ours.given(*OF_T)
    assert ours.topic_value(of_topic, "compression.type") == ("producer", ConfigSource.DEFAULT)
    assert ours.parsed_topic_value(of_topic, "segment.bytes") == 2_000_000
    assert ours.topic_value(of_topic, "retention.ms") == ("604800000", ConfigSource.DEFAULT)
    assert [(each.owner, each.problem.split(": ")[0]) for each in ours.unusable()] == [
        ("topic t", "Invalid value  for configuration compression.type"),
        ("topic t", "Invalid value 1_048_576 for configuration segment.bytes"),
        ("broker 1", "Invalid value soon for configuration log.retention.ms"),
    ]
    assert of_topic["segment.bytes"] == "1_048_576", "the log keeps what it has"


def test_a_topic_with_an_impossible_value_can_be_mended() -> None:
    ours = configs((*OF_T, "compression.type", ""))
    assert ours.altered(*OF_T, [("compression.type", DELETE, None)]) == {"compression.type": None}
    assert ours.altered(*OF_T, [("retention.ms", SET, "5")]) == {"retention.ms": "5"}


def test_values_are_read_as_kafka_reads_them() -> None:
    ours = configs((*OF_T, "segment.ms", " +7 "), (BROKER_RESOURCE, "", "log.retention.ms", "-5"))
    assert ours.parsed_topic_value(ours.given(*OF_T), "segment.ms") == 7
    assert ours.parsed_topic_value(ours.given(*OF_T), "retention.ms") == -5, "any negative time is none at all"
    assert ours.broker_number("log.retention.ms") == -5
    assert configs(given={"num.partitions": "\x00 3"}).default_number("num.partitions") == 3


def test_an_unknown_name_may_be_a_mistyped_one() -> None:
    refused = configs().problem_of_new({"retention.mss": "5"})
    assert refused is not None
    assert suggestion(TOPIC_RESOURCE, refused) == "; did you mean 'retention.ms'?"
    assert suggestion(TOPIC_RESOURCE, Refused(ErrorCode.INVALID_CONFIG, "another")) == ""
