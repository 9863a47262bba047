"""The snapshot of the groups: which groups have a row, which are only counted, and how long the loop may be busy with it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.monitoring import group_sampler, log_ends, time_slices
from ottla.broker.monitoring.group_sampler import GroupSampler
from ottla.broker.monitoring.group_snapshot import GroupsSnapshot, TopicRow
from ottla.coordinator.coordinator import FinishLoading, Resign
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.events import GroupEvent
from ottla.groups.settings import GroupSettings
from ottla.history.burrow import Status
from ottla.protocol.errors import StorageError
from ottla.protocol.model import TopicPartition
from tests.support.kit.coordinator_shell import CoordinatorShell
from trials.scenarios.commands import parse_command

NOW = 1_000_000


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
    monkeypatch.setattr(log_ends, "OPENINGS_MAX", 1)
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
    monkeypatch.setattr(time_slices, "SLICE_S", 0)
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
