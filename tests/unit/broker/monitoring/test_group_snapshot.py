"""The snapshot of the groups, and sums over them."""

from ottla.broker.monitoring.group_snapshot import BrokerSums, CommitCounts, Durations, EventCounts


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


def test_groups_of_all_states_are_summed() -> None:
    sums = BrokerSums()
    sums.by_state["Empty"] += 2
    sums.by_state["Stable"] += 1
    sums.offsets += 5
    row = sums.row(3, 7)
    assert (row.broker_id, row.groups, row.offsets, row.offset_commits) == (3, 3, 5, 7)
    assert row.coordinators == {"loading": 0, "active": 0}


def test_commits_of_a_coordinator_are_added_once() -> None:
    counts = CommitCounts()
    for count in (2, 2, 5):
        counts.add(1, 0, count)
    counts.add(1, 9, 4)
    counts.add(2, 1, 1)
    assert (counts.of(1), counts.of(2)) == (9, 1)


def test_a_coordinator_that_was_loaded_again_starts_at_0() -> None:
    counts = CommitCounts()
    counts.add(1, 0, 5)
    counts.add(1, 0, 2)
    counts.add(1, 0, 3)
    assert counts.of(1) == 8
