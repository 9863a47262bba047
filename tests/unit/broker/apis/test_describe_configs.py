"""DescribeConfigs: every setting, with where its value comes from."""

import pytest

from ottla.metadata.records import ConfigRecord
from ottla.protocol.wire.api_keys import ApiKey
from tests.support.kit.sessions import listen


def ask(api, version: int, kind: int, name: str, keys=None, synonyms: bool = True):
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    (result,) = api.ask(
        ApiKey.DESCRIBE_CONFIGS, version, resources=[resource], include_synonyms=synonyms, include_documentation=True
    ).results
    return result


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_describes_a_topic(api, make_topic, version: int) -> None:
    make_topic("t", configs={"retention.ms": "5"})
    result = ask(api, version, 2, "t")
    configs = {config.name: config for config in result.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
    assert [(item.name, item.source) for item in configs["retention.ms"].synonyms] == [("retention.ms", 1)]
    assert [(item.name, item.source) for item in configs["cleanup.policy"].synonyms] == [("log.cleanup.policy", 5)]
    if version >= 3:
        assert (configs["retention.ms"].config_type, configs["cleanup.policy"].config_type) == (5, 7)
        assert configs["retention.ms"].documentation


def test_a_value_is_shown_as_it_is_read(api, make_topic) -> None:
    make_topic("t", configs={"retention.ms": " +5\t", "cleanup.policy": "delete , compact"})
    found = {config.name: config.value for config in ask(api, 4, 2, "t").configs}
    assert (found["retention.ms"], found["cleanup.policy"]) == ("5", "delete,compact")


def test_chosen_keys_only(api, make_topic) -> None:
    make_topic("t")
    assert [config.name for config in ask(api, 4, 2, "t", ["segment.bytes"]).configs] == ["segment.bytes"]


def test_the_brokers_own(make_api) -> None:
    api = make_api({"num.partitions": "9"})
    listen(api.node, "127.0.0.1", 9092, at="0.0.0.0")
    found = {config.name: config for config in ask(api, 4, 4, "1").configs}
    partitions = found["num.partitions"]
    assert (partitions.value, partitions.config_source, partitions.read_only) == ("9", 4, True)
    static = {name: config.value for name, config in found.items() if config.config_source == 4}
    assert static == {
        "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",
        "auto.leader.rebalance.enable": "false",
        "broker.id": "1",
        "listeners": "PLAINTEXT://0.0.0.0:9092",
        "log.dirs": "memory",
        "node.id": "1",
        "num.partitions": "9",
        "process.roles": "broker,controller",
        "socket.listen.backlog.size": "1024",
        "socket.receive.buffer.bytes": "-1",
        "socket.send.buffer.bytes": "-1",
    }
    assert found["ssl.protocol"].documentation.endswith("does not act on.")


def test_each_broker_of_a_process_has_its_own_id_and_address(make_api) -> None:
    api = make_api(brokers=2)
    api.node = api.cluster.brokers.nodes[2]
    found = {config.name: config.value for config in ask(api, 4, 4, "2", ["broker.id", "node.id"]).configs}
    assert found == {"broker.id": "2", "node.id": "2"}


def test_the_minimum_of_in_sync_replicas_is_one_of_all_brokers(make_api) -> None:
    """As Kafka makes it with KIP-966."""
    (config,) = ask(make_api({"default.replication.factor": "1"}), 4, 4, "").configs
    assert (config.name, config.value, config.config_source, config.read_only) == ("min.insync.replicas", "1", 3, False)
    (config,) = ask(make_api(), 4, 4, "1", ["min.insync.replicas"]).configs
    assert [(each.value, each.source) for each in config.synonyms] == [("1", 3), ("1", 5)]


@pytest.mark.parametrize(("kind", "name", "error"), [(2, "gone", 3), (2, "bad name", 17), (4, "7", 42), (4, "x", 42), (99, "x", 42)])
def test_what_is_not_there(api, kind: int, name: str, error: int) -> None:
    result = ask(api, 4, kind, name)
    assert (result.error_code, result.configs) == (error, ())
    assert result.error_message


def test_times_that_are_not_set_have_no_value_as_with_kafka(make_api) -> None:
    api = make_api({"log.retention.minutes": "120"})
    settings = {config.name: config for config in ask(api, 4, 4, "1").configs}
    assert settings["log.retention.ms"].value is None
    assert (settings["log.retention.minutes"].value, settings["log.retention.hours"].value) == ("120", "168")
    assert (settings["log.roll.ms"].value, settings["log.roll.ms"].synonyms, settings["log.roll.ms"].read_only) == (None, (), False)
    assert "log.initial.task.delay.ms" not in settings
    api.cluster.topics.ensure("t")
    (retention,) = ask(api, 4, 2, "t", ["retention.ms"]).configs
    assert retention.value == "7200000"


def test_settings_that_are_not_known_here_are_shown_but_for_a_brokers(api, make_topic) -> None:
    make_topic("t")
    for kind, name in ((2, "t"), (4, "1")):
        record = ConfigRecord(resource_type=kind, resource_name=name, name="from.elsewhere", value="secret")
        api.cluster.topics._log.append([record])
    (of_topic,) = ask(api, 4, 2, "t", keys=["from.elsewhere"]).configs
    assert (of_topic.value, of_topic.config_source, of_topic.is_sensitive) == ("secret", 1, False)
    (of_broker,) = ask(api, 4, 4, "1", keys=["from.elsewhere"]).configs
    assert (of_broker.value, of_broker.config_source, of_broker.is_sensitive) == (None, 2, True)
