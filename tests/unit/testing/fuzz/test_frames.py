"""The same seed gives the same frames; every API can be made, plausible and strange."""

import random

from ottla.testing.fuzz.frames import PAIRS, broken, frame, sized


def test_a_seed_gives_the_same_bytes() -> None:
    def made(seed: int) -> list[bytes]:
        rng = random.Random(seed)
        return [broken(frame(*rng.choice(PAIRS), rng=rng), rng) for _ in range(50)]

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_strange_values_are_drawn_for_nearly_every_api() -> None:
    rng = random.Random(3)
    varied = [pair for pair in PAIRS if len({frame(*pair, rng) for _ in range(50)}) > 1]
    assert len(varied) > 0.9 * len(PAIRS)


def test_frames_stand_behind_their_sizes() -> None:
    assert sized([b"ab", b"c"]) == b"\0\0\0\2ab\0\0\0\1c"
