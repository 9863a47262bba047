"""Which partition of the offsets topic a group belongs to, from the hash of its id.

Callers pass the actual partition count of the offsets topic: `offsets.topic.num.partitions` may differ from it.
"""

from functools import lru_cache

from ottla.core.java_text import java_hash

JAVA_INT_MIN = -(2**31)


@lru_cache(maxsize=16_384)
def coordinator_partition(group_id: str, partitions: int) -> int:
    """The partition of the offsets topic whose leader coordinates `group_id`; `partitions` is that topic's partition count.

    Kafka's `Utils.abs` maps the smallest integer to 0, so this is not the mask that producers use.
    """
    assert partitions > 0, "the offsets topic has at least one partition"
    value = java_hash(group_id)
    return (0 if value == JAVA_INT_MIN else abs(value)) % partitions
