"""CRC-32C in compiled code against a library's."""

import random

import crc32c
import numpy as np
from numba import njit

from ottla.protocol.arrow.primitives import checksums

_crc_by_tables = njit(checksums._crc_by_tables)


def _crc(buffer: np.ndarray, start: int, end: int) -> int:
    return checksums.crc32c(buffer.ctypes.data + start, buffer.ctypes.data + end)


def test_crc_of_every_length_at_every_alignment():
    data = random.Random(2).randbytes(9000)
    buffer = np.frombuffer(data, np.uint8)
    # A short range by words and bytes, a longer one as three ranges of 128 bytes, and of 1024.
    for start in range(9):
        for end in [*range(start, 200), *range(380, 410), *range(3050, 3090), 4000, 6143, 6144, 9000]:
            assert _crc(buffer, start, end) == crc32c.crc32c(data[start:end])


def test_the_check_value_of_the_standard():
    assert _crc(np.frombuffer(b"123456789", np.uint8), 0, 9) == 0xE3069283


def test_the_tables_and_the_instruction_agree():
    rng = random.Random(3)
    for _ in range(200):
        crc, data = rng.getrandbits(32), rng.randbytes(8)
        # The library starts from a finished checksum, the step from the bare register.
        expected = crc32c.crc32c(data, crc ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
        assert _crc_by_tables(np.uint64(crc), np.uint64(int.from_bytes(data, "little"))) == expected
