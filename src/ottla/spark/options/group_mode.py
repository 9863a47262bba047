"""`ottla.group.mode`: whether a streaming query commits to its group, or is a member of it. It opens no connection.

A member's options are those of Kafka's consumer, with "kafka." before their names; where it starts is the group's business.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.consumer.properties import parse_properties
from ottla.spark.options.java_regex import compile_pattern
from ottla.spark.options.kafka_settings import CLIENT_ID, PREFIX
from ottla.spark.options.positions import GROUP, RESETS
from ottla.spark.options.subscription import Assign, Subscribe, Subscription
from ottla.spark.options.values import OptionError

OPTION: Final = "ottla.group.mode"
COMMIT, MEMBER = "commit", "member"
MODES: Final = (COMMIT, MEMBER)
_POLL_INTERVAL: Final = "max.poll.interval.ms"
_STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp")


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """A member: its consumer's properties, the topics to subscribe to (a pattern begins with "^"), and `reset`, one of RESETS."""

    properties: Mapping[str, str]
    topics: tuple[str, ...]
    reset: str


def group_mode(options: Mapping[str, str]) -> str:
    """The mode, from options by their lower-case names. Raises OptionError."""
    mode = options.get(OPTION, COMMIT).strip().lower()
    if mode not in MODES:
        raise OptionError(f'The option "{OPTION}" must be {" or ".join(MODES)}, not {options[OPTION]!r}.')
    return mode


def parse_member_options(options: Mapping[str, str], group_id: str | None, subscription: Subscription) -> MemberOptions:
    """The member of a query, from its options by their lower-case names. Raises OptionError."""
    if group_id is None:
        raise OptionError(f'The option "{OPTION}" is member: name the group with the option "group.id".')
    if isinstance(subscription, Assign):
        raise OptionError('The option "assign" is not for members of a group, which get their partitions from it: use "subscribe".')
    _check_start(options)
    own = {"group.id": group_id, "client.id": CLIENT_ID, "auto.offset.reset": "latest", _POLL_INTERVAL: "300000"}
    given = {name.removeprefix(PREFIX): text for name, text in options.items() if name.startswith(PREFIX)}
    given.pop("group.id", None)
    properties = {**own, **given}
    try:
        parse_properties(properties)
    except ValueError as error:
        raise OptionError(f"Kafka option {error}.") from error
    reset = properties["auto.offset.reset"].strip().lower()
    if reset not in RESETS:
        raise OptionError(f'The option "kafka.auto.offset.reset" must be one of {", ".join(RESETS)}, not {reset!r}.')
    return MemberOptions(properties, _topics(subscription), reset)


def _check_start(options: Mapping[str, str]) -> None:
    given = [name for name in _STARTS if name.lower() in options]
    if options.get("startingoffsets", GROUP).strip().lower() != GROUP:
        given.append("startingOffsets")
    if given:
        raise OptionError(
            f'The option "{given[0]}" is not for members of a group: a partition starts at the offset that the group has committed, and'
            ' without one by "kafka.auto.offset.reset".'
        )


def _topics(subscription: Subscription) -> tuple[str, ...]:
    if isinstance(subscription, Subscribe):
        return subscription.topics
    assert not isinstance(subscription, Assign)
    pattern = compile_pattern(subscription.pattern)
    flags = "".join(letter for letter, flag in (("i", 2), ("m", 8), ("s", 16)) if pattern.flags & flag)
    # A consumer's pattern is matched from the beginning of a name, Java's anywhere in it.
    return (f"^(?s:.*?)(?a{flags}:{pattern.pattern})",)
