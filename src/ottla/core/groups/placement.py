"""Which partition of the offsets topic a group belongs to, from the hash of its id.

Callers pass the actual partition count of the offsets topic: `offsets.topic.num.partitions` may differ from it.
"""

from functools import lru_cache

JAVA_INT_MIN = -(2**31)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, in wrapping signed 32-bit arithmetic."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def java_order(text: str) -> bytes:
    """A sort key that orders strings as Java's `compareTo` does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


@lru_cache(maxsize=16_384)
def coordinator_partition(group_id: str, partitions: int) -> int:
    """The partition of the offsets topic whose leader coordinates `group_id`; `partitions` is that topic's partition count.

    Kafka's `Utils.abs` maps the smallest integer to 0, so this is not the mask that producers use.
    """
    assert partitions > 0, "the offsets topic has at least one partition"
    value = java_hash(group_id)
    return (0 if value == JAVA_INT_MIN else abs(value)) % partitions
