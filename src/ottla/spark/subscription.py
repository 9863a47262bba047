"""What a query reads: partitions that are assigned, topics that are named, or topics whose name has a pattern. Pure.

It decides which topics and partitions of a cluster belong to a query; the cluster is asked by `offset_reader`. A pattern finds a name as
Java's `find` does, anywhere in it, and never one of Kafka's own topics; whoever names one of these reads it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.core.model import TopicPartition
from ottla.spark import option_values
from ottla.spark.java_regex import compile_pattern
from ottla.spark.option_values import OptionError

STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions; one that does not exist is not read."""

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
    """Every partition of every topic in whose name the pattern, one of Java's, is found."""

    pattern: str

    def matching(self, topics: Iterable[str]) -> tuple[str, ...]:
        """The topics that the pattern is found in, in order."""
        pattern = compile_pattern(self.pattern)
        return tuple(topic for topic in sorted(topics) if pattern.search(topic))


Subscription = Assign | Subscribe | SubscribePattern


def parse_subscription(options: Mapping[str, str]) -> Subscription:
    """What to read, from options by their lower-case names. Raises OptionError."""
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
        return Assign(option_values.partitions("assign", text))
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
