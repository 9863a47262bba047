"""Checksums of sets of offsets, which show whether two reads found the same records. Pure, but for NumPy in the workers.

The offsets that a migration read in the source have to be those that the target's headers name. Both reads add up to a few numbers for
each source partition, and none is repeated for the comparison.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    import numpy as np

    Longs = np.ndarray[Any, np.dtype[np.int64]]

K = TypeVar("K")
_MODULUS: Final = 2**64


class Checksum(NamedTuple):
    """Of a set of offsets: how many there are, and the sum of a hash of each, modulo 2**64. Those of disjoint sets add up."""

    records: int = 0
    hashes: int = 0

    def plus(self, other: "Checksum") -> "Checksum":
        """Of both sets together."""
        return Checksum(self.records + other.records, (self.hashes + other.hashes) % _MODULUS)

    def minus(self, other: "Checksum") -> "Checksum":
        """Of this set without the other, which is a part of it."""
        return Checksum(self.records - other.records, (self.hashes - other.hashes) % _MODULUS)


NO_OFFSETS: Final = Checksum()


def add_up(total: dict[K, Checksum], more: Mapping[K, Checksum]) -> None:
    """Add each checksum of `more` to that of the same key in `total`."""
    for key, checksum in more.items():
        total[key] = total.get(key, NO_OFFSETS).plus(checksum)


def checksum(offsets: "Longs") -> Checksum:
    """The checksum of these offsets."""
    return Checksum(len(offsets), int(hashes(offsets).view("uint64").sum()))


def hashes(offsets: "Longs") -> "Longs":
    """A hash of each offset; their sums wrap around. The last steps of SplitMix64, a permutation of 64 bits."""
    import numpy as np

    mixed = offsets.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed.view(np.int64)
