"""1,000 simulated runs of a group, more with `make soak`, and for each invariant a broken coordinator that violates it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ottla.coordinator.coordinator import CoordinatorStatus
from ottla.coordinator.effects import Reply
from ottla.groups.classic.states import GroupState
from ottla.groups.commands import Command, ExpireOffsets, GroupEffects, HeartbeatResult, OffsetCommit, SyncResult
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.events import TriggerCode
from ottla.groups.log.records import GroupRecord, OffsetRecord
from ottla.protocol.errors import ErrorCode
from trials.__main__ import main
from trials.simulation.simulator import SimulationFailed, simulate

SEEDS = int(os.environ.get("OTTLA_GROUP_SEEDS", "1000"))
CHUNK = 50
SEEDS_UNTIL_FOUND_MAX = 60


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_the_invariants_hold(first: int) -> None:
    for seed in range(first, first + CHUNK):
        simulate(seed)


def test_the_same_seed_is_the_same_run() -> None:
    for seed in (1, 2, 3):
        assert simulate(seed) == simulate(seed)
    assert simulate(1).trace_hash != simulate(2).trace_hash


def test_the_same_seed_is_the_same_run_in_another_process() -> None:
    outputs = []
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "trials", "simulation", "--seed", "1,2,3"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        outputs.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert re.sub(r"in \d+ s", "", outputs[0]) == re.sub(r"in \d+ s", "", outputs[1])
    assert str(simulate(3)) in outputs[0]


def test_the_runs_cover_every_cause() -> None:
    outcomes = [simulate(seed) for seed in range(60)]
    causes = {code for outcome in outcomes for code in outcome.causes}
    of_consumer_groups = {
        TriggerCode.REBALANCE_TIMEOUT,
        TriggerCode.SUBSCRIPTION_CHANGE,
        TriggerCode.REGEX_CHANGE,
        TriggerCode.TOPIC_CHANGE,
    }
    assert causes >= {code.value for code in TriggerCode} - {TriggerCode.CAPACITY} - of_consumer_groups
    assert sum(outcome.restarts for outcome in outcomes) > 60
    assert sum(outcome.expirations for outcome in outcomes) > 60
    assert sum(outcome.generations for outcome in outcomes) > 300


class LosesOffsets(GroupCoordinator):
    """Some offsets do not take effect."""

    def replay_all(self, records: Sequence[GroupRecord]) -> None:
        for record in records:
            self.replay(record)

    def replay(self, record: GroupRecord) -> None:
        super().replay(record)
        value = record.value if isinstance(record, OffsetRecord) else None
        if value is not None and isinstance(record, OffsetRecord) and value.offset % 5 == 0:
            self.state.replayed.apply(replace(record, value=None))


class AcknowledgesWithoutStoring(GroupCoordinator):
    """Commits are acknowledged and not stored."""

    def handle(self, command: Command, *, now_ms: int, timer_ms: int | None = None) -> GroupEffects:
        effects = super().handle(command, now_ms=now_ms, timer_ms=timer_ms)
        if isinstance(command, OffsetCommit) and effects.records:
            self._remove_pending(len(effects.records))
            return replace(effects, records=())
        return effects


class StoresInTheWrongPartition(GroupCoordinator):
    """A commit is stored in the wrong place."""

    def handle(self, command: Command, *, now_ms: int, timer_ms: int | None = None) -> GroupEffects:
        effects = super().handle(command, now_ms=now_ms, timer_ms=timer_ms)
        if isinstance(command, OffsetCommit):
            records = [replace(record, partition=0) if isinstance(record, OffsetRecord) else record for record in effects.records]
            return replace(effects, records=tuple(records))
        return effects


class SharesAssignments(GroupCoordinator):
    """Every member gets the first one's assignment."""

    def handle(self, command: Command, *, now_ms: int, timer_ms: int | None = None) -> GroupEffects:
        effects = super().handle(command, now_ms=now_ms, timer_ms=timer_ms)
        results = [reply.result for reply in effects.replies if isinstance(reply.result, SyncResult)]
        good = [result for result in results if result.error is ErrorCode.NONE and result.assignment]
        if len(good) < 2:
            return effects
        return replace(effects, replies=tuple(Reply(to=reply.to, result=good[0]) for reply in effects.replies))


class NeverEndsTheJoinPhase(GroupCoordinator):
    """The join timer never fires."""

    def handle(self, command: Command, *, now_ms: int, timer_ms: int | None = None) -> GroupEffects:
        effects = super().handle(command, now_ms=now_ms, timer_ms=timer_ms)
        for group in self.state.groups.values():
            if group.state is GroupState.PREPARING_REBALANCE:
                self.state.timers.cancel(group.join_timer)
        return effects


class PublishesNoTriggers(GroupCoordinator):
    """Triggers have no events."""

    def handle(self, command: Command, *, now_ms: int, timer_ms: int | None = None) -> GroupEffects:
        effects = super().handle(command, now_ms=now_ms, timer_ms=timer_ms)
        return replace(effects, events=tuple(event for event in effects.events if event.kind != "trigger"))


class ReusesGenerations(GroupCoordinator):
    """Generations restart when a group is empty."""

    def handle(self, command: Command, *, now_ms: int, timer_ms: int | None = None) -> GroupEffects:
        effects = super().handle(command, now_ms=now_ms, timer_ms=timer_ms)
        for group in self.state.groups.values():
            if group.state is GroupState.EMPTY:
                group.generation = 0
        return effects


class SkipsRecordsAtRestart(GroupCoordinator):
    """A restart skips some records."""

    def replay(self, record: GroupRecord) -> None:
        loading = self.status is CoordinatorStatus.LOADING
        if not (loading and isinstance(record, OffsetRecord) and record.partition == 1):
            super().replay(record)


class DropsHeartbeatReplies(GroupCoordinator):
    """Heartbeats are never answered."""

    def handle(self, command: Command, *, now_ms: int, timer_ms: int | None = None) -> GroupEffects:
        effects = super().handle(command, now_ms=now_ms, timer_ms=timer_ms)
        return replace(effects, replies=tuple(reply for reply in effects.replies if not isinstance(reply.result, HeartbeatResult)))


class RepliesTwice(GroupCoordinator):
    """Every request is answered twice."""

    def handle(self, command: Command, *, now_ms: int, timer_ms: int | None = None) -> GroupEffects:
        effects = super().handle(command, now_ms=now_ms, timer_ms=timer_ms)
        return replace(effects, replies=effects.replies + effects.replies)


class ExpiresTooEarly(GroupCoordinator):
    """Its clock is ahead in expiry passes."""

    def handle(self, command: Command, *, now_ms: int, timer_ms: int | None = None) -> GroupEffects:
        return super().handle(command, now_ms=now_ms + (3_000 if isinstance(command, ExpireOffsets) else 0), timer_ms=timer_ms)


class ExpiresSubscribedTopics(GroupCoordinator):
    """Offsets of subscribed topics expire."""

    def handle(self, command: Command, *, now_ms: int, timer_ms: int | None = None) -> GroupEffects:
        if isinstance(command, ExpireOffsets):
            for group in self.state.groups.values():
                group.subscribed_topics = frozenset()
        return super().handle(command, now_ms=now_ms, timer_ms=timer_ms)


class RunsTimersByTimeOfDay(GroupCoordinator):
    """Its timers run by the time of day."""

    def handle(self, command: Command, *, now_ms: int, timer_ms: int | None = None) -> GroupEffects:
        return super().handle(command, now_ms=now_ms, timer_ms=now_ms)


BROKEN: list[tuple[Callable[..., GroupCoordinator], str]] = [
    (LosesOffsets, "the coordinator's state differs from its log"),
    (AcknowledgesWithoutStoring, "is acknowledged and not in the log"),
    (StoresInTheWrongPartition, "is acknowledged and not in the log"),
    (SharesAssignments, "belongs to"),
    (NeverEndsTheJoinPhase, "has no timer"),
    (PublishesNoTriggers, "rebalances started, 0 triggers were published"),
    (ReusesGenerations, "is written after"),
    (SkipsRecordsAtRestart, "was acknowledged, None is left"),
    (DropsHeartbeatReplies, "does not recover"),
    (RepliesTwice, "is answered without a request"),
    (ExpiresTooEarly, "ms old and expires"),
    (ExpiresSubscribedTopics, "consumes it"),
    (RunsTimersByTimeOfDay, "may be silent until"),
]


def first_failure(broken: Callable[..., GroupCoordinator]) -> tuple[int, str]:
    """The first seed under which a broken coordinator violates an invariant, and the message."""
    for seed in range(SEEDS_UNTIL_FOUND_MAX):
        try:
            simulate(seed, make=broken)
        except SimulationFailed as failure:
            return seed, str(failure)
    pytest.fail(f"{broken.__name__} ran {SEEDS_UNTIL_FOUND_MAX} seeds without a violation")


@pytest.mark.parametrize(("broken", "text"), BROKEN, ids=lambda value: getattr(value, "__name__", None))
def test_each_invariant_can_fail(broken: Callable[..., GroupCoordinator], text: str) -> None:
    seed, message = first_failure(broken)
    assert text in message
    assert f"make sim SEED={seed}" in message, "a failure says how to run it again"


def test_one_seed_is_reported_step_by_step(capsys: Any) -> None:
    assert main(["simulation", "--seed", "5"]) == 0
    output = capsys.readouterr().out
    assert "JoinGroup(" in output
    assert "event  join_completed" in output
    assert f"seed 5: {simulate(5)}: ok" in output.splitlines()


def test_several_seeds_are_reported_by_their_outcome(capsys: Any) -> None:
    for arguments, seeds in (["--seed", "5,6"], [5, 6]), ([], range(100)):
        assert main(["simulation", *arguments]) == 0
        *lines, _ = capsys.readouterr().out.splitlines()
        assert [line.partition(":")[0] for line in lines] == [f"seed {seed}" for seed in seeds]
