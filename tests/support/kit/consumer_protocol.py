"""The consumer protocol's bytes as test members write them: subscriptions and assignments, and the range assignor.

It is the other side of `ottla.protocol.wire.consumer_protocol`, written independently, so that each finds errors of the other.
"""

from collections.abc import Mapping, Sequence

from ottla.protocol.wire.primitives import Writer

Partitions = Mapping[str, Sequence[int]]


def encode_subscription(topics: Sequence[str], owned: Partitions | None = None) -> bytes:
    """A subscription: version 0, or version 1 with owned partitions."""
    out = Writer().int16(0 if owned is None else 1).int32(len(topics))
    for topic in topics:
        out.string(topic)
    out.int32(-1)
    if owned is not None:
        _topic_partitions(out, owned)
    return out.to_bytes()


def encode_assignment(partitions: Partitions) -> bytes:
    """One member's assignment, version 0."""
    out = Writer().int16(0)
    _topic_partitions(out, partitions)
    return out.int32(-1).to_bytes()


def assign_range(members: Mapping[str, Sequence[str]], partitions: Mapping[str, int]) -> dict[str, dict[str, list[int]]]:
    """The range assignor: per topic, members in order get consecutive partitions, the first ones one more."""
    assignments: dict[str, dict[str, list[int]]] = {member: {} for member in members}
    for topic, count in partitions.items():
        takers = sorted(member for member, topics in members.items() if topic in topics)
        start = 0
        for at, member in enumerate(takers):
            size = count // len(takers) + (1 if at < count % len(takers) else 0)
            if size:
                assignments[member][topic] = list(range(start, start + size))
            start += size
    return assignments


def _topic_partitions(out: Writer, partitions: Partitions) -> None:
    out.int32(len(partitions))
    for topic, numbers in partitions.items():
        out.string(topic).int32(len(numbers))
        for number in numbers:
            out.int32(number)
