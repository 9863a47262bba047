"""A worker's pool: a Fetcher per settings, closed when it is idle for long, failed or another process's; and its buffer of records."""

from collections.abc import Iterator, Sequence

import pytest

from ottla.client.errors import BrokerUnavailableError
from ottla.client.settings import ClientSettings
from ottla.core.client.fetch_values import FetchedRecords, FetchRange
from ottla.core.model import TopicPartition
from ottla.spark.source import fetcher_pool
from ottla.spark.source.fetcher_pool import IDLE_S_MAX, BufferedFetcher, FetcherPool

A, B = ClientSettings(bootstrap_servers="a:1"), ClientSettings(bootstrap_servers="b:1")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeFetcher:
    """Records its requests."""

    def __init__(self, settings: ClientSettings) -> None:
        self.asked: list[FetchRange] = []
        self.prefetched: list[FetchRange] = []
        self.closed = False

    def read(self, ranges: Sequence[FetchRange]) -> Iterator[FetchedRecords]:
        self.asked += ranges
        yield from ()

    def prefetch(self, ranges: Sequence[FetchRange]) -> None:
        self.prefetched += ranges

    def close(self) -> None:
        self.closed = True


class World:
    """A FetcherPool with a settable clock and process id."""

    def __init__(self) -> None:
        self.made: list[FakeFetcher] = []
        self.now_s = 0.0
        self.process_id = 1
        self.fetchers = FetcherPool(self._make, lambda: self.now_s, lambda: self.process_id)

    def _make(self, settings: ClientSettings) -> FakeFetcher:
        self.made.append(FakeFetcher(settings))
        return self.made[-1]

    def use(self, settings: ClientSettings = A) -> None:
        with self.fetchers.acquire(settings):
            pass


def test_one_for_all_tasks_with_the_same_settings():
    world = World()
    for settings in (A, B, A, B):
        world.use(settings)
    assert [each.closed for each in world.made] == [False, False]


def test_one_that_failed_is_not_used_again():
    world = World()
    with pytest.raises(BrokerUnavailableError), world.fetchers.acquire(A):
        raise BrokerUnavailableError("gone")
    world.use()
    assert [each.closed for each in world.made] == [True, False]


def test_one_that_was_unused_for_minutes_is_closed():
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
    with world.fetchers.acquire(A), world.fetchers.acquire(A):
        pass
    world.use()
    assert [each.closed for each in world.made] == [True, False]


def _fetched(partition: TopicPartition, position: int, next_offset: int, size: int = 10) -> FetchedRecords:
    return FetchedRecords(partition, position, next_offset, memoryview(bytearray(size)))


def _read(buffered: BufferedFetcher, *ranges: FetchRange) -> list[tuple[TopicPartition, int, int]]:
    return [(each.partition, each.position, each.next_offset) for each in buffered.read(ranges)]


def test_what_was_fetched_too_much_comes_first_and_is_not_fetched():
    inner = FakeFetcher(A)
    buffered = BufferedFetcher(inner)
    buffered.buffer(FetchRange(T0, 0, 10, "id"), _fetched(T0, 0, 30))
    assert _read(buffered, FetchRange(T0, 15, 40, "id"), FetchRange(T1, 5, 6, "id")) == [(T0, 15, 30)]
    assert inner.asked == [FetchRange(T0, 30, 40, "id"), FetchRange(T1, 5, 6, "id")]
    assert _read(buffered, FetchRange(T0, 15, 40, "id")) == []


@pytest.mark.parametrize(
    "wanted", [FetchRange(T0, 30, 40, "id"), FetchRange(T0, 9, 40, "id"), FetchRange(T0, 15, 40, "new"), FetchRange(T0, 15, 40)]
)
def test_other_records_than_those_are_fetched(wanted: FetchRange):
    inner = FakeFetcher(A)
    buffered = BufferedFetcher(inner)
    buffered.buffer(FetchRange(T0, 10, 20, wanted.topic_id and "id"), _fetched(T0, 10, 30))
    assert _read(buffered, wanted) == []
    assert inner.asked == [wanted]


def test_few_bytes_are_buffered_and_the_latest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetcher_pool, "PREFETCH_BYTES_MAX", 25)
    buffered = BufferedFetcher(FakeFetcher(A))
    ranges = [FetchRange(TopicPartition("t", number), 0, 10, "id") for number in range(4)]
    for wanted in ranges[:3]:
        buffered.buffer(wanted, _fetched(wanted.partition, 0, 20))
    buffered.buffer(ranges[3], _fetched(ranges[3].partition, 0, 20, size=26))
    assert [partition.partition for partition, _, _ in _read(buffered, *ranges)] == [1, 2]


def test_prefetch_begins_behind_buffered_records():
    inner = FakeFetcher(A)
    buffered = BufferedFetcher(inner)
    done = [FetchRange(TopicPartition("t", number), 0, 10, "id") for number in range(3)]
    buffered.buffer(done[0], _fetched(T0, 0, 15))
    buffered.buffer(done[1], _fetched(T1, 0, 20))
    buffered.prefetch(done)
    # The second has all of the next ten, and the third ended where its partition ends.
    assert inner.prefetched == [FetchRange(T0, 15, 20, "id")]
