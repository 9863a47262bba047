"""The settings of single consumer groups: Kafka's names, types and defaults. Each names the broker setting that it falls back to."""

from collections.abc import Callable, Mapping
from typing import Final

from ottla.config.setting import ConfigType, Setting, number_setting
from ottla.config.value_grammar import parse_whole

GROUP_SETTINGS: Final[Mapping[str, Setting]] = {
    setting.name: setting
    for setting in (
        number_setting(
            ConfigType.INT,
            "consumer.heartbeat.interval.ms",
            5000,
            "How often the members of this consumer group send heartbeats, in ms.",
            1,
            "group.consumer.heartbeat.interval.ms",
        ),
        number_setting(
            ConfigType.INT,
            "consumer.session.timeout.ms",
            45000,
            "How long a member of this consumer group may be silent, in ms.",
            1,
            "group.consumer.session.timeout.ms",
        ),
        number_setting(
            ConfigType.INT,
            "consumer.assignment.interval.ms",
            1000,
            "The least time between two target assignments of this consumer group, in ms.",
            0,
            "group.consumer.assignment.interval.ms",
        ),
    )
}
"""In the order in which Kafka compares them with their bounds."""


def bounds_of_group_setting(name: str) -> tuple[str, str]:
    """The broker's settings that bound a group's setting: the least and the greatest value."""
    protocol, _, rest = name.partition(".")
    return f"group.{protocol}.min.{rest}", f"group.{protocol}.max.{rest}"


def group_consistency_problem(given: Mapping[str, str], broker: Callable[[str], str]) -> str | None:
    """Why the settings `given` of a group contradict the broker's, or each other, in Kafka's words; None when they do not."""

    def number(name: str) -> int:
        text = given[name] if name in given else broker(GROUP_SETTINGS[name].broker_name or name)
        return parse_whole(text, bits=32)

    for name in GROUP_SETTINGS:
        if name in given:
            low, high = bounds_of_group_setting(name)
            if number(name) < parse_whole(broker(low), bits=32):
                return f"{name} must be greater than or equal to {low}"
            if number(name) > parse_whole(broker(high), bits=32):
                return f"{name} must be less than or equal to {high}"
    if number("consumer.session.timeout.ms") <= number("consumer.heartbeat.interval.ms"):
        return "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
    return None
