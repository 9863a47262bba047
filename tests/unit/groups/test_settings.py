"""Settings have Kafka's defaults, except the initial rebalance delay."""

import pytest

from ottla.config import BrokerConfig
from ottla.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from ottla.protocol.records.compression import Codec


def test_defaults_are_kafkas() -> None:
    settings = GroupSettings()
    assert settings.group_min_session_timeout_ms == 6_000
    assert settings.group_max_session_timeout_ms == 1_800_000
    assert settings.group_max_size == 2**31 - 1
    assert settings.offset_metadata_bytes_max == 4_096
    assert NEW_MEMBER_JOIN_TIMEOUT_MS == 300_000
    assert settings.offsets_retention_ms == 604_800_000
    assert settings.offsets_retention_check_interval_ms == 600_000


def test_an_empty_configuration_has_the_defaults() -> None:
    assert GroupSettings.from_config(BrokerConfig({})) == GroupSettings()


def test_every_setting_has_its_name_in_a_configuration() -> None:
    given = {
        "group.min.session.timeout.ms": "1",
        "group.max.session.timeout.ms": "2",
        "group.initial.rebalance.delay.ms": "3",
        "group.max.size": "4",
        "offset.metadata.max.bytes": "5",
        "offsets.retention.minutes": "6",
        "offsets.retention.check.interval.ms": "7",
        "offsets.topic.compression.codec": "4",
    }
    assert GroupSettings.from_config(BrokerConfig(given)) == GroupSettings(
        group_min_session_timeout_ms=1,
        group_max_session_timeout_ms=2,
        group_initial_rebalance_delay_ms=3,
        group_max_size=4,
        offset_metadata_bytes_max=5,
        offsets_retention_ms=360_000,
        offsets_retention_check_interval_ms=7,
        offsets_topic_codec=Codec.ZSTD,
    )


def test_the_initial_delay_is_off_by_default() -> None:
    assert GroupSettings().group_initial_rebalance_delay_ms == 0


@pytest.mark.conformance("GroupCoordinatorTest.testOffsetsRetentionMsIntegerOverflow")
def test_the_longest_retention_does_not_overflow() -> None:
    settings = GroupSettings.from_config(BrokerConfig({"offsets.retention.minutes": str(2**31 - 1)}))
    assert settings.offsets_retention_ms == (2**31 - 1) * 60_000
