"""What the snapshot of the groups is made of."""

from ottla.broker.monitoring.group_snapshot import Durations, EventCounts


def test_durations_fall_into_buckets() -> None:
    took = Durations().plus(0.05).plus(3.0).plus(1_000)
    assert (took.times, took.sum_s) == (3, 1_003.05)
    assert took.up_to == (1, 1, 1, 2, 2, 2, 2, 2, 2)


def test_a_copy_does_not_change() -> None:
    counts = EventCounts(
        rebalances={"LEAVE": 1},
        coalesced={"LEAVE": 2},
        outcomes={"completed": 3},
        static_replaced=4,
        static_fenced=5,
        offsets_expired=6,
        durations={"join": Durations().plus(1.0)},
    )
    copy = counts.copy()
    assert copy == counts
    for by_name in (counts.rebalances, counts.coalesced, counts.outcomes, counts.durations):
        by_name.clear()
    assert copy.rebalances == {"LEAVE": 1}
    assert copy.coalesced == {"LEAVE": 2}
    assert copy.outcomes == {"completed": 3}
    assert list(copy.durations) == ["join"]
