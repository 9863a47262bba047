"""The settings of broker and topics: Kafka's names, types, defaults and sentences, as tables that flags, DescribeConfigs and docs read.

They check values and never act on them. This module names what other packages use.
"""

from ottla.core.config.broker_config import BrokerConfig, ConfigError
from ottla.core.config.broker_settings import BROKER_SETTINGS, DYNAMIC_BROKER_SETTINGS, OTHER_UNITS
from ottla.core.config.setting import INT_MAX, LONG_MAX, ConfigSource, ConfigType, Setting
from ottla.core.config.topic_settings import TOPIC_SETTINGS

__all__ = [
    "BROKER_SETTINGS",
    "DYNAMIC_BROKER_SETTINGS",
    "INT_MAX",
    "LONG_MAX",
    "OTHER_UNITS",
    "TOPIC_SETTINGS",
    "BrokerConfig",
    "ConfigError",
    "ConfigSource",
    "ConfigType",
    "Setting",
]
