"""The comparison of a source with its target."""

import numpy as np
import pytest

from ottla.spark.migration.checksums import Checksum, checksum
from ottla.spark.migration.chunks import Seen
from ottla.spark.migration.comparing import Comparison
from ottla.spark.migration.values import Extent, MigrationError

NEW, HELD = Seen(0, True), Seen(0, False)


def of(*offsets: int) -> Checksum:
    return checksum(np.array(offsets, np.int64))


def comparison(*held: int, is_compacted: bool = False) -> Comparison:
    return Comparison("wide", "narrow", starts={0: 2}, held={0: of(*held)} if held else {}, is_compacted=is_compacted)


def test_what_was_read_is_there() -> None:
    made = comparison(2, 3)
    made.begin({0: Extent(2, 9)})
    made.add({NEW: of(4), HELD: of(2)})
    made.add({NEW: of(5, 8), HELD: of(3)})
    made.check({0: of(2, 3, 4, 5, 8)})
    assert made.found_again == 2


@pytest.mark.parametrize("found", [(4, 5), (4, 5, 7), (4, 5, 8, 9)], ids=["lost", "another one", "one more"])
def test_another_set_of_records_is_refused(found: tuple[int, ...]) -> None:
    made = comparison()
    made.add({NEW: of(4, 5, 8)})
    with pytest.raises(MigrationError, match=r"narrow got \d records of wide-0 since this run began, and they are not the 3 that it read"):
        made.check({0: of(*found)})


@pytest.mark.parametrize("there", [(2, 3), (2, 3, 4, 5), (2, 3, 5)], ids=["fewer", "more", "others"])
def test_a_run_before_that_lost_or_invented_records_is_noticed(there: tuple[int, ...]) -> None:
    made = comparison(2, 3, 4)
    made.begin({0: Extent(2, 9)})
    made.add({HELD: of(*there)})
    with pytest.raises(MigrationError, match=r"narrow held 3 records of wide-0, and they are not the \d that it has up to there: wide was"):
        made.check({0: of(2, 3, 4)})


@pytest.mark.parametrize(("is_compacted", "start"), [(True, 2), (False, 4)], ids=["compacted", "deleted meanwhile"])
def test_a_source_that_has_fewer_than_before(is_compacted: bool, start: int) -> None:
    made = comparison(2, 3, 4, is_compacted=is_compacted)
    made.begin({0: Extent(start, 9)})
    made.add({HELD: of(4), NEW: of(5)})
    made.check({0: of(2, 3, 4, 5)})
    made.add({HELD: of(6, 7, 8)})
    with pytest.raises(MigrationError, match="narrow held 3 records of wide-0"):
        made.check({0: of(2, 3, 4, 5)})
