"""Deleted topics that wait for a coordinator."""

from ottla.broker.coordination.unserved_deletions import UnservedDeletions


def test_names_wait_for_their_partition_and_are_taken_once() -> None:
    deletions = UnservedDeletions()
    for number, name in ((3, "t"), (3, "u"), (3, "t"), (4, "t")):
        deletions.add(number, name)
    assert len(deletions) == 2
    assert sorted(deletions.take(3)) == ["t", "u"]
    assert deletions.take(3) == deletions.take(9) == ()
    assert deletions.take(4) == ("t",)
    assert len(deletions) == 0


def test_nothing_waits_when_the_offsets_topic_is_gone() -> None:
    deletions = UnservedDeletions()
    deletions.add(3, "t")
    deletions.clear()
    assert deletions.take(3) == ()
