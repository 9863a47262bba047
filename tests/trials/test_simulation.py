"""The oracle: each of its checks, violated by hand. tests/simulation shows that broken coordinators are found."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import ExpireOffsets, FinishLoading
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.effects import CommitResult, Effects, Reply
from ottla.core.groups.settings import GroupSettings
from ottla.testing.kit.coordinator_shell import CoordinatorShell
from ottla.testing.scenarios.commands import parse_command
from ottla.testing.simulation.oracle import InvariantBroken, Oracle

LINES = ["join g - new=m1 old=yes", "join g - new=m2 old=yes"]


class Watched:
    """A coordinator under an oracle."""

    def __init__(self) -> None:
        self.shell = CoordinatorShell(lambda: Coordinator(GroupSettings(offsets_retention_ms=1_000)))
        self.oracle = Oracle(self.shell)
        self.requests = 0
        self.oracle.effects_applied(self.shell.run(FinishLoading(), 0))

    def ask(self, line: str) -> Effects:
        self.requests += 1
        command: Any = parse_command(line, self.requests)
        self.oracle.request_received(command)
        return self.shell.run(command, 0)

    def given(self, *lines: str) -> None:
        for line in lines:
            self.oracle.effects_applied(self.ask(line))

    def fire(self) -> None:
        while (effects := self.shell.fire_timers(0)) is not None:
            self.oracle.effects_applied(effects)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_it_accepts_a_valid_run(watched: Watched) -> None:
    watched.given(*LINES)
    watched.fire()
    watched.given("sync g m2 gen=1", "sync g m1 gen=1 assignment=m1:t/0;m2:t/1", "commit g m1 gen=1 t/0=5", "fetch g", "leave g m1 m2")
    watched.given("delete g", "fetch g")
    assert watched.oracle.open_requests() == []


def test_requests_without_an_answer_are_counted(watched: Watched) -> None:
    watched.given(LINES[0])
    assert len(watched.oracle.open_requests()) == 1


def test_a_response_without_a_request(watched: Watched) -> None:
    with pytest.raises(InvariantBroken, match="without a request"):
        watched.oracle.effects_applied(Effects(replies=(Reply(to=99, result=CommitResult(errors=())),)))


def test_a_commit_that_is_not_in_the_log(watched: Watched) -> None:
    watched.shell.fail_next_append = ErrorCode.KAFKA_STORAGE_ERROR
    effects = watched.ask("commit g t/0=5")
    lie = replace(effects, replies=(Reply(to=1, result=CommitResult(errors=(ErrorCode.NONE,))),))
    with pytest.raises(InvariantBroken, match="not in the log"):
        watched.oracle.effects_applied(lie)


def test_an_offset_that_a_restart_lost(watched: Watched) -> None:
    watched.given("commit g t/0=5")
    watched.shell.log.clear()
    watched.shell.begin_loading()
    with pytest.raises(InvariantBroken, match="5 was acknowledged, None is left"):
        watched.oracle.coordinator_restarted()


def test_a_partition_with_two_owners(watched: Watched) -> None:
    watched.given(*LINES)
    watched.fire()
    watched.given("sync g m2 gen=1")
    with pytest.raises(InvariantBroken, match="belongs to m1 and m2 in generation 1"):
        watched.given("sync g m1 gen=1 assignment=m1:t/0;m2:t/0")


def test_a_generation_that_does_not_rise(watched: Watched) -> None:
    watched.given(LINES[0])
    watched.fire()
    effects = watched.ask("sync g m1 gen=1")
    watched.oracle.effects_applied(effects)
    with pytest.raises(InvariantBroken, match="generation 1 is written after 1"):
        watched.oracle.effects_applied(replace(effects, replies=()))


def test_a_rebalance_without_a_trigger(watched: Watched) -> None:
    effects = watched.ask(LINES[0])
    with pytest.raises(InvariantBroken, match="1 rebalances started, 0 triggers were published"):
        watched.oracle.effects_applied(replace(effects, events=()))


def test_a_member_without_a_deadline(watched: Watched) -> None:
    effects = watched.ask(LINES[0])
    registry = watched.shell.coordinator.state
    registry.timers.cancel(registry.groups["g"].join_timer)
    with pytest.raises(InvariantBroken, match="m1 has no timer"):
        watched.oracle.effects_applied(effects)


def test_knowledge_that_no_log_has(watched: Watched) -> None:
    watched.given("commit g t/0=5")
    watched.shell.coordinator.state.replayed.offsets.clear()
    with pytest.raises(InvariantBroken, match="differs from its log"):
        watched.given("list")


def test_an_offset_that_expires_before_its_time(watched: Watched) -> None:
    watched.given("commit g t/0=5")
    watched.oracle.offsets_expired(watched.shell.run(ExpireOffsets(), 999), 999)
    effects = watched.shell.run(ExpireOffsets(), 1_000)
    with pytest.raises(InvariantBroken, match="is 999 ms old and expires"):
        watched.oracle.offsets_expired(effects, 999)
    watched.oracle.offsets_expired(effects, 1_000)
    watched.given("fetch g t/0")


def test_an_offset_that_expires_under_its_consumer(watched: Watched) -> None:
    watched.given(LINES[0])
    watched.fire()
    watched.given("sync g m1 gen=1 assignment=m1:flights/0", "commit g m1 gen=1 flights/0=5 t/0=5")
    effects = watched.shell.run(ExpireOffsets(), 1_000)
    watched.oracle.offsets_expired(effects, 1_000)
    (record,) = effects.records
    stolen = replace(record, topic="flights")
    with pytest.raises(InvariantBroken, match="expires, and m1 consumes it"):
        watched.oracle.offsets_expired(replace(effects, records=(stolen,)), 1_000)
    watched.given(LINES[1])
    with pytest.raises(InvariantBroken, match=r"expires while the group is GroupState\.PREPARING_REBALANCE"):
        watched.oracle.offsets_expired(effects, 1_000)


def test_a_group_that_expires_and_still_exists(watched: Watched) -> None:
    watched.given("commit g t/0=5")
    effects = watched.shell.run(ExpireOffsets(), 1_000)
    watched.oracle.offsets_expired(effects, 1_000)
    watched.given("commit g t/0=5")
    with pytest.raises(InvariantBroken, match="g expires with"):
        watched.oracle.offsets_expired(replace(effects, records=effects.records[1:]), 1_000)
