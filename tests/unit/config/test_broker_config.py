"""What a broker is given: what is refused, with which sentence, and what is in force."""

import pytest

from ottla.config import BrokerConfig, ConfigError
from ottla.config.broker_config import value_text
from ottla.log.cleaner.backend import OffsetMap


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("num.partitions", "many", "Not a number of type INT"),
        ("num.partitions", "0", "at least 1"),
        ("num.partitions", "9" * 400, "Not a number of type INT"),
        ("num.partitions", str(2**31), "Not a number of type INT"),
        ("auto.create.topics.enable", "yes", "either true or false"),
        (
            "ssl.protocol",
            "TLS",
            "ssl.protocol is a setting of Apache Kafka that this broker does not act on; `ottla docs settings` lists those",
        ),
        ("no.such.setting", "1", "unknown setting no.such.setting; `ottla docs settings` lists them"),
        ("group.share.session.timeout.ms", "45000", "about a group protocol that this broker does not have"),
        ("group.consumer.session.timeout.ms", "44999", "must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ("group.coordinator.rebalance.protocols", "consumer", "must have classic"),
        ("group.consumer.migration.policy", "sideways", "must be one of .case insensitive.: DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL"),
        ("group.consumer.assignors", "uniform,sticky", "sticky cannot be found: name uniform, range, or your own as module:Class"),
        ("group.consumer.heartbeat.interval.ms", "4999", "must be greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        ("offsets.retention.minutes", "0", "Invalid value 0 for configuration offsets.retention.minutes: Value must be at least 1"),
        (
            "group.coordinator.append.linger.ms",
            "-2",
            "Invalid value -2 for configuration group.coordinator.append.linger.ms: Value must be at least -1",
        ),
        (
            "offsets.topic.compression.codec",
            "5",
            "Invalid value 5 for configuration offsets.topic.compression.codec: Value must be no more than 4",
        ),
        ("retention.ms", "1", "retention.ms is a setting of topics; .* is log.retention.ms"),
        ("log.message.timestamp.type", "Now", "one of: CreateTime, LogAppendTime"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "no more than 1"),
        ("log.retention.minutes", "0", "log.retention.ms must be unlimited"),
        ("log.roll.hours", "0", "at least 1"),
        ("log.cleaner.threads", "200", "at least 1MB per cleaner thread"),
        ("log.cleaner.dedupe.buffer.size", "1048576", "at least 1MB per cleaner thread. 1048577 bytes for each"),
        ("log.cleaner.io.max.bytes.per.second", "0", "at least 1"),
        ("log.cleaner.io.max.bytes.per.second", "nan", "Not a number of type DOUBLE"),
        ("log.cleaner.io.buffer.load.factor", "0", "at least 0.0001"),
        ("log.cleaner.io.buffer.load.factor", "1.01", "no more than 1"),
        ("compression.gzip.level", "0", "between 1 and 9 or equal to -1"),
        ("compression.zstd.level", "23", "no more than 22"),
        ("compression.lz4.level", "18", "no more than 17"),
    ],
)
def test_a_bad_broker_setting_is_refused_with_what_would_do(name: str, value: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        BrokerConfig({name: value})


def test_the_smallest_table_of_keys_takes_a_key() -> None:
    config = BrokerConfig({"log.cleaner.dedupe.buffer.size": "1048577", "log.cleaner.io.buffer.load.factor": "0.0001"})
    size_bytes, load_factor = config.number("log.cleaner.dedupe.buffer.size"), config.share("log.cleaner.io.buffer.load.factor")
    assert OffsetMap(size_bytes, load_factor=load_factor).entries_max == 4


def test_given_values_win_over_defaults() -> None:
    config = BrokerConfig({"num.partitions": "7", "auto.create.topics.enable": "False"})
    assert (config.number("num.partitions"), config.flag("auto.create.topics.enable")) == (7, False)
    assert config.node_id == 1


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({}, "log.retention.ms", 604_800_000),
        ({"log.retention.hours": "2"}, "log.retention.ms", 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "log.retention.ms", 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, "log.retention.ms", 4),
        ({"log.retention.hours": "-1"}, "log.retention.ms", -1),
        ({"log.roll.hours": "3"}, "log.roll.ms", 10_800_000),
        ({"log.roll.hours": "3", "log.roll.ms": "5"}, "log.roll.ms", 5),
        ({"log.roll.jitter.hours": "1"}, "log.roll.jitter.ms", 3_600_000),
        ({}, "log.flush.interval.ms", 2**63 - 1),
        ({"log.flush.scheduler.interval.ms": "7777"}, "log.flush.interval.ms", 7777),
    ],
)
def test_times_in_other_units_in_kafkas_order(given: dict[str, str], name: str, value: int) -> None:
    assert BrokerConfig(given).number(name) == value


def test_what_is_not_set_has_no_value() -> None:
    assert BrokerConfig({}).text("log.retention.minutes") == ""
    assert BrokerConfig({}).share("log.cleaner.io.max.bytes.per.second") == float("1.7976931348623157e308")


@pytest.mark.parametrize(
    ("value", "text"), [(3, "3"), ("3", "3"), (True, "true"), (False, "false"), (0.5, "0.5"), (1e-7, "1.0E-7"), (float("inf"), "Infinity")]
)
def test_values_from_python_are_written_as_kafka_writes_them(value: object, text: str) -> None:
    assert value_text("any", value) == text


def test_numbers_and_flags_from_python_are_taken() -> None:
    config = BrokerConfig({"num.partitions": 7, "auto.create.topics.enable": False, "log.cleaner.min.cleanable.ratio": 0.25})
    assert (config.number("num.partitions"), config.flag("auto.create.topics.enable")) == (7, False)
    assert config.share("log.cleaner.min.cleanable.ratio") == 0.25
    assert config.given["auto.create.topics.enable"] == "false"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"num.partitions": None}, "Invalid value of type NoneType for configuration num.partitions: leave it out for its default"),
        ({"log.cleanup.policy": ["compact"]}, "Invalid value of type list for configuration log.cleanup.policy: write text, a number"),
        ({"num.partitions": 3.0}, "Invalid value 3.0 for configuration num.partitions: Not a number of type INT"),
        ({"num.partitions": True}, "Invalid value true for configuration num.partitions: Not a number of type INT"),
        ({1: "x"}, "unknown setting 1; `ottla docs settings`"),
        ("num.partitions=3", "settings are names and values, for example {'num.partitions': 3}, not a str"),
        ({"broker.id": 3}, "broker.id is not a setting here: write node.id, its name since Kafka 4"),
        ({"num.partition": 3}, "unknown setting num.partition; did you mean 'num.partitions'? `ottla docs settings`"),
    ],
)
def test_other_things_from_python_get_a_sentence(given: object, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig(given)  # type: ignore[arg-type]
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("given", "brokers", "words"),
    [
        (
            {"default.replication.factor": 3},
            1,
            "(3) > the number of brokers (1): no topic could be created with it; lower it to 1, or run more",
        ),
        ({"node.id": 2**31 - 1}, 2, "node.id (2147483647) is too high for 2 brokers"),
    ],
)
def test_what_the_number_of_brokers_does_not_allow(given: dict[str, int], brokers: int, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig(given, brokers=brokers)
    assert words in str(refused.value)
    assert BrokerConfig({"default.replication.factor": 3}, brokers=3).number("default.replication.factor") == 3
    with pytest.raises(ConfigError, match=r"\(2\) > the number of brokers \(1\)"):
        BrokerConfig({"default.replication.factor": 2})


@pytest.mark.parametrize("name", ["offsets.topic.num.partitions", "num.partitions"])
def test_no_topic_may_have_more_partitions(name: str) -> None:
    with pytest.raises(ConfigError, match="no more than 10000, the most partitions that a topic may have here"):
        BrokerConfig({name: 2147483647})
