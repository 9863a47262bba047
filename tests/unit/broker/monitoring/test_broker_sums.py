"""A broker's row, and the count of its commits over the lives of its coordinators."""

from ottla.broker.monitoring.broker_sums import BrokerSums, CommitCounts


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
