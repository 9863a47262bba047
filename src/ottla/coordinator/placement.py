"""Which partition of a coordinators' topic a key belongs to (a group's id, a transactional id), from the key's hash.

Callers pass the actual partition count of the topic: its setting, such as `offsets.topic.num.partitions`, may differ from it.
"""

from functools import lru_cache

from ottla.text import java_hash

JAVA_INT_MIN = -(2**31)


@lru_cache(maxsize=16_384)
def coordinator_partition(key: str, partitions: int) -> int:
    """The partition of the topic whose leader coordinates `key`; `partitions` is that topic's partition count.

    Kafka's `Utils.abs` maps the smallest integer to 0, so this is not the mask that producers use.
    """
    assert partitions > 0, "a topic has at least one partition"
    value = java_hash(key)
    return (0 if value == JAVA_INT_MIN else abs(value)) % partitions
