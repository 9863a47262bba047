"""Samples of groups, and what they are made of."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.monitoring import group_sampler
from ottla.broker.monitoring.group_sampler import (
    NOT_OPEN,
    OPENINGS_MAX,
    GroupAssignment,
    GroupAssignments,
    GroupCounts,
    GroupHistory,
    GroupSampler,
    LogEnds,
    TimeSlices,
)
from ottla.broker.monitoring.group_snapshot import Durations, GroupsSnapshot, TopicRow
from ottla.coordinator.coordinator import FinishLoading, Resign
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.events import GroupEvent
from ottla.groups.settings import GroupSettings
from ottla.groups.snapshots import GroupSummary, MemberAssignment
from ottla.history.burrow import Status
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.errors import StorageError
from ottla.protocol.model import TopicPartition
from tests.support.kit.coordinator_shell import CoordinatorShell
from trials.scenarios.commands import parse_command

COORDINATOR = GroupCoordinator(GroupSettings())
MEMBERS = (
    MemberAssignment("m1", "c", "/h", (("t", 0), ("t", 1), ("u", 0))),
    MemberAssignment("m2", "c", "/h", (("t", 2),)),
    MemberAssignment("m3", "d", "/i", ()),
)

NOW = 1_000_000


async def pauses(calls: int) -> tuple[int, float]:
    """How often another task ran while work checked its slice so often, and how long the work was busy."""
    slices, ran = TimeSlices(), 0

    async def other() -> None:
        nonlocal ran
        while True:
            ran += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    for _ in range(calls):
        await slices.pause_if_over()
    slices.end()
    task.cancel()
    return ran, slices.busy_s


def test_a_slice_that_is_not_over_does_not_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_sampler, "SLICE_S", 1_000)
    assert asyncio.run(pauses(10))[0] == 0


def test_other_tasks_run_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_sampler, "SLICE_S", 0)
    ran, busy_s = asyncio.run(pauses(10))
    assert ran == 10
    assert busy_s > 0


def test_pauses_are_not_counted_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(group_sampler, "time", SimpleNamespace(perf_counter=lambda: now_s))

    def pass_time(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    async def run() -> float:
        slices = TimeSlices()
        pass_time(3)
        asyncio.get_running_loop().call_soon(pass_time, 5)
        await slices.pause_if_over()
        pass_time(2)
        slices.end()
        return slices.busy_s

    assert asyncio.run(run()) == 5
    assert now_s == 10


class Partitions:
    """Partition 0 of each topic is in use and ends at 7; others open with the end 9, those of `offline` not at all."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, int]] = []

    def in_use(self, name: TopicPartition) -> Any:
        return SimpleNamespace(log=SimpleNamespace(log_end_offset=7)) if name.partition == 0 else None

    def by_name(self, topic: str, partition: int) -> Any:
        self.opened.append((topic, partition))
        if topic == "offline":
            raise StorageError("the disk is gone")
        return SimpleNamespace(log=SimpleNamespace(log_end_offset=9))


def ends(*names: tuple[str, int]) -> tuple[dict[str, dict[int, int]], list[tuple[str, int]]]:
    partitions: Any = Partitions()
    found = LogEnds(partitions)
    topics = {topic: found.of_topic(topic) for topic, _ in names}
    for name in names:
        found.look_up(*name)
    return topics, partitions.opened


def test_logs_in_use_are_not_opened() -> None:
    assert ends(("t", 0)) == ({"t": {0: 7}}, [])


def test_other_logs_are_opened_and_offline_ones_have_no_end() -> None:
    assert ends(("t", 1), ("offline", 2)) == ({"t": {1: 9}, "offline": {2: NOT_OPEN}}, [("t", 1), ("offline", 2)])


def test_a_sample_opens_so_many_logs_only() -> None:
    topics, opened = ends(*(("t", number) for number in range(1, OPENINGS_MAX + 3)))
    assert len(opened) == OPENINGS_MAX
    assert [topics["t"][number] for number in (OPENINGS_MAX, OPENINGS_MAX + 1)] == [9, NOT_OPEN]


def group(state: str = "Stable", generation: int = 1) -> GroupSummary:
    return GroupSummary("g", state, generation, "consumer", "range", 3, 0, 0, 0)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups whose members were read."""
    found: list[str] = []

    def read(_coordinator: GroupCoordinator, group_id: str) -> tuple[MemberAssignment, ...]:
        found.append(group_id)
        return MEMBERS

    monkeypatch.setattr(GroupCoordinator, "assignments", read)
    return found


def test_an_assignment_has_owners_counts_by_topic_and_members_without_partitions(reads: list[str]) -> None:
    found = GroupAssignments().of(COORDINATOR, group())
    assert found.owners == {
        ("t", 0): ("m1", "c", "/h"), ("t", 1): ("m1", "c", "/h"), ("u", 0): ("m1", "c", "/h"), ("t", 2): ("m2", "c", "/h"),
    }  # fmt: skip
    assert found.topics == (TopicRow("t", 2, 3), TopicRow("u", 1, 1))
    assert found.empty_members == 1


def test_it_is_read_once_a_generation(reads: list[str]) -> None:
    assignments = GroupAssignments()
    first = assignments.of(COORDINATOR, group())
    assert assignments.of(COORDINATOR, group()) is first
    assert assignments.of(COORDINATOR, group(generation=2)).generation == 2
    assert reads == ["g", "g"]


def test_while_a_group_rebalances_no_partition_has_an_owner(reads: list[str]) -> None:
    assignments = GroupAssignments()
    assignments.of(COORDINATOR, group())
    assert assignments.of(COORDINATOR, group("PreparingRebalance")) == GroupAssignment(1, {}, (), 3)
    assignments.of(COORDINATOR, group())
    assert reads == ["g", "g"], "it is read again afterwards"


def test_groups_that_are_not_kept_are_forgotten(reads: list[str]) -> None:
    assignments = GroupAssignments()
    assignments.of(COORDINATOR, group())
    assignments.keep(["g", "h"])
    assignments.of(COORDINATOR, group())
    assignments.keep(["h"])
    assignments.of(COORDINATOR, group())
    assert reads == ["g", "g"]


def value(offset: int, at_ms: int) -> OffsetValue:
    return OffsetValue(offset=offset, leader_epoch=-1, metadata="", commit_timestamp_ms=at_ms)


def test_a_consumer_that_falls_behind() -> None:
    history = GroupHistory()
    for at_ms in range(0, 60_000, 10_000):
        status = history.status("g", "t", 0, value(1 + at_ms // 1_000, at_ms), 5 + at_ms // 500, at_ms)
    assert status is Status.WARN
    assert history.status("h", "t", 0, value(500, 0), 125, 60_000) is Status.OK


def test_a_consumer_that_stopped_is_found_when_no_log_end_that_it_had_reached_is_remembered() -> None:
    history = GroupHistory()
    for at_ms in (0, 10_000, 20_000):
        history.status("g", "t", 0, value(at_ms, at_ms), at_ms, at_ms)
    found = [history.status("g", "t", 0, value(20_000, 20_000), at_ms, at_ms) is Status.STOP for at_ms in range(30_000, 140_000, 10_000)]
    assert found == [False] * 9 + [True] * 2


def test_commits_that_follow_each_other_closely_count_as_one() -> None:
    history = GroupHistory()
    for at_ms in range(0, 20_000, 1_000):
        status = history.status("g", "t", 0, value(10, at_ms), 20, at_ms)
    assert status is Status.STALL
    (known,) = history._commits.values()
    assert [commit.at_ms for commit in known.window.commits] == [0, 5_000, 10_000, 15_000]


def test_partitions_that_are_no_longer_listed_are_forgotten() -> None:
    history = GroupHistory()
    history.status("g", "t", 0, value(1, 0), 2, 0)
    history.status("g", "u", 0, value(1, 0), 2, 0)
    history.forget_others()
    history.status("g", "u", 0, value(1, 0), 2, 0)
    history.forget_others()
    assert list(history._commits) == [("g", "u", 0)]
    assert list(history._log_ends) == [("u", 0)]


def event(kind: str, at_ms: int = 0, *, group: str = "g", **fields: Any) -> GroupEvent:
    return GroupEvent(at_ms=at_ms, group=group, kind=kind, generation=1, state_from="", state_to="", **fields)


def counted(*events: GroupEvent) -> GroupCounts:
    counts = GroupCounts()
    for each in events:
        counts.note(each)
    return counts


REBALANCE = (
    event("trigger", 1_000, trigger="JOIN_NEW"),
    event("trigger", 1_500, trigger="LEAVE", coalesced=True),
    event("join_completed", 4_000),
    event("sync_completed", 4_250, evidence={"sync_phase_ms": 250}),
)


@pytest.mark.conformance("GroupMetadataManagerTest.testClassicGroupCompletedRebalanceSensor")
def test_a_rebalance_is_counted_by_what_began_it() -> None:
    counts = counted(*REBALANCE)
    for each in (counts.of("g"), counts.all):
        assert each.rebalances == {"JOIN_NEW": 1}
        assert each.coalesced == {"LEAVE": 1}
        assert each.outcomes == {"completed": 1}
        assert each.durations == {"join": Durations().plus(3.0), "sync": Durations().plus(0.25)}
    assert counts.of("h").rebalances == {}


def test_rebalances_of_a_consumer_group_are_counted() -> None:
    def bump(at_ms: int, trigger: str, **fields: Any) -> GroupEvent:
        return replace(event("epoch_bumped", at_ms, trigger=trigger, group_type="consumer", **fields), state_to="Assigning")

    counts = counted(
        bump(1_000, "JOIN_NEW"),
        bump(1_200, "TOPIC_CHANGE", coalesced=True),
        event("target_assigned", 2_000),
        event("member_reconciled", 5_000, evidence={"member_epoch": 2, "revocation_ms": 2_500, "reconciliation_ms": 3_000}),
        replace(bump(9_000, "LEAVE"), state_to="Empty"),
        replace(bump(9_000, "LEAVE", coalesced=True), state_to="Empty"),
    ).of("g")
    assert counts.rebalances == {"JOIN_NEW": 1, "LEAVE": 1}
    assert counts.coalesced == {"TOPIC_CHANGE": 1, "LEAVE": 1}
    assert counts.outcomes == {"completed": 1, "emptied": 1}
    assert (counts.consumer_rebalances, counts.classic_completed) == (2, 0)
    took = {"assign": 1.0, "revoke": 2.5, "reconcile": 3.0}
    assert counts.durations == {phase: Durations().plus(seconds) for phase, seconds in took.items()}


@pytest.mark.parametrize(
    ("events", "outcomes"),
    [
        ((REBALANCE[0], event("emptied", 1_000)), {"emptied": 1}),
        ((*REBALANCE[:3], event("trigger", 5_000, trigger="STORE_ERROR")), {"superseded": 1}),
        ((REBALANCE[0], event("loaded", 2_000)), {"interrupted": 1}),
        ((REBALANCE[0], event("deleted", 2_000)), {"interrupted": 1}),
        ((event("loaded", 2_000),), {}),
    ],
)
def test_how_a_rebalance_ends(events: tuple[GroupEvent, ...], outcomes: dict[str, int]) -> None:
    assert counted(*events).all.outcomes == outcomes


def test_a_rebalance_that_had_begun_before_counting() -> None:
    counts = counted(*REBALANCE[2:])
    assert counts.all.rebalances == {"UNKNOWN": 1}
    assert "join" not in counts.all.durations


@pytest.mark.conformance("OffsetMetadataManagerTest.testOffsetsExpiredSensor")
def test_events_without_a_rebalance() -> None:
    counts = counted(event("static_replaced"), event("static_fenced"), event("offsets_expired", evidence={"offset_count": 5})).of("g")
    assert (counts.static_replaced, counts.static_fenced, counts.offsets_expired) == (1, 1, 5)
    assert counts.rebalances == {}


def test_groups_that_are_gone_or_silent_are_forgotten_and_sums_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_sampler, "GROUPS_COUNTED_MAX", 2)
    counts = counted(*(event("trigger", group=group, trigger="LEAVE") for group in ("a", "b", "a", "c")))
    assert [counts.of(group).rebalances.get("LEAVE") for group in "abc"] == [2, None, 1]
    counts.note(event("deleted", group="a"))
    assert counts.of("a").rebalances == {}
    assert counts.all.rebalances == {"LEAVE": 4}


class Logs:
    """Partitions that are open, by name: their first and last offsets; those that `closed` names are not open yet."""

    def __init__(self, ranges: dict[tuple[str, int], tuple[int, int]], closed: set[tuple[str, int]]) -> None:
        self.ranges = ranges
        self.closed = closed
        self.openings = 0

    def in_use(self, name: TopicPartition) -> Any:
        if name in self.closed or name not in self.ranges:
            return None
        return self._partition(name)

    def by_name(self, topic: str, partition: int) -> Any:
        self.openings += 1
        if topic == "broken":
            raise StorageError("the disk is gone")
        self.closed.discard((topic, partition))
        return self._partition((topic, partition)) if (topic, partition) in self.ranges else None

    def _partition(self, name: tuple[str, int]) -> Any:
        start, end = self.ranges[name]
        return SimpleNamespace(log=SimpleNamespace(log_start_offset=start, log_end_offset=end))


class Process:
    """Two brokers' coordinators, driven by the lines of scenario files, and a sampler over them."""

    def __init__(self, ranges: dict[tuple[str, int], tuple[int, int]] | None = None, closed: set[tuple[str, int]] | None = None) -> None:
        self.shells = [CoordinatorShell(lambda: GroupCoordinator(GroupSettings())) for _ in range(2)]
        for shell in self.shells:
            shell.run(FinishLoading(), NOW)
        self.logs = Logs(ranges or {("flights", 0): (0, 100), ("flights", 1): (10, 100)}, closed or set())
        topics: Any = {"flights": SimpleNamespace(leaders=(1, 2))}
        partitions: Any = self.logs
        self.sampler = GroupSampler(
            lambda: [(number, shell.coordinator) for number, shell in enumerate(self.shells, 1)],
            partitions,
            lambda: topics,
            "our-cluster",
            lambda: NOW,
        )
        self.requests = 0

    def do(self, *lines: str, broker: int = 1) -> "Process":
        for line in lines:
            self.requests += 1
            for event in self.shells[broker - 1].run(parse_command(line, self.requests), NOW).events:
                self.sampler.note(event)
        return self

    def sample(self) -> GroupsSnapshot:
        asyncio.run(self.sampler.sample())
        return self.sampler.snapshot


def test_a_group_has_a_row() -> None:
    process = Process().do("commit g flights/0=40 flights/1=100 gone/7=5")
    seen = process.sample()
    (row,) = seen.groups
    assert (row.group_id, row.broker_id, row.state, row.members) == ("g", 1, "Empty", 0)
    assert (row.lag_sum, row.lag_max) == (60, 60)
    assert [(each.topic, each.partition, each.offset, each.log_start, each.log_end, each.lag) for each in row.offsets] == [
        ("flights", 0, 40, 0, 100, 60),
        ("flights", 1, 100, 10, 100, 0),
        ("gone", 7, 5, None, None, None),
    ]
    assert row.by_topic == {"flights": (140, 60), "gone": (5, 0)}
    assert row.status is Status.ERR, "a commit that is the first and lags"
    assert (seen.cluster_id, seen.at_ms, seen.topics, seen.groups_left_out) == ("our-cluster", NOW, (("flights", 2),), 0)


def test_owners_of_partitions_are_known_while_the_group_is_stable() -> None:
    process = Process().do("join g - new=m1", "join g m1", "commit h flights/0=100")
    process.shells[0].fire_timers(NOW + 3_000)
    process.do("sync g m1 gen=1 assignment=m1:flights/0", "commit g m1 gen=1 flights/0=40 flights/1=50")
    row = process.sample().groups[0]
    assert (row.group_id, row.state, row.generation, row.protocol) == ("g", "Stable", 1, "range")
    assert [each.owner[0] for each in row.offsets] == ["m1", ""]
    assert (row.topics, row.empty_members) == ((TopicRow("flights", 1, 1),), 0)
    process.do("join g - new=m2", "join g m2")
    row = process.sample().groups[0]
    assert (row.state, row.topics, row.empty_members, row.members) == ("PreparingRebalance", (), 2, 2)
    assert [each.owner for each in row.offsets] == [("", "", "")] * 2


def test_the_most_lagging_groups_have_rows_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_sampler, "GROUPS_MAX", 2)
    monkeypatch.setattr(group_sampler, "OFFSETS_MAX", 3)
    process = Process().do(*(f"commit g{offset} flights/0={offset} flights/1=100" for offset in (90, 10, 50)))
    process.do("commit h flights/0=95", broker=2)
    seen = process.sample()
    assert [row.group_id for row in seen.groups] == ["g10", "g50"]
    assert [(len(row.offsets), row.offsets_left_out) for row in seen.groups] == [(2, 0), (1, 1)]
    assert seen.groups[1].lag_sum == 50
    assert seen.groups_left_out == 2
    assert [(broker.broker_id, broker.groups, broker.offsets, broker.by_state["Empty"]) for broker in seen.brokers] == [
        (1, 3, 6, 3),
        (2, 1, 1, 1),
    ]
    assert seen.brokers[0].coordinators == {"loading": 0, "active": 1}


def test_a_sample_opens_a_few_of_the_logs_that_are_not_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_sampler, "OPENINGS_MAX", 1)
    names = {("flights", 0), ("flights", 1)}
    process = Process(closed=set(names)).do("commit g flights/0=40 flights/1=50")
    assert process.sample().groups[0].lag_sum == 60
    assert process.sample().groups[0].lag_sum == 110
    process.do("commit g broken/0=1")
    assert process.sample().groups[0].lag_sum == 110


def test_a_coordinator_that_resigned_is_not_counted() -> None:
    process = Process().do("commit g flights/0=40")
    process.shells[0].run(Resign(), NOW)
    seen = process.sample()
    assert [broker.broker_id for broker in seen.brokers] == [2]
    assert not seen.groups


def test_the_brokers_count_of_commits_continues_when_a_coordinator_restarts() -> None:
    process = Process().do("commit g flights/0=1 flights/1=1")
    seen = process.sample()
    assert (seen.groups[0].offset_commits, seen.brokers[0].offset_commits) == (2, 2)
    process.shells[0].restart(NOW)
    process.do("commit g flights/0=2")
    seen = process.sample()
    assert (seen.groups[0].offset_commits, [broker.offset_commits for broker in seen.brokers]) == (1, [3, 0])


def test_events_are_counted_for_the_group() -> None:
    process = Process().do("join g - new=m1", "join g m1")
    seen = process.sample()
    assert seen.groups[0].counts.rebalances == seen.counts.rebalances == {"JOIN_NEW": 1}
    process.sampler.note(
        GroupEvent(at_ms=NOW, group="g", kind="trigger", generation=0, state_from="", state_to="", trigger="LEAVE", coalesced=True)
    )
    assert seen.counts.coalesced == {}, "a snapshot stays what it was"


def test_a_sample_lets_the_loop_run_other_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_sampler, "SLICE_S", 0)
    process = Process().do(*(f"commit g{number} flights/0=1" for number in range(20)))
    iterations = 0

    async def sample() -> None:
        nonlocal iterations
        task = asyncio.ensure_future(process.sampler.sample())
        while not task.done():
            iterations += 1
            await asyncio.sleep(0)

    asyncio.run(sample())
    assert iterations > 40
    assert len(process.sampler.snapshot.groups) == 20
    assert process.sampler.snapshot.took_s > 0


def test_a_sampler_samples_until_it_is_stopped() -> None:
    process = Process().do("commit g flights/0=40")

    async def run() -> None:
        process.sampler.start()
        while not process.sampler.snapshot.groups:
            await asyncio.sleep(0)
        await process.sampler.stop()
        await process.sampler.stop()

    asyncio.run(run())
    assert process.sampler.snapshot.groups[0].group_id == "g"
