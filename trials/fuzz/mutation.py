"""Mutation of valid bytes for fuzz tests: changed, cut, inserted and repeated bytes, and huge lengths.

Random bytes hardly pass a decoder's first check; mutated valid ones do. All choices come from the `random.Random` that is passed.
"""

from random import Random

LENGTHS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\x7f\xff", b"\xff\xff", b"\xff\xff\xff\xff\x0f", b"\0\0")
"""Extreme lengths as 32-bit, 16-bit and variable-length numbers."""
BYTES = (0, 1, 2, 4, 5, 0x7F, 0x80, 0xC0, 0xED, 0xF4, 0xFF)
"""Versions, tags, and bytes that are invalid in UTF-8 or continue a variable-length number."""


def mutate(valid: bytes, rng: Random) -> bytes:
    """The bytes with one to three mutations; with luck they are still valid."""
    data = bytearray(valid)
    for _ in range(rng.randint(1, 3)):
        _mutate_once(data, rng)
    return bytes(data)


def _mutate_once(data: bytearray, rng: Random) -> None:
    at = rng.randrange(len(data) + 1)
    match rng.randrange(6):
        case 0 | 1:
            data[at : at + 1] = bytes([rng.choice(BYTES) if rng.random() < 0.5 else rng.randrange(256)])
        case 2:
            del data[at:]
        case 3:
            data[at:at] = rng.randbytes(rng.randint(1, 8))
        case 4:
            length = rng.choice(LENGTHS)
            data[at : at + len(length)] = length
        case _:
            end = rng.randrange(at, len(data) + 1)
            data[at:at] = data[at:end]
