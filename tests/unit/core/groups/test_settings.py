"""Settings have Kafka's defaults, but for the initial delay."""

import pytest

from ottla.core.config import BrokerConfig
from ottla.core.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings


def test_defaults_are_kafkas() -> None:
    settings = GroupSettings()
    assert settings.group_min_session_timeout_ms == 6_000
    assert settings.group_max_session_timeout_ms == 1_800_000
    assert settings.group_max_size == 2**31 - 1
    assert settings.offset_metadata_bytes_max == 4_096
    assert NEW_MEMBER_JOIN_TIMEOUT_MS == 300_000


def test_a_group_on_one_machine_does_not_wait_for_others() -> None:
    assert GroupSettings().group_initial_rebalance_delay_ms == 0


@pytest.mark.conformance("GroupCoordinatorTest.testOffsetsRetentionMsIntegerOverflow")
def test_the_longest_retention_is_as_long_as_it_says() -> None:
    settings = GroupSettings.from_config(BrokerConfig({"offsets.retention.minutes": str(2**31 - 1)}))
    assert settings.offsets_retention_ms == (2**31 - 1) * 60_000
