"""MD5 and CRC-32C in compiled code against the libraries'."""

import hashlib
import random

import crc32c
import numpy as np
import pytest
from numba import njit

from ottla.columnar import cleaning_digests
from ottla.columnar.cleaning_memory import address_of

_crc_by_tables = njit(cleaning_digests._crc_by_tables)


@njit
def _crc(buffer, start, end):
    return cleaning_digests.crc32c(address_of(buffer) + start, address_of(buffer) + end)


def _md5(keys: list[bytes]) -> list[bytes]:
    buffer = np.frombuffer(b"".join(keys), np.uint8)
    spans, at = np.empty((len(keys), 2), np.int64), 0
    for row, key in enumerate(keys):
        spans[row] = at, len(key)
        at += len(key)
    digests = np.zeros((len(keys), 4), np.uint32)
    cleaning_digests.md5_keys(buffer, spans, digests)
    return [row.tobytes() for row in digests]


@pytest.mark.parametrize("shuffled", [False, True])
def test_md5_of_every_length_to_beyond_three_blocks(shuffled: bool):
    dice = random.Random(1)
    keys = [dice.randbytes(length) for length in range(201)]
    if shuffled:  # long and short keys side by side in a vector
        dice.shuffle(keys)
    assert _md5(keys) == [hashlib.md5(key).digest() for key in keys]


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 33])
def test_md5_of_any_number_of_keys(count: int):
    keys = [b"key-%d" % number for number in range(count)]
    assert _md5(keys) == [hashlib.md5(key).digest() for key in keys]


def test_no_key_counts_as_an_empty_one():
    digests = np.zeros((1, 4), np.uint32)
    cleaning_digests.md5_keys(np.zeros(1, np.uint8), np.array([[0, -1]], np.int64), digests)
    assert digests.tobytes() == hashlib.md5(b"").digest()


def test_crc_of_every_length_at_every_alignment():
    data = random.Random(2).randbytes(200)
    buffer = np.frombuffer(data, np.uint8)
    for start in range(9):
        for end in range(start, 200):
            assert _crc(buffer, start, end) == crc32c.crc32c(data[start:end])


def test_the_check_value_of_the_standard():
    assert _crc(np.frombuffer(b"123456789", np.uint8), 0, 9) == 0xE3069283


def test_the_tables_and_the_instruction_agree():
    dice = random.Random(3)
    for _ in range(200):
        crc, data = dice.getrandbits(32), dice.randbytes(8)
        # The library starts from a finished checksum, the step from the bare register.
        expected = crc32c.crc32c(data, crc ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
        assert _crc_by_tables(np.uint64(crc), np.uint64(int.from_bytes(data, "little"))) == expected
