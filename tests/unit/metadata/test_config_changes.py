"""Decisions about changes of settings: the new values, or Kafka's message."""

import pytest

from ottla.config import BrokerConfig
from ottla.metadata.config_changes import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    Change,
    altered_configs,
    new_topic_problem,
    replacing,
    resource_problem,
    suggestion,
    without_effect,
)
from ottla.metadata.records import ConfigRecord
from ottla.metadata.resource_configs import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, ResourceConfigs
from ottla.protocol.errors import ApiError, ErrorCode


def configs(*stored: tuple[int, str, str, str], given: dict[str, str] | None = None) -> ResourceConfigs:
    made = ResourceConfigs(1, BrokerConfig(given).text)
    for kind, resource, name, value in stored:
        made.replay(ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value))
    return made


OF_T = (TOPIC_RESOURCE, "t")


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        ({"no.such": "1"}, "Unknown topic config name: no.such"),
        ({"local.retention.ms": "1"}, "local.retention.ms is a topic config of Apache Kafka that this broker does not act on"),
        ({"compression.type": ""}, "Invalid value  for configuration compression.type"),
        ({"segment.bytes": "1_048_576"}, "Not a number of type INT"),
        ({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}, "conflict topic config setting"),
    ],
)
def test_a_topic_is_not_created_with_invalid_settings(new: dict[str, str | None], words: str) -> None:
    refused = new_topic_problem(configs(), new)
    assert refused is not None
    assert refused.error is ErrorCode.INVALID_CONFIG
    assert words in refused.message


def test_a_topic_is_created_with_valid_settings() -> None:
    assert new_topic_problem(configs(), {"compression.type": " gzip ", "cleanup.policy": ""}) is None


def test_a_topics_lag_is_checked_against_the_brokers() -> None:
    ours = configs(given={"log.cleaner.max.compaction.lag.ms": "100"})
    refused = new_topic_problem(ours, {"min.compaction.lag.ms": "200"})
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
        ([("no.such", DELETE, None), ("segment.ms", DELETE, None)], {}),
    ],
)
def test_changes(changes: list[Change], after: dict[str, str | None]) -> None:
    ours = configs((*OF_T, "cleanup.policy", "delete"), (*OF_T, "from.elsewhere", "1"))
    assert altered_configs(ours, *OF_T, changes) == after


@pytest.mark.parametrize(
    ("resource", "change", "words"),
    [
        (OF_T, ("cleanup.policy", APPEND, "Compact"), "Invalid value Compact for configuration cleanup.policy"),
        (OF_T, ("cleanup.policy", APPEND, " compact,"), "values must not be empty"),
        (OF_T, ("retention.ms", APPEND, "5"), "Can't APPEND to key retention.ms because its type is not LIST."),
        (OF_T, ("retention.ms", SUBTRACT, "5"), "Can't SUBTRACT to key retention.ms because its type is not LIST."),
        (OF_T, ("max.compaction.lag.ms", SET, "4"), "min.compaction.lag.ms (5) > max.compaction.lag.ms (4)"),
        (OF_T, ("no.such", APPEND, "5"), "Can't APPEND to key no.such because its type is not LIST."),
        ((BROKER_RESOURCE, ""), ("log.retention.ms", SET, "0"), "log.retention.ms must be unlimited (-1)"),
        ((BROKER_RESOURCE, "1"), ("log.cleaner.max.compaction.lag.ms", SET, "4"), "(7) > max.compaction.lag.ms (4)"),
    ],
)
def test_changes_that_are_refused(resource: tuple[int, str], change: Change, words: str) -> None:
    ours = configs((*OF_T, "min.compaction.lag.ms", "5"), (BROKER_RESOURCE, "", "log.cleaner.min.compaction.lag.ms", "7"))
    refused = altered_configs(ours, *resource, [change])
    assert isinstance(refused, ApiError)
    assert words in refused.message


def test_a_deleted_value_no_longer_counts() -> None:
    ours = configs((BROKER_RESOURCE, "", "log.cleaner.min.compaction.lag.ms", "7"))
    changes = [("log.cleaner.min.compaction.lag.ms", DELETE, None), ("log.cleaner.max.compaction.lag.ms", SET, "4")]
    assert not isinstance(altered_configs(ours, BROKER_RESOURCE, "", changes), ApiError)


def test_a_topic_with_an_invalid_value_can_be_changed() -> None:
    ours = configs((*OF_T, "compression.type", ""))
    assert altered_configs(ours, *OF_T, [("compression.type", DELETE, None)]) == {"compression.type": None}
    assert altered_configs(ours, *OF_T, [("retention.ms", SET, "5")]) == {"retention.ms": "5"}


def test_on_brokers_unknown_names_may_be_set() -> None:
    changes = [("no.such", SET, "1"), ("log.retention.ms", SET, "5")]
    assert altered_configs(configs(), BROKER_RESOURCE, "1", changes) == {"no.such": "1", "log.retention.ms": "5"}
    assert without_effect(BROKER_RESOURCE, ["no.such", "log.retention.ms", "ssl.protocol"]) == ["no.such"]
    assert without_effect(TOPIC_RESOURCE, ["no.such"]) == []
    refused = altered_configs(configs(), BROKER_RESOURCE, "", [("num.io.threads", SET, "4")])
    assert isinstance(refused, ApiError)
    assert "num.io.threads is a broker config of Apache Kafka that this broker does not act on" in refused.message


def test_an_unknown_name_may_be_a_mistyped_one() -> None:
    refused = new_topic_problem(configs(), {"retention.mss": "5"})
    assert refused is not None
    assert suggestion(TOPIC_RESOURCE, refused) == "; did you mean 'retention.ms'?"
    assert suggestion(TOPIC_RESOURCE, ApiError(ErrorCode.INVALID_CONFIG, "another")) == ""


@pytest.mark.parametrize(
    ("kind", "name", "names"),
    [(TOPIC_RESOURCE, "t", ["a", "b"]), (BROKER_RESOURCE, "", []), (BROKER_RESOURCE, "1", [])],
)
def test_resources_whose_settings_can_be_changed(kind: int, name: str, names: list[str]) -> None:
    assert resource_problem(kind, name, 1, names) is None


@pytest.mark.parametrize(
    ("kind", "name", "names"),
    [
        (TOPIC_RESOURCE, "", []),
        (TOPIC_RESOURCE, "t", ["a", "a"]),
        (BROKER_RESOURCE, "2", []),
        (BROKER_RESOURCE, "x", []),
        (8, "1", []),
        (GROUP_RESOURCE, "", []),
        (16, "g", []),
    ],
)
def test_resources_whose_settings_cannot(kind: int, name: str, names: list[str]) -> None:
    refused = resource_problem(kind, name, 1, names)
    assert refused is not None
    assert refused.error is ErrorCode.INVALID_REQUEST


def test_replacing_sets_what_is_wanted_and_deletes_the_rest() -> None:
    assert replacing(["a", "b"], {"b": "2", "c": "3"}) == [("b", SET, "2"), ("c", SET, "3"), ("a", DELETE, None)]
    refused = replacing(["a"], {"b": None})
    assert isinstance(refused, ApiError)
    assert refused.message == "Null value not supported for : b"
