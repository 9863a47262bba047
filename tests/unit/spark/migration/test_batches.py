"""Batches make up what is left, in an order that keeps that of every source partition."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.migration.batches import plan_batches
from ottla.spark.migration.values import Extent

EXTENTS = st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(1, 200)), min_size=1)


@given(EXTENTS, st.data(), st.integers(1, 300))
def test_every_offset_is_in_one_batch_and_in_its_order(left: dict[int, tuple[int, int]], data: st.DataObject, records_max: int) -> None:
    extents = {partition: Extent(start, start + size) for partition, (start, size) in left.items()}
    groups = data.draw(st.integers(0, 3))
    positions = {partition: sorted(data.draw(st.lists(st.integers(0, 300), min_size=groups, max_size=groups))) for partition in extents}
    reached = {partition: extent.start for partition, extent in extents.items()}
    for batch in plan_batches(extents, positions, records_max):
        assert sum(extent.size for extent in batch.values()) <= records_max + len(extents)
        for partition, extent in batch.items():
            assert extent.start == reached[partition]
            assert extent.size > 0
            reached[partition] = extent.end
    assert reached == {partition: extent.end for partition, extent in extents.items()}


def test_partitions_advance_together() -> None:
    left = {0: Extent(0, 100), 1: Extent(1000, 1010)}
    assert list(plan_batches(left, {}, 55)) == [{0: Extent(0, 50), 1: Extent(1000, 1005)}, {0: Extent(50, 100), 1: Extent(1005, 1010)}]


def test_what_more_groups_have_read_comes_first() -> None:
    left = {0: Extent(0, 30), 1: Extent(0, 30)}
    # Two groups: one has read nothing of partition 1, the other all of partition 0.
    assert list(plan_batches(left, {0: [10, 30], 1: [0, 20]}, 10)) == [
        {0: Extent(0, 10)},
        {0: Extent(10, 15), 1: Extent(0, 5)},
        {0: Extent(15, 20), 1: Extent(5, 10)},
        {0: Extent(20, 25), 1: Extent(10, 15)},
        {0: Extent(25, 30), 1: Extent(15, 20)},
        {1: Extent(20, 30)},
    ]


def test_small_phases_share_a_batch() -> None:
    assert list(plan_batches({0: Extent(0, 30)}, {0: [10, 20]}, 1000)) == [{0: Extent(0, 30)}]


def test_committed_offsets_outside_of_what_is_left() -> None:
    assert list(plan_batches({0: Extent(20, 30)}, {0: [5, 99]}, 1000)) == [{0: Extent(20, 30)}]
    assert list(plan_batches({}, {}, 1)) == []
