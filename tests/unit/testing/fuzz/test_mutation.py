"""Mutated bytes are near to the valid ones, and equal for equal seeds."""

from random import Random

from ottla.testing.fuzz.mutation import mutate

VALID = bytes(range(40))


def test_equal_seeds_give_equal_bytes() -> None:
    assert [mutate(VALID, Random(seed)) for seed in range(50)] == [mutate(VALID, Random(seed)) for seed in range(50)]


def test_most_mutations_differ_and_keep_the_start() -> None:
    mutated = [mutate(VALID, Random(seed)) for seed in range(1_000)]
    assert len(set(mutated)) > 800
    assert sum(data[:4] == VALID[:4] for data in mutated) > 500


def test_bytes_are_cut_inserted_and_changed() -> None:
    lengths = {len(mutate(VALID, Random(seed))) for seed in range(1_000)}
    assert {len(VALID), len(VALID) + 1, len(VALID) - 1} <= lengths
    assert min(lengths) == 0


def test_no_bytes_can_be_mutated() -> None:
    assert isinstance(mutate(b"", Random(1)), bytes)
