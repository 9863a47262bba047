"""The subscription of a query: assigned partitions, named topics, or topics whose name matches a pattern. Pure.

`offset_reader` gets the topics of the cluster. A pattern matches anywhere in a name, as Java's `find` does, and never an internal topic;
those can be read by name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.core.model import TopicPartition
from ottla.spark.options.java_regex import compile_pattern
from ottla.spark.options.values import OptionError, partitions

STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions, without those that do not exist."""

    partitions: tuple[TopicPartition, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(partition.topic for partition in self.partitions))


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Every partition of these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """Every partition of every topic whose name has a match of the pattern, one of Java's."""

    pattern: str

    def matching(self, topics: Iterable[str]) -> tuple[str, ...]:
        """The topics that match, sorted."""
        pattern = compile_pattern(self.pattern)
        return tuple(topic for topic in sorted(topics) if pattern.search(topic))


Subscription = Assign | Subscribe | SubscribePattern


def parse_subscription(options: Mapping[str, str]) -> Subscription:
    """The subscription from options by their lower-case names. Raises OptionError."""
    given = [name for name in STRATEGIES if name.lower() in options]
    if len(given) != 1:
        how_many = "One" if not given else "Only one"
        verb = "must" if not given else "can"
        raise OptionError(f"{how_many} of the following options {verb} be specified for Kafka source: {', '.join(STRATEGIES)}.")
    (name,) = given
    text = options[name.lower()]
    if name == "assign":
        if not text.strip().startswith("{"):
            raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{text}'")
        return Assign(partitions("assign", text))
    if name == "subscribe":
        topics = tuple(dict.fromkeys(topic for topic in (part.strip() for part in text.split(",")) if topic))
        if not topics:
            raise OptionError(f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'")
        return Subscribe(topics)
    return _parse_pattern(text)


def _parse_pattern(text: str) -> SubscribePattern:
    pattern = text.strip()
    if not pattern:
        raise OptionError(f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{text}'")
    try:
        compile_pattern(pattern)
    except ValueError as error:
        raise OptionError(f'The option "subscribePattern" cannot be {pattern!r}: {error}.') from error
    return SubscribePattern(pattern)
