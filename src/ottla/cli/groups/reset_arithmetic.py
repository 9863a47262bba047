"""The arithmetic of resetting offsets: which partitions an argument names, where a shift leads, what lies outside a log.

Pure: offsets come in, offsets and sentences go out.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.cli.groups.failures import UsageProblem
from ottla.cli.groups.options import NUMBER_DIGITS_MAX
from ottla.client.admin.values import CommittedOffset
from ottla.core.model import TopicPartition

Offsets = dict[TopicPartition, int]
INT_MAX = 2**31 - 1


class Clamped(NamedTuple):
    """Offsets that a log can have, and a warning for each that had to be moved."""

    offsets: Offsets
    warnings: tuple[str, ...]


def shown(partition: TopicPartition) -> str:
    """A partition as Kafka prints it: `topic-0`."""
    return f"{partition.topic}-{partition.partition}"


def parse_topic(argument: str) -> list[TopicPartition]:
    """The partitions of `topic:0,1,2`. Raises UsageProblem, also when there is no colon."""
    topic, *rest = argument.rstrip(":").split(":")
    if len(rest) != 1:
        raise UsageProblem(f"Invalid topic arg '{argument}', expected topic name and partitions")
    return [TopicPartition(topic, _number(text, argument)) for text in rest[0].rstrip(",").split(",")]


def _number(text: str, argument: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > NUMBER_DIGITS_MAX or abs(int(text)) > INT_MAX:
        raise UsageProblem(f"Invalid partition '{text}' specified in topic arg '{argument}''")
    return int(text)


def shift(partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, CommittedOffset], by: int) -> Offsets:
    """Each partition's committed offset and `by` together. Raises UsageProblem for a partition that has none."""
    shifted = {}
    for partition in partitions:
        current = committed.get(partition)
        if current is None or current.offset < 0:
            raise UsageProblem(f"Cannot shift offset for partition {shown(partition)} since there is no current committed offset")
        shifted[partition] = current.offset + by
    return shifted


def clamp(requested: Mapping[TopicPartition, int], earliest: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> Clamped:
    """Offsets within what each log holds: what lies before or behind it becomes its start or its end."""
    offsets: Offsets = {}
    warnings = []
    for partition, offset in requested.items():
        if offset > latest[partition]:
            offsets[partition] = latest[partition]
            compared = "higher than latest"
        elif offset < earliest[partition]:
            offsets[partition] = earliest[partition]
            compared = "lower than earliest"
        else:
            offsets[partition] = offset
            continue
        warnings.append(
            f"New offset ({offset}) is {compared} offset for topic partition {shown(partition)}. Value will be set to {offsets[partition]}"
        )
    return Clamped(offsets, tuple(warnings))
