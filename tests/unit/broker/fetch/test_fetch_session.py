"""One fetch session: epochs, the order of its partitions, and the offsets of the last response."""

from ottla.broker.fetch.fetch_session import FetchContext, FetchSession, next_epoch
from ottla.broker.protocol.fetch_partition import FetchedPartition


def session(*names: str) -> FetchSession:
    return FetchSession(1, False, {(name, 0): FetchedPartition((name, 0), -1, 0, -1, 100) for name in names}, 0)


def test_epochs_begin_again_at_one() -> None:
    assert (next_epoch(1), next_epoch(2**31 - 1)) == (2, 1)


def test_a_partition_with_records_is_read_last_next_time() -> None:
    found = session("a", "b", "c")
    found.move_to_back(found.partitions[("a", 0)])
    assert list(found.partitions) == [("b", 0), ("c", 0), ("a", 0)]
    found.move_to_back(FetchedPartition(("gone", 0), -1, 0, -1, 100))
    assert ("gone", 0) not in found.partitions


def test_a_request_is_superseded_by_the_next_one_of_its_session() -> None:
    found = session("a")
    context = FetchContext(found.partitions, False, found, False)
    assert not context.is_superseded
    found.epoch = next_epoch(found.epoch)
    assert context.is_superseded
    assert not FetchContext(found.partitions, False, None, True).is_superseded
