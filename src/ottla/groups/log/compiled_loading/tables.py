"""The two tables of a reducer, as compiled code sees them: distinct strings, and the latest commit of each key.

Both are open hash tables of 64-bit words: slots (a power of two of them, FREE or the number of a row) lead to rows, and rows are in the
order of their first use. A string is a number from then on, so that a key is three numbers. The callers decide what a row means, and when
a table must grow. Arguments are addresses and are not checked: the caller has made space for one more row.
"""

import numpy as np

from ottla.protocol.arrow.primitives import WORD_BYTES, Array, Int, address_of, byte_at, copy, helper, jit, load, store, word_at

FREE = -1
# Columns of a string: its hash, and where its bytes lie in the arena.
STRING_HASH, STRING_START, STRING_LENGTH = range(3)
STRING_COLUMNS = 3
# Columns of a commit. GROUP, TOPIC, METADATA and TOPIC_ID are strings; EXPIRES_MS is -1 for never. A tombstone leaves IS_THERE 0.
KEY_HASH, GROUP, TOPIC, PARTITION, OFFSET, LEADER_EPOCH, METADATA, COMMITTED_MS, EXPIRES_MS, TOPIC_ID, IS_THERE = range(11)
COMMIT_COLUMNS = 11
# What is used of the tables: rows of strings, bytes of the arena, rows of commits.
STRINGS, ARENA_BYTES, COMMITS = range(3)

# Two odd numbers with evenly distributed bits: those of MurmurHash3's last step.
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_HALF = np.uint64(32)


@helper
def _mixed(total: Int, word: Int) -> Int:
    total = (total ^ word) * _MIX_1
    total = (total ^ (total >> _HALF)) * _MIX_2
    return total ^ (total >> _HALF)


@helper
def _hash_of_bytes(at: Int, length: Int, seed: Int) -> Int:
    total = _mixed(np.uint64(seed), np.uint64(length))
    end = at + length
    while at + WORD_BYTES <= end:
        total = _mixed(total, word_at(at))
        at += WORD_BYTES
    rest = np.uint64(0)
    while at < end:
        rest = rest << np.uint64(8) | np.uint64(byte_at(at))
        at += 1
    return np.int64(_mixed(total, rest))


@helper
def _hash_of_key(group: Int, topic: Int, partition: Int, seed: Int) -> Int:
    total = _mixed(np.uint64(seed), np.uint64(group << 32 | topic))
    return np.int64(_mixed(total, np.uint64(partition)))


@helper
def _equal(one: Int, other: Int, length: Int) -> Int:
    """Whether so many bytes are the same at two addresses."""
    end = one + length
    while one + WORD_BYTES <= end and word_at(one) == word_at(other):
        one += WORD_BYTES
        other += WORD_BYTES
    while one < end and byte_at(one) == byte_at(other):
        one += 1
        other += 1
    return one == end


@jit
def string_of(tables: tuple[Int, ...], used_at: Int, at: Int, length: Int) -> Int:
    """The number of the string at an address, a new one when it is met for the first time.

    tables: (address of the slots, mask that makes a slot of a hash, address of the rows, address of the arena, seed of the hashes).
    """
    slots_at, mask, rows_at, arena_at, seed = tables
    hash_ = _hash_of_bytes(at, length, seed)
    slot = hash_ & mask
    row = load(slots_at, slot)
    while row != FREE:
        row_at = rows_at + row * (STRING_COLUMNS * WORD_BYTES)
        is_alike = load(row_at, STRING_HASH) == hash_ and load(row_at, STRING_LENGTH) == length
        if is_alike and _equal(arena_at + load(row_at, STRING_START), at, length):
            break
        slot = (slot + 1) & mask
        row = load(slots_at, slot)
    if row == FREE:
        row, start = load(used_at, STRINGS), load(used_at, ARENA_BYTES)
        row_at = rows_at + row * (STRING_COLUMNS * WORD_BYTES)
        store(row_at, STRING_HASH, hash_)
        store(row_at, STRING_START, start)
        store(row_at, STRING_LENGTH, length)
        copy(arena_at + start, at, length)
        store(slots_at, slot, row)
        store(used_at, STRINGS, row + 1)
        store(used_at, ARENA_BYTES, start + length)
    return row


@jit
def commit_of(tables: tuple[Int, ...], used_at: Int, group: Int, topic: Int, partition: Int) -> Int:
    """The address of a key's row; a new, empty one for a new key.

    tables: (address of the slots, mask that makes a slot of a hash, address of the rows, seed of the hashes).
    """
    slots_at, mask, rows_at, seed = tables
    hash_ = _hash_of_key(group, topic, partition, seed)
    slot = hash_ & mask
    row = load(slots_at, slot)
    while row != FREE:
        row_at = rows_at + row * (COMMIT_COLUMNS * WORD_BYTES)
        if load(row_at, PARTITION) == partition and load(row_at, GROUP) == group and load(row_at, TOPIC) == topic:
            break
        slot = (slot + 1) & mask
        row = load(slots_at, slot)
    if row == FREE:
        row = load(used_at, COMMITS)
        row_at = rows_at + row * (COMMIT_COLUMNS * WORD_BYTES)
        store(row_at, KEY_HASH, hash_)
        store(row_at, GROUP, group)
        store(row_at, TOPIC, topic)
        store(row_at, PARTITION, partition)
        store(row_at, IS_THERE, 0)
        store(slots_at, slot, row)
        store(used_at, COMMITS, row + 1)
    return rows_at + row * (COMMIT_COLUMNS * WORD_BYTES)


@jit
def fill_slots(slots: Array, rows: Array, count: Int) -> None:
    """Rebuild the slots for the first `count` rows, whose first column is the hash."""
    slots[:] = FREE
    slots_at, mask, rows_at, row_bytes = address_of(slots), slots.size - 1, address_of(rows), rows.shape[1] * WORD_BYTES
    for row in range(count):
        slot = load(rows_at + row * row_bytes, 0) & mask
        while load(slots_at, slot) != FREE:
            slot = (slot + 1) & mask
        store(slots_at, slot, row)
