import pytest

from ottla.config import BrokerConfig
from ottla.groups.settings import GroupSettings, MigrationPolicy


@pytest.mark.parametrize(("text", "policy"), [("UPGRADE", MigrationPolicy.UPGRADE), (" Disabled", MigrationPolicy.DISABLED)])
def test_a_migration_policy_may_be_written_in_any_case(text: str, policy: MigrationPolicy) -> None:
    assert GroupSettings.from_config(BrokerConfig({"group.consumer.migration.policy": text})).consumer_migration_policy is policy


def test_groups_migrate_both_ways_unless_a_setting_says_otherwise() -> None:
    policy = GroupSettings.from_config(BrokerConfig()).consumer_migration_policy
    assert (policy.allows_upgrade, policy.allows_downgrade) == (True, True)
