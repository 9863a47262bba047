"""The settings of broker, topics and groups as tables that flags, DescribeConfigs and docs read: Kafka's names, types, defaults, messages.

They check values and never act on them. Other packages import from this module.
"""

from ottla.config.broker_config import BrokerConfig, GivenValue
from ottla.config.broker_settings import BROKER_SETTINGS, DYNAMIC_BROKER_SETTINGS, OTHER_UNITS, PARTITIONS_PER_TOPIC_MAX
from ottla.config.consistency import consistency_problem, super_users, topic_consistency_problem
from ottla.config.group_settings import GROUP_SETTINGS, bounds_of_group_setting, group_consistency_problem
from ottla.config.kafka_settings import FIXED_VALUES, KAFKA_BROKER_SETTINGS, KAFKA_GROUP_SETTINGS, KAFKA_TOPIC_SETTINGS, KafkaSetting
from ottla.config.setting import INT_MAX, LONG_MAX, ConfigError, ConfigSource, ConfigType, Setting, Value, shown
from ottla.config.topic_settings import TOPIC_SETTINGS

__all__ = [
    "BROKER_SETTINGS",
    "DYNAMIC_BROKER_SETTINGS",
    "FIXED_VALUES",
    "GROUP_SETTINGS",
    "INT_MAX",
    "KAFKA_BROKER_SETTINGS",
    "KAFKA_GROUP_SETTINGS",
    "KAFKA_TOPIC_SETTINGS",
    "LONG_MAX",
    "OTHER_UNITS",
    "PARTITIONS_PER_TOPIC_MAX",
    "TOPIC_SETTINGS",
    "BrokerConfig",
    "ConfigError",
    "ConfigSource",
    "ConfigType",
    "GivenValue",
    "KafkaSetting",
    "Setting",
    "Value",
    "bounds_of_group_setting",
    "consistency_problem",
    "group_consistency_problem",
    "shown",
    "super_users",
    "topic_consistency_problem",
]
