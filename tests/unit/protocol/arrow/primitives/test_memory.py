"""Memory by address: what is written is what NumPy sees, and the other way round."""

import numpy as np
from numba import njit

from ottla.protocol.arrow.primitives import memory


@njit
def _read(buffer, at):
    start = memory.address_of(buffer)
    memory.fetch(start + at)
    return memory.byte_at(start + at), memory.word_at(start + at), memory.swapped(memory.word_at(start + at))


@njit
def _write(buffer, at, word):
    start = memory.address_of(buffer)
    memory.put_word(start + at, np.uint64(word))
    memory.put_byte(start + at + 8, word)
    memory.copy(start + at + 9, start + at, 9)


def test_reads_bytes_and_words_aligned_or_not():
    data = bytes(range(200, 220))
    buffer = np.frombuffer(data, np.uint8)
    for at in range(12):
        word = data[at : at + 8]
        assert _read(buffer, at) == (data[at], int.from_bytes(word, "little"), int.from_bytes(word, "big"))


def test_writes_and_copies_what_it_is_given_and_nothing_else():
    buffer = np.full(24, 7, np.uint8)
    _write(buffer, 3, 0x1122334455667788)
    written = bytes.fromhex("8877665544332211") + b"\x88"
    assert buffer.tobytes() == b"\7" * 3 + written + written + b"\7" * 3


def test_the_address_of_a_part_is_where_the_part_begins():
    buffer = np.arange(16, dtype=np.uint8)
    assert _read(buffer[5:], 0)[0] == 5
