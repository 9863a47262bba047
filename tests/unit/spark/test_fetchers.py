"""What a worker keeps: one Fetcher for its settings, closed when it is old, failed or another process's; and a few bytes of records."""

from collections.abc import Iterator, Sequence

import pytest

from ottla.consumer.errors import BrokerUnavailableError
from ottla.consumer.fetching import FetchedRecords, FetchRange
from ottla.consumer.settings import ClientSettings
from ottla.core.model import TopicPartition
from ottla.spark import fetchers
from ottla.spark.fetchers import IDLE_S_MAX, Fetchers, KeepingFetcher

A, B = ClientSettings(bootstrap_servers="a:1"), ClientSettings(bootstrap_servers="b:1")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeFetcher:
    """Remembers what it was asked."""

    def __init__(self, settings: ClientSettings) -> None:
        self.asked: list[FetchRange] = []
        self.ahead: list[FetchRange] = []
        self.closed = False

    def read(self, ranges: Sequence[FetchRange]) -> Iterator[FetchedRecords]:
        self.asked += ranges
        yield from ()

    def fetch_ahead(self, ranges: Sequence[FetchRange]) -> None:
        self.ahead += ranges

    def close(self) -> None:
        self.closed = True


class World:
    """Fetchers with a clock and a process id to turn."""

    def __init__(self) -> None:
        self.made: list[FakeFetcher] = []
        self.now_s = 0.0
        self.process_id = 1
        self.fetchers = Fetchers(self._make, lambda: self.now_s, lambda: self.process_id)

    def _make(self, settings: ClientSettings) -> FakeFetcher:
        self.made.append(FakeFetcher(settings))
        return self.made[-1]

    def use(self, settings: ClientSettings = A) -> None:
        with self.fetchers.lend(settings):
            pass


def test_one_for_all_tasks_with_the_same_settings():
    world = World()
    for settings in (A, B, A, B):
        world.use(settings)
    assert [each.closed for each in world.made] == [False, False]


def test_one_that_failed_is_not_used_again():
    world = World()
    with pytest.raises(BrokerUnavailableError), world.fetchers.lend(A):
        raise BrokerUnavailableError("gone")
    world.use()
    assert [each.closed for each in world.made] == [True, False]


def test_one_that_nobody_used_for_minutes_is_closed():
    world = World()
    world.use(A)
    world.now_s = IDLE_S_MAX - 1
    world.use(B)
    world.now_s = IDLE_S_MAX + 1
    world.use(B)
    assert [each.closed for each in world.made] == [True, False]


def test_a_forked_process_leaves_its_parent_s_alone():
    world = World()
    world.use()
    world.process_id = 2
    world.use()
    assert [each.closed for each in world.made] == [False, False]


def test_two_tasks_at_once_have_one_each():
    world = World()
    with world.fetchers.lend(A), world.fetchers.lend(A):
        pass
    world.use()
    assert [each.closed for each in world.made] == [True, False]


def _fetched(partition: TopicPartition, position: int, next_offset: int, size: int = 10) -> FetchedRecords:
    return FetchedRecords(partition, position, next_offset, memoryview(bytearray(size)))


def _read(keeping: KeepingFetcher, *ranges: FetchRange) -> list[tuple[TopicPartition, int, int]]:
    return [(each.partition, each.position, each.next_offset) for each in keeping.read(ranges)]


def test_what_was_fetched_too_much_comes_first_and_is_not_fetched():
    inner = FakeFetcher(A)
    keeping = KeepingFetcher(inner)
    keeping.keep(FetchRange(T0, 0, 10, "id"), _fetched(T0, 0, 30))
    assert _read(keeping, FetchRange(T0, 15, 40, "id"), FetchRange(T1, 5, 6, "id")) == [(T0, 15, 30)]
    assert inner.asked == [FetchRange(T0, 30, 40, "id"), FetchRange(T1, 5, 6, "id")]
    assert _read(keeping, FetchRange(T0, 15, 40, "id")) == []


@pytest.mark.parametrize(
    "wanted", [FetchRange(T0, 30, 40, "id"), FetchRange(T0, 9, 40, "id"), FetchRange(T0, 15, 40, "new"), FetchRange(T0, 15, 40)]
)
def test_other_records_than_those_are_fetched(wanted: FetchRange):
    inner = FakeFetcher(A)
    keeping = KeepingFetcher(inner)
    keeping.keep(FetchRange(T0, 10, 20, wanted.topic_id and "id"), _fetched(T0, 10, 30))
    assert _read(keeping, wanted) == []
    assert inner.asked == [wanted]


def test_few_bytes_are_kept_and_the_latest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetchers, "AHEAD_BYTES_MAX", 25)
    keeping = KeepingFetcher(FakeFetcher(A))
    ranges = [FetchRange(TopicPartition("t", number), 0, 10, "id") for number in range(4)]
    for wanted in ranges[:3]:
        keeping.keep(wanted, _fetched(wanted.partition, 0, 20))
    keeping.keep(ranges[3], _fetched(ranges[3].partition, 0, 20, size=26))
    assert [partition.partition for partition, _, _ in _read(keeping, *ranges)] == [1, 2]


def test_what_comes_next_is_asked_for_behind_what_is_here():
    inner = FakeFetcher(A)
    keeping = KeepingFetcher(inner)
    done = [FetchRange(TopicPartition("t", number), 0, 10, "id") for number in range(3)]
    keeping.keep(done[0], _fetched(T0, 0, 15))
    keeping.keep(done[1], _fetched(T1, 0, 20))
    keeping.ask_ahead(done)
    # The second has all of the next ten, and the third ended where its partition ends.
    assert inner.ahead == [FetchRange(T0, 15, 20, "id")]
