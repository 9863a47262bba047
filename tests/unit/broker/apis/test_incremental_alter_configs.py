"""IncrementalAlterConfigs: all changes of a resource, or none."""

import pytest

from ottla.protocol.wire.api_keys import ApiKey


def alter(api, kind: int, name: str, *changes: tuple[str, int, str | None], version: int = 1, validate_only: bool = False) -> int:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return int(
        api.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource], validate_only=validate_only).responses[0].error_code
    )


@pytest.mark.parametrize("version", [0, 1])
def test_a_topics_setting_changes_and_its_log_knows(api, make_topic, version: int) -> None:
    topic = make_topic("t")
    log = api.cluster.partitions.get(topic, 0).log
    assert alter(api, 2, "t", ("max.message.bytes", 0, "77"), version=version) == 0
    assert (topic.configs, log.settings.max_message_bytes) == ({"max.message.bytes": "77"}, 77)


def test_none_is_made_when_one_is_wrong(api, make_topic) -> None:
    topic = make_topic("t")
    assert alter(api, 2, "t", ("retention.ms", 0, "5"), ("no.such", 0, "1")) == 40
    assert topic.configs == {}


def test_only_checking_changes_nothing(api, make_topic) -> None:
    topic = make_topic("t")
    assert alter(api, 2, "t", ("retention.ms", 0, "5"), validate_only=True) == 0
    assert topic.configs == {}


@pytest.mark.parametrize(
    ("kind", "name", "change", "error"),
    [
        (2, "gone", ("retention.ms", 0, "5"), 3),
        (4, "2", ("log.retention.ms", 0, "5"), 42),
        (4, "1", ("node.id", 0, "5"), 42),
        (32, "g", ("consumer.session.timeout.ms", 0, "5"), 40),
        (2, "t", ("retention.ms", 9, "5"), 42),
        (2, "t", ("retention.ms", 0, None), 42),
    ],
)
def test_what_is_refused(api, make_topic, kind: int, name: str, change, error: int) -> None:
    make_topic("t")
    assert alter(api, kind, name, change) == error


def test_the_same_key_twice_is_refused(api, make_topic) -> None:
    make_topic("t")
    assert alter(api, 2, "t", ("retention.ms", 0, "5"), ("retention.ms", 1, None)) == 42


def test_a_mistyped_name_gets_a_suggestion(api, make_topic) -> None:
    make_topic("t")
    resource = {"resource_type": 2, "resource_name": "t", "configs": [{"name": "retention.mss", "config_operation": 0, "value": "5"}]}
    (answer,) = api.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
    assert (answer.error_code, answer.error_message) == (
        40,
        "Unknown topic config name: retention.mss; did you mean 'retention.ms'?",
    )


@pytest.mark.parametrize("broker", ["", "1"])
def test_brokers_take_unknown_settings_as_in_kafka(api, caplog, broker: str) -> None:
    assert alter(api, 4, broker, ("log.retention.m", 0, "5"), validate_only=True) == 0
    assert caplog.messages == []
    assert alter(api, 4, broker, ("log.retention.m", 0, "5")) == 0
    assert api.cluster.cluster_metadata.configs.given(4, broker)["log.retention.m"] == "5"
    assert caplog.messages == [
        "a broker config was set that is unknown, and that has no effect: log.retention.m; did you mean 'log.retention.ms'?"
    ]
    assert alter(api, 4, broker, ("log.retention.m", 2, "5")) == 40
    assert alter(api, 4, broker, ("log.retention.m", 1, None)) == 0
    assert "log.retention.m" not in api.cluster.cluster_metadata.configs.given(4, broker)
