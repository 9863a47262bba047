"""AlterConfigs: what a request leaves out is deleted."""

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey

TOPIC, BROKER = 2, 4


@pytest.fixture
def alter(api):
    def ask(kind: int, name: str, version: int = 2, validate_only: bool = False, **settings: str | None) -> int:
        configs = [{"name": key.replace("_", "."), "value": value} for key, value in settings.items()]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        (answer,) = api.ask(ApiKey.ALTER_CONFIGS, version, resources=[resource], validate_only=validate_only).responses
        assert (answer.resource_type, answer.resource_name, answer.error_message is None) == (kind, name, answer.error_code == 0)
        return int(answer.error_code)

    return ask


@pytest.mark.parametrize("version", range(3))
def test_the_settings_of_a_topic_are_replaced_and_its_log_knows(api, alter, make_topic, version: int) -> None:
    topic = make_topic("t", configs={"retention.ms": "5", "max.message.bytes": "77"})
    log = api.cluster.partitions.get(topic, 0).log
    assert alter(TOPIC, "t", version, max_message_bytes="78", segment_ms="9") == ErrorCode.NONE
    assert topic.configs == {"max.message.bytes": "78", "segment.ms": "9"}
    assert log.settings.max_message_bytes == 78
    assert alter(TOPIC, "t", version) == ErrorCode.NONE
    assert topic.configs == {}


@pytest.mark.parametrize("name", ["", "1"])
def test_the_settings_of_a_broker_are_replaced(api, alter, name: str) -> None:
    assert alter(BROKER, name, log_retention_ms="5") == ErrorCode.NONE
    assert alter(BROKER, name, log_segment_bytes="1048577") == ErrorCode.NONE
    assert api.cluster.cluster_metadata.configs_set(BROKER, name) == {"log.segment.bytes": "1048577"}


def test_none_is_made_when_one_is_wrong_or_they_are_only_checked(alter, make_topic) -> None:
    topic = make_topic("t", configs={"retention.ms": "5"})
    assert alter(TOPIC, "t", segment_ms="9", no_such="1") == ErrorCode.INVALID_CONFIG
    assert alter(TOPIC, "t", segment_ms="9", validate_only=True) == ErrorCode.NONE
    assert topic.configs == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("kind", "name", "value", "error"),
    [
        (TOPIC, "t", None, ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", "long", ErrorCode.INVALID_CONFIG),
        (TOPIC, "gone", "5", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "no spaces", "5", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", "5", ErrorCode.INVALID_REQUEST),
        (32, "g", "5", ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_is_refused(alter, make_topic, kind: int, name: str, value: str | None, error: int) -> None:
    make_topic("t")
    assert alter(kind, name, retention_ms=value) == error
