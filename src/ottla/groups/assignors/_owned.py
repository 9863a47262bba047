"""What members say they owned before a rebalance: the sticky assignors' user data as Java writes it, and who owned what of all claims.

A leader reads the user data from members of other clients, too. `StickyAssignor`: topics with partitions, and (version 1) the generation;
no version number. `CooperativeStickyAssignor`: the generation. What cannot be read shows no ownership, as in Java. Members may claim too
much.
"""

from collections.abc import Sequence

from ottla.groups.assignors import Subscriber
from ottla.protocol.errors import PeerError
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import NO_GENERATION, Partitions
from ottla.protocol.wire.primitives import Reader, Writer


def encode_sticky(owned: Partitions, generation: int) -> bytes:
    """The last assignment and its generation (StickyAssignorUserData 1)."""
    out = Writer().int32(len(owned))
    for topic, numbers in sorted(owned.items()):
        out.string(topic).int32(len(numbers))
        for number in numbers:
            out.int32(number)
    return out.int32(generation).to_bytes()


def decode_sticky(data: bytes | None) -> tuple[dict[str, tuple[int, ...]], int]:
    """The last assignment and its generation, which version 0 does not have."""
    if not data:
        return {}, NO_GENERATION
    reader = Reader(data)
    owned: dict[str, tuple[int, ...]] = {}
    try:
        for _ in range(reader.count(6)):
            topic = reader.string()
            owned[topic] = owned.get(topic, ()) + reader.int32s()
    except PeerError:
        return {}, NO_GENERATION
    return owned, reader.int32() if reader.end - reader.at >= 4 else NO_GENERATION


def encode_generation(generation: int) -> bytes:
    """The generation (CooperativeStickyAssignor's user data)."""
    return Writer().int32(generation).to_bytes()


def decode_generation(data: bytes | None) -> int:
    """The generation; -1 where there is none."""
    return NO_GENERATION if data is None or len(data) < 4 else Reader(data).int32()


def claimed_partitions(members: Sequence[Subscriber]) -> dict[TopicPartition, str | None]:
    """The owner of each owned partition: the member of the latest generation. None: two members claim it in that generation (KIP-341)."""
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        for topic, numbers in member.owned.items():
            for partition in dict.fromkeys(TopicPartition(topic, number) for number in numbers):
                generation, _ = claims.get(partition, (-2, None))
                if member.generation > generation:
                    claims[partition] = member.generation, member.member_id
                elif member.generation == generation:
                    claims[partition] = generation, None
    return {partition: owner for partition, (_, owner) in claims.items()}
