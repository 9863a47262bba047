"""MD5 in compiled code against the library's."""

import hashlib
import random

import numpy as np
import pytest

from ottla.columnar.cleaning import digests as compiled


def _md5(keys: list[bytes]) -> list[bytes]:
    buffer = np.frombuffer(b"".join(keys), np.uint8)
    spans, at = np.empty((len(keys), 2), np.int64), 0
    for row, key in enumerate(keys):
        spans[row] = at, len(key)
        at += len(key)
    digests = np.zeros((len(keys), 4), np.uint32)
    compiled.md5_keys(buffer, spans, digests)
    return [row.tobytes() for row in digests]


@pytest.mark.parametrize("shuffled", [False, True])
def test_md5_of_every_length_to_beyond_three_blocks(shuffled: bool):
    rng = random.Random(1)
    keys = [rng.randbytes(length) for length in range(201)]
    if shuffled:  # long and short keys side by side in a vector
        rng.shuffle(keys)
    assert _md5(keys) == [hashlib.md5(key).digest() for key in keys]


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 33])
def test_md5_of_any_number_of_keys(count: int):
    keys = [b"key-%d" % number for number in range(count)]
    assert _md5(keys) == [hashlib.md5(key).digest() for key in keys]


def test_no_key_counts_as_an_empty_one():
    digests = np.zeros((1, 4), np.uint32)
    compiled.md5_keys(np.zeros(1, np.uint8), np.array([[0, -1]], np.int64), digests)
    assert digests.tobytes() == hashlib.md5(b"").digest()
