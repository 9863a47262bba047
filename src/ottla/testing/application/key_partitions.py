"""The partition of a record, as Kafka's Java producer chooses it: by the key's murmur2 hash; without a key, in turn.

Source: org.apache.kafka.common.utils.Utils.murmur2, BuiltInPartitioner. Without extras, and for the few records that a test produces.
"""

from typing import Final

_WORD: Final = 0xFFFFFFFF
_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995


def key_partition(key: bytes, count: int) -> int:
    """The partition, of `count`, of a key."""
    # The default partitioner makes the hash positive by its mask, not by its absolute value.
    return (_murmur2(key) & 0x7FFFFFFF) % count


def _murmur2(data: bytes) -> int:
    value = (_SEED ^ len(data)) & _WORD
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _WORD
        word ^= word >> 24
        value = (value * _FACTOR ^ word * _FACTOR) & _WORD
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * _FACTOR & _WORD
    value ^= value >> 13
    value = value * _FACTOR & _WORD
    return value ^ (value >> 15)
