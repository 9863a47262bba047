"""The consumer protocol's bytes as members write them: subscriptions (ConsumerProtocolSubscription 2) and assignments (version 0)."""

from collections.abc import Iterable, Mapping, Sequence

from ottla.core.wire.writer import Writer

Partitions = Mapping[str, Sequence[int]]


def encode_subscription(topics: Iterable[str], owned: Partitions, *, generation: int, user_data: bytes = b"") -> bytes:
    """A subscription with the partitions that the member owns, in the generation that gave it them."""
    names = sorted(topics)
    out = Writer().int16(2).int32(len(names))
    for topic in names:
        out.string(topic)
    out.int32(len(user_data)).raw(user_data)
    return _topic_partitions(out, owned).int32(generation).to_bytes()


def encode_assignment(partitions: Partitions) -> bytes:
    """One member's assignment."""
    return _topic_partitions(Writer().int16(0), partitions).int32(-1).to_bytes()


def _topic_partitions(out: Writer, partitions: Partitions) -> Writer:
    out.int32(len(partitions))
    for topic, numbers in sorted(partitions.items()):
        out.string(topic).int32(len(numbers))
        for number in numbers:
            out.int32(number)
    return out
