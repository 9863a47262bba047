"""The history that a watch judges after each look: what it keeps, counts and calls open, by clocks that differ."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.history.incidents import IncidentKind
from ottla.history.live import KEEP_MS, OPEN_MS, SETTLED_MS, LiveHistory
from ottla.history.sources.admin import GroupSnapshot
from ottla.history.sources.archive import ArchiveWriter
from ottla.history.sources.evidence import Cause
from ottla.history.time_lag import ENDS_INTERVAL_MS, LogEnds
from ottla.log.files import OsFiles
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import Batch, encode_batch, read_header
from tests.support.kit.offsets_topic_records import Pair, classic_group, commit, member

A, B = member("a", [0]), member("b", [1])
T0 = TopicPartition("t", 0)
HOUR_MS = 3_600_000
START = 10 * HOUR_MS


def batch(offset: int, at_ms: int, *pairs: Pair) -> Batch:
    data = bytes(encode_batch([Record(offset + at, at_ms, *pair) for at, pair in enumerate(pairs)], base_offset=offset))
    return Batch(read_header(data), data)


class Watched:
    """A live history that is given records of a broker whose clock is `skew_ms` ahead, each in a look of its own."""

    def __init__(self, skew_ms: int = 0) -> None:
        self.live = LiveHistory(now_ms=START)
        self.now_ms = START
        self._skew_ms = skew_ms
        self._offset = 0
        self.look()

    def look(self, *pairs: Pair, after_ms: int = 1_000) -> None:
        self.now_ms += after_ms
        if pairs:
            self.live.read_batch(CONSUMER_OFFSETS, 0, batch(self._offset, self.now_ms + self._skew_ms, *pairs), self.now_ms)
            self._offset += len(pairs)
        self.live.read_look([], self.now_ms)
        self.live.update(self.now_ms)

    def lose_a_member(self) -> None:
        """It committed until its session of 45 s began."""
        self.look(classic_group("g", 1, A, B))
        self.look(commit("g", 0, 1), commit("g", 1, 1))
        for number in range(45):
            self.look(commit("g", 0, number))
        self.look(classic_group("g", 2, A))


@pytest.mark.parametrize("skew_ms", [0, 90_000, -90_000])
def test_an_incident_is_open_for_a_while_whatever_the_brokers_clock(skew_ms: int) -> None:
    watched = Watched(skew_ms)
    watched.lose_a_member()
    lost = [each for each in watched.live.open_incidents(watched.now_ms) if each.kind is IncidentKind.LOST_MEMBER]
    assert [(each.groups, each.culprits) for each in lost] == [(("g",), ("client-b",))]
    (began_ms,) = watched.live.unplanned_ms()["g"]
    assert abs(began_ms - watched.now_ms) < 60_000
    watched.look(after_ms=OPEN_MS)
    assert watched.live.open_incidents(watched.now_ms) == []


def test_each_rebalance_is_counted_once_when_its_cause_is_settled() -> None:
    watched = Watched()
    watched.lose_a_member()
    early = [each.verdict.cause for each in watched.live.take_settled(watched.now_ms)]
    watched.look(after_ms=SETTLED_MS)
    late = [each.verdict.cause for each in watched.live.take_settled(watched.now_ms)]
    assert early + late == [Cause.COLD_START, Cause.EXPIRE_HEARTBEAT]
    watched.look(after_ms=SETTLED_MS)
    assert watched.live.take_settled(watched.now_ms) == []


def test_what_is_old_is_forgotten_but_for_who_was_a_member() -> None:
    watched = Watched()
    for generation in range(1, 40):
        watched.look(classic_group("g", generation, A, *([B] if generation % 2 else [])), after_ms=60_000)
    watched.look(after_ms=2 * KEEP_MS)
    assert watched.live.rebalances == []
    watched.look(classic_group("g", 40, A, B, member("c")))
    (rebalance,) = watched.live.rebalances
    assert (rebalance.members_before, rebalance.members_after, rebalance.joined) == (2, 3, ("c",))


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[ArchiveWriter]:
    writer = ArchiveWriter(OsFiles(tmp_path), now_ms=0)
    yield writer
    writer.close()


def test_a_restart_knows_what_the_archive_has(archive: ArchiveWriter) -> None:
    archive.append(CONSUMER_OFFSETS, 0, [batch(0, START - 100_000, classic_group("g", 1, A, B), commit("g", 1, 1))])
    archive.append(CONSUMER_OFFSETS, 0, [batch(2, START - 54_000, classic_group("g", 2, A))])
    live = LiveHistory(now_ms=START)
    live.read_archive(archive.files, START)
    live.read_look([], START)
    live.update(START)
    assert IncidentKind.LOST_MEMBER in [each.kind for each in live.open_incidents(START)]
    assert live.take_settled(START + HOUR_MS) == []  # counters begin with the run
    assert live.commits == {}


def test_looks_count_for_groups_without_records() -> None:
    live = LiveHistory(now_ms=0)
    for at_ms, state in ((0, "Stable"), (5_000, "Stable"), (10_000, "Empty")):
        group = GroupSnapshot(at_ms=at_ms, group="polled", group_type="classic", state=state, committed={T0: 5}, ends={T0: 9})
        live.read_look([group], at_ms)
        live.update(at_ms)
    facts = live.facts([group], 10_000)["polled"]
    assert (facts.members, facts.had_members, facts.lag, facts.partitions[T0]) == (0, False, 4, (5, 4))


def test_how_long_the_next_record_has_waited() -> None:
    ends = LogEnds()
    ends.note(0, {T0: 0})
    ends.note(1, {T0: 1})  # too soon to be remembered
    ends.note(ENDS_INTERVAL_MS, {T0: 100})
    now_ms = ENDS_INTERVAL_MS + 5_000
    assert ends.waited_ms(T0, 100, 100, now_ms) == 0
    assert ends.waited_ms(T0, 49, 100, now_ms) == ENDS_INTERVAL_MS // 2 + 5_000
    assert ends.waited_ms(T0, 101, 100, now_ms) is None
    ends.note(2 * ENDS_INTERVAL_MS, {T0: 3})  # the topic was created again
    assert ends.waited_ms(T0, 1, 3, 3 * ENDS_INTERVAL_MS) is None
