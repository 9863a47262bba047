"""Fetch sessions: which request belongs to which session, eviction, and changed offsets; the test gives time and ids."""

import random
from collections.abc import Iterable
from itertools import count

import pytest

from ottla.broker.fetch.messages import NO_SESSION, FetchedPartition
from ottla.broker.fetch.sessions import EVICTION_MS, FetchContext, FetchSession, FetchSessions, next_epoch
from ottla.protocol.errors import ErrorCode


class Cache:
    """Sessions with ids 1, 2, 3, ... and a clock that the test moves."""

    def __init__(self, sessions_max: int = 10, partitions_max: int = 1000, ids: Iterable[int] = ()) -> None:
        numbers = iter(ids or count(1))
        self.sessions = FetchSessions(sessions_max, lambda: next(numbers), partitions_max=partitions_max)
        self.now_ms = 1_000_000

    def context(self, session_id: int, epoch: int, *names: str, forgotten: tuple[str, ...] = (), by_id: bool = False, offset: int = 0):
        asked = {(name, 0): FetchedPartition((name, 0), -1, offset, -1, 100) for name in names}
        keys = [(name, 0) for name in forgotten]
        return self.sessions.context(session_id, epoch, asked, keys, uses_topic_ids=by_id, now_ms=self.now_ms)

    def create(self, *names: str, by_id: bool = False) -> int:
        context = self.context(0, 0, *names, by_id=by_id)
        assert isinstance(context, FetchContext)
        return self.sessions.create(context, self.now_ms)


def order(context: FetchContext | ErrorCode) -> list[str | bytes]:
    assert isinstance(context, FetchContext), context
    return [topic for topic, _ in context.partitions]


def test_a_full_request_makes_a_session_and_the_next_ones_name_only_changes() -> None:
    cache = Cache()
    session_id = cache.create("a", "b")
    assert (session_id, len(cache.sessions), cache.sessions.partitions_count) == (1, 1, 2)
    assert order(cache.context(1, 1)) == ["a", "b"]
    assert order(cache.context(1, 2, "c", forgotten=("a",))) == ["b", "c"]
    changed = cache.context(1, 3, "b", offset=7)
    assert order(changed) == ["b", "c"]
    assert changed.partitions[("b", 0)].offset == 7
    assert cache.sessions.partitions_count == 2


@pytest.mark.parametrize("field", ["offset", "bytes_max", "current_leader_epoch", "last_fetched_epoch"])
def test_an_incremental_request_changes_each_field_alone(field: str) -> None:
    before = {"offset": 1, "bytes_max": 100, "current_leader_epoch": 3, "last_fetched_epoch": 2}
    after = before | {field: 7}
    sessions = FetchSessions(10, lambda: 1)

    def context(session_id: int, epoch: int, wanted: dict[str, int]) -> FetchContext:
        asked = {("t", 0): FetchedPartition(("t", 0), **wanted)}
        found = sessions.context(session_id, epoch, asked, (), uses_topic_ids=False, now_ms=0)
        assert isinstance(found, FetchContext)
        return found

    sessions.create(context(0, 0, before), 0)
    kept = context(1, 1, after).partitions[("t", 0)]
    assert {name: getattr(kept, name) for name in before} == after


@pytest.mark.parametrize(
    ("session_id", "epoch", "by_id", "error"),
    [
        (9, 1, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (1, 2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, -2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, 1, True, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_session_that_is_not_as_its_client_thinks(session_id: int, epoch: int, by_id: bool, error: ErrorCode) -> None:
    cache = Cache()
    cache.create("a")
    assert cache.context(session_id, epoch, by_id=by_id) is error
    assert order(cache.context(1, 1)) == ["a"]


def test_an_epoch_is_never_taken_twice() -> None:
    cache = Cache()
    cache.create("a")
    first = cache.context(1, 1)
    assert cache.context(1, 1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert not first.is_superseded
    cache.context(1, 2)
    assert first.is_superseded


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_request_that_names_a_session_ends_it(epoch: int) -> None:
    cache = Cache()
    cache.create("a")
    context = cache.context(1, epoch, "b")
    assert (order(context), context.wants_session, len(cache.sessions), cache.sessions.partitions_count) == (["b"], epoch == 0, 0, 0)


def test_a_request_that_wants_no_session_gets_none() -> None:
    cache = Cache()
    assert cache.sessions.create(cache.context(0, -1, "a"), cache.now_ms) == NO_SESSION


def test_a_session_without_partitions_ends() -> None:
    cache = Cache()
    cache.create("a")
    context = cache.context(1, 1, forgotten=("a",))
    assert (order(context), context.session, context.wants_session, len(cache.sessions)) == ([], None, False, 0)


def test_what_was_added_and_forgotten_in_one_request_is_forgotten() -> None:
    cache = Cache()
    cache.create("a")
    assert order(cache.context(1, 1, "b", forgotten=("b",))) == ["a"]


def test_a_partition_with_records_moves_to_the_back() -> None:
    cache = Cache()
    cache.create("a", "b", "c")
    context = cache.context(1, 1)
    context.session.move_to_back(context.partitions[("a", 0)])
    assert order(cache.context(1, 2)) == ["b", "c", "a"]
    gone = cache.context(1, 3).partitions[("b", 0)]
    forgotten = cache.context(1, 4, forgotten=("b",))
    forgotten.session.move_to_back(gone)
    assert order(cache.context(1, 5)) == ["c", "a"]


def test_without_slots_there_are_no_sessions() -> None:
    assert Cache(sessions_max=0).create("a") == NO_SESSION


def test_a_full_cache_keeps_sessions_that_are_in_use() -> None:
    cache = Cache(sessions_max=2)
    cache.create("a")
    cache.create("b")
    cache.now_ms += EVICTION_MS
    assert cache.create("c", "d") == NO_SESSION
    cache.now_ms += 1
    assert cache.create("c") == 3
    assert isinstance(cache.context(2, 1), FetchContext)
    assert cache.context(1, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_session_unused_longest_goes_first() -> None:
    cache = Cache(sessions_max=2)
    cache.create("a")
    cache.create("b")
    cache.now_ms += EVICTION_MS + 1
    cache.context(1, 1)
    assert cache.create("c") == 3
    assert isinstance(cache.context(1, 2), FetchContext)
    assert cache.context(2, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_old_session_gives_way_to_a_larger_one_only() -> None:
    cache = Cache(sessions_max=2)
    cache.create("a", "b")
    cache.create("c", "d", "e")
    cache.now_ms += EVICTION_MS + 1
    cache.context(1, 1)
    cache.context(2, 1)
    assert cache.create("f", "g") == NO_SESSION
    assert cache.create("f", "g", "h") == 3
    assert cache.context(1, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert isinstance(cache.context(2, 2), FetchContext)
    assert cache.sessions.partitions_count == 6


def test_the_partitions_of_all_sessions_are_bounded() -> None:
    cache = Cache(partitions_max=3)
    assert cache.create("a", "b") == 1
    assert cache.create("c", "d") == NO_SESSION
    assert order(cache.context(1, 1, "c")) == ["a", "b", "c"]
    assert cache.context(1, 2, "d") is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(cache.sessions), cache.sessions.partitions_count) == (0, 0)


def test_an_id_in_use_is_not_given_again() -> None:
    cache = Cache(ids=(5, 5, 6))
    assert (cache.create("a"), cache.create("b")) == (5, 6)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_clients_do_the_bounds_hold_and_sessions_are_what_they_asked_for(seed: int) -> None:
    rng = random.Random(seed)
    cache = Cache(sessions_max=4, partitions_max=40)
    expected: dict[int, tuple[int, dict[str, int]]] = {}  # by session: the next epoch, and the offsets asked for
    for _ in range(400):
        cache.now_ms += rng.choice((1, 1_000, EVICTION_MS // 2))
        names = tuple(rng.sample("abcdefghijklmnop", rng.randrange(0, 14)))
        if not expected or rng.random() < 0.3:
            session_id = cache.create(*names)
            if session_id != NO_SESSION:
                expected[session_id] = (1, dict.fromkeys(names, 0))
        else:
            session_id = rng.choice(list(expected))
            epoch, offsets = expected[session_id]
            forgotten, offset = tuple(rng.sample("abcdefghijklmnop", 3)), rng.randrange(100)
            context = cache.context(session_id, epoch, *names, forgotten=forgotten, offset=offset)
            offsets = {name: at for name, at in (offsets | dict.fromkeys(names, offset)).items() if name not in forgotten}
            if context is ErrorCode.FETCH_SESSION_ID_NOT_FOUND or not offsets:
                del expected[session_id]  # evicted, too large, or empty
            else:
                assert {str(key[0]): part.offset for key, part in context.partitions.items()} == offsets
                expected[session_id] = (epoch + 1, offsets)
        alive = cache.sessions
        assert len(alive) <= 4
        assert alive.partitions_count <= 40
    cache.now_ms += 10 * EVICTION_MS
    for _ in range(4):
        cache.create()
    assert cache.sessions.partitions_count == 0


# One fetch session: epochs, the order of its partitions, and the offsets of the last response.


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
