"""The settings of topics and brokers: the values in force, and invalid values in the metadata log."""

from ottla.config import BrokerConfig, ConfigSource
from ottla.metadata.records import ConfigRecord
from ottla.metadata.resource_configs import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, ResourceConfigs


def configs(*stored: tuple[int, str, str, str], given: dict[str, str] | None = None) -> ResourceConfigs:
    made = ResourceConfigs(1, BrokerConfig(given).text)
    for kind, resource, name, value in stored:
        made.replay(ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value))
    return made


OF_T = (TOPIC_RESOURCE, "t")


def test_invalid_values_in_the_log_are_not_in_force_and_are_named() -> None:
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


def test_values_are_read_as_kafka_reads_them() -> None:
    ours = configs((*OF_T, "segment.ms", " +7 "), (BROKER_RESOURCE, "", "log.retention.ms", "-5"))
    assert ours.parsed_topic_value(ours.given(*OF_T), "segment.ms") == 7
    assert ours.parsed_topic_value(ours.given(*OF_T), "retention.ms") == -5, "any negative time means none"
    assert ours.broker_number("log.retention.ms") == -5
    assert configs(given={"num.partitions": "\x00 3"}).default_number("num.partitions") == 3


def test_settings_that_were_given_and_are_not_in_force_are_named() -> None:
    given = {"log.retention.ms": " 5", "log.segment.bytes": "2000000", "num.partitions": "3"}
    ours = configs((BROKER_RESOURCE, "", "log.retention.ms", "5"), (BROKER_RESOURCE, "1", "log.segment.bytes", "3000000"), given=given)
    assert list(ours.overridden(given)) == [
        "log.segment.bytes=2000000 has no effect: the data directory has 3000000, which takes precedence;"
        " change it while the broker runs (kafka-configs --alter)"
    ]


def test_settings_of_groups_are_within_the_brokers_bounds() -> None:
    name = "consumer.session.timeout.ms"
    ours = configs(
        (GROUP_RESOURCE, "low", name, "45000"),
        (GROUP_RESOURCE, "high", name, " 60000 "),
        (GROUP_RESOURCE, "invalid", name, "soon"),
        (GROUP_RESOURCE, "other", "share.session.timeout.ms", "1"),
        given={
            "group.consumer.min.session.timeout.ms": "50000",
            "group.consumer.max.session.timeout.ms": "55000",
            "group.consumer.session.timeout.ms": "51000",
        },
    )
    values = {group: ours.group_number(group, name) for group in (*ours.groups(), "unknown")}
    assert values == {"low": 50_000, "high": 55_000, "invalid": 51_000, "other": 51_000, "unknown": 51_000}
    assert [sentence.split(" has value ")[1] for sentence in ours.capped()] == [
        "45000 which is below the broker's allowed minimum 50000. The effective value will be capped to 50000.",
        "60000 which exceeds the broker's allowed maximum 55000. The effective value will be capped to 55000.",
    ]
    assert [each.owner for each in ours.unusable()] == ["group invalid"]
    ours.replay(ConfigRecord(resource_type=GROUP_RESOURCE, resource_name="low", name=name, value=None))
    assert ours.groups() == ["high", "invalid", "other"]


def test_the_assignment_interval_of_the_broker_is_dynamic() -> None:
    name = "consumer.assignment.interval.ms"
    ours = configs((BROKER_RESOURCE, "", f"group.{name}", "7"), (GROUP_RESOURCE, "g", name, "8"))
    assert (ours.group_number("g", name), ours.group_number("other", name)) == (8, 7)
