"""The partition of a key, as Kafka's Java producer chooses it (murmur2), for an Arrow column at once.

A key that is null has no partition of its own. Importing it loads NumPy and Numba (the extra `arrow`).
"""

import numpy as np
import pyarrow as pa

from ottla.protocol.arrow.primitives import Array, Int, jit

NO_PARTITION = -1
_WORD = 0xFFFFFFFF
_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995


def murmur2_partitions(keys: "pa.BinaryArray", count: int) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    """The partition, of `count`, of each key; NO_PARTITION for null."""
    found = np.full(len(keys), NO_PARTITION, np.int32)
    if len(keys):
        _, offsets, data = keys.buffers()
        starts = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
        octets = np.frombuffer(data or b"\0", np.uint8)
        _fill(octets, starts, np.asarray(keys.is_valid()), count, found)
    return found


@jit
def _fill(data: Array, starts: Array, valid: Array, count: Int, found: Array) -> None:
    for row in range(len(found)):
        if valid[row]:
            # Java's default partitioner makes the hash positive by its mask, not by its absolute value.
            found[row] = (_murmur2(data, starts[row], starts[row + 1]) & 0x7FFFFFFF) % count


@jit
def _murmur2(data: Array, start: Int, end: Int) -> Int:
    length = end - start
    value = (_SEED ^ length) & _WORD
    at = start
    while end - at >= 4:
        word = np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24
        word = _times(word)
        word ^= word >> 24
        value = _times(value) ^ _times(word)
        at += 4
    left = end - at
    if left == 3:
        value ^= np.int64(data[at + 2]) << 16
    if left >= 2:
        value ^= np.int64(data[at + 1]) << 8
    if left >= 1:
        value = _times(value ^ np.int64(data[at]))
    value ^= value >> 13
    value = _times(value)
    return value ^ (value >> 15)


@jit
def _times(value: Int) -> Int:
    """The product's low 32 bits: the factor has 31, so in two halves nothing runs over 64."""
    low = (value & 0xFFFF) * _FACTOR
    high = ((value >> 16) * _FACTOR & 0xFFFF) << 16
    return (low + high) & _WORD
