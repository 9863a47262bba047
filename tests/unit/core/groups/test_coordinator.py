"""The coordinator: commands, pending records, replay, timers."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode, PeerError
from ottla.core.groups.commands import AppendFailed, FinishLoading, ForgetTopics, Resign
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.request_checks import CoordinatorStatus
from ottla.core.groups.settings import GroupSettings
from ottla.testing.scenarios.commands import parse_command


def serving() -> Coordinator:
    coordinator = Coordinator(GroupSettings(), partition=12, node_id=3)
    coordinator.handle(FinishLoading(), now_ms=0)
    return coordinator


def test_its_status_runs_from_loading_to_resigned() -> None:
    coordinator = Coordinator(GroupSettings())
    assert coordinator.status is CoordinatorStatus.LOADING
    coordinator.handle(FinishLoading(), now_ms=0)
    assert coordinator.status is CoordinatorStatus.ACTIVE
    coordinator.handle(Resign(), now_ms=0)
    assert coordinator.status is CoordinatorStatus.RESIGNED
    with pytest.raises(AssertionError):
        coordinator.handle(FinishLoading(), now_ms=0)


def test_handle_changes_nothing_durable_before_replay() -> None:
    coordinator = serving()
    effects = coordinator.handle(parse_command("commit g flights/0=42", 1), now_ms=5)
    assert coordinator.snapshot().groups == ()
    for record in effects.records:
        coordinator.replay(record)
    assert coordinator.snapshot().groups[0].offsets["flights"][0].offset == 42


def test_a_command_that_depends_on_pending_records_fails_an_assertion() -> None:
    coordinator = serving()
    coordinator.handle(parse_command("commit g flights/0=42", 1), now_ms=5)
    with pytest.raises(AssertionError):
        coordinator.handle(parse_command("fetch g", 2), now_ms=5)
    with pytest.raises(AssertionError):
        coordinator.fire_timers(now_ms=5)


@pytest.mark.conformance("GroupMetadataTest.testOffsetCommitWithAnotherPending", "GroupMetadataTest.testHasPendingNonTxnOffsets")
def test_commands_that_depend_on_no_pending_record_are_replayed_in_order() -> None:
    coordinator = serving()
    coordinator.replay_all(coordinator.handle(parse_command("commit g flights/0=1", 1), now_ms=5).records)
    steps = [coordinator.handle(parse_command(f"commit g flights/0={offset}", offset), now_ms=5) for offset in (2, 3)]
    assert coordinator.depends_on_pending(parse_command("fetch g", 4))
    assert not coordinator.depends_on_pending(parse_command("fetch h", 4))
    for offset, step in zip((2, 3), steps, strict=True):
        assert coordinator.depends_on_pending(parse_command("fetch g", 4))
        coordinator.replay_all(step.records)
        assert coordinator.snapshot().groups[0].offsets["flights"][0].offset == offset
    assert not coordinator.depends_on_pending(parse_command("fetch g", 4))


@pytest.mark.conformance("GroupMetadataTest.testOffsetCommitFailureWithAnotherPending")
def test_a_failed_command_leaves_the_next_one_pending() -> None:
    coordinator = serving()
    coordinator.replay_all(coordinator.handle(parse_command("commit g flights/0=1", 1), now_ms=5).records)
    failing, behind = (coordinator.handle(parse_command(f"commit g flights/0={offset}", offset), now_ms=5) for offset in (2, 3))
    coordinator.handle(AppendFailed(effects=failing, error=ErrorCode.KAFKA_STORAGE_ERROR), now_ms=5)
    assert coordinator.depends_on_pending(parse_command("fetch g", 4))
    assert coordinator.snapshot().groups[0].offsets["flights"][0].offset == 1
    coordinator.replay_all(behind.records)
    assert not coordinator.depends_on_pending(parse_command("fetch g", 4))
    assert coordinator.snapshot().groups[0].offsets["flights"][0].offset == 3


def test_each_of_several_failed_commands_is_answered() -> None:
    coordinator = serving()
    coordinator.replay_all(coordinator.handle(parse_command("commit g flights/0=1", 1), now_ms=5).records)
    steps = [coordinator.handle(parse_command(line, 2), now_ms=5) for line in ("commit g flights/0=2", "join h - new=m1")]
    failures = [AppendFailed(effects=step, error=ErrorCode.KAFKA_STORAGE_ERROR) for step in steps]
    results: list[Any] = [reply.result for failure in failures for reply in coordinator.handle(failure, now_ms=5).replies]
    assert results[0].errors == (ErrorCode.NOT_COORDINATOR,)
    assert results[1].error is ErrorCode.NOT_COORDINATOR
    assert [group.group_id for group in coordinator.snapshot().groups] == ["g"]
    assert coordinator.snapshot().groups[0].offsets["flights"][0].offset == 1
    assert not coordinator.depends_on_pending(parse_command("list", 3))


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"])
@pytest.mark.parametrize("line", ["g m1 gen=2", "g m1 gen=1", "g m9 gen=2", "h m1 gen=2", "g m1 gen=2 instance=i1"])
def test_a_fast_heartbeat_answers_as_a_heartbeat_or_not_at_all(make_driver: Any, state: str, line: str) -> None:
    driver, other = make_driver().in_state(state), make_driver().in_state(state)
    driver.now_ms = other.now_ms = 1_234
    command: Any = parse_command(f"heartbeat {line}", 99)
    error = driver.shell.coordinator.fast_heartbeat(
        command.group_id, command.generation, command.member_id, command.instance_id, timer_ms=1_234
    )
    answer = other.answer(f"heartbeat {line}").error
    assert error in (None, answer)
    if error is None:
        assert answer is not ErrorCode.NONE
    else:
        assert driver.shell.coordinator.snapshot() == other.shell.coordinator.snapshot()


def test_a_fast_heartbeat_waits_for_pending_records_of_its_group(driver: Any) -> None:
    coordinator = driver.in_state("CompletingRebalance").shell.coordinator
    assert coordinator.fast_heartbeat("g", 2, "m2", None, timer_ms=0) is ErrorCode.NONE
    coordinator.handle(parse_command("sync g m1 gen=2 assignment=m1:flights/0", 9), now_ms=0)
    assert coordinator.fast_heartbeat("g", 2, "m2", None, timer_ms=0) is None


def test_a_group_has_pending_records_while_its_commit_is_not_replayed(driver: Any) -> None:
    coordinator = driver.in_state("Stable").shell.coordinator
    assert not coordinator.has_pending("g")
    effects = coordinator.handle(parse_command("commit g m1 gen=2 flights/0=1", 9), now_ms=0)
    assert coordinator.has_pending("g")
    assert coordinator.fast_heartbeat("g", 2, "m2", None, timer_ms=0) is ErrorCode.NONE, "it need not wait, but for its place in the order"
    coordinator.replay_all(effects.records)
    assert not coordinator.has_pending("g")


def test_a_record_that_was_not_handed_out_fails_an_assertion() -> None:
    coordinator = serving()
    effects = coordinator.handle(parse_command("commit g flights/0=42", 1), now_ms=5)
    coordinator.replay(effects.records[0])
    with pytest.raises(AssertionError):
        coordinator.replay(effects.records[0])


def test_timers_fire_one_at_a_time(driver: Any) -> None:
    driver.in_state("Stable")
    coordinator = driver.shell.coordinator
    assert coordinator.next_deadline_ms() == 10_000
    assert coordinator.fire_timers(now_ms=9_999).events == ()
    first = coordinator.fire_timers(now_ms=10_000)
    assert [event.trigger for event in first.events] == ["EXPIRE_HEARTBEAT"]
    assert coordinator.next_deadline_ms() == 10_000


def test_without_groups_no_timer_is_due() -> None:
    assert serving().next_deadline_ms() is None
    assert serving().fire_timers(now_ms=10**9).events == ()


def test_log_lines_have_kafkas_prefix() -> None:
    assert serving().log_prefix == "[GroupCoordinator id=3 topic=__consumer_offsets partition=12] "


@pytest.mark.parametrize(
    "line", ["commit {long} flights/0=1", "commit g {long}/0=1", "join {long} - new=m1", "join g - new=m1 client={long}"]
)
def test_strings_that_no_record_can_hold_are_a_peer_error(driver: Any, line: str) -> None:
    with pytest.raises(PeerError):
        driver.do(line.format(long="x" * 40_000))
    assert driver.shell.coordinator.snapshot().groups == ()
    assert driver.error("fetch g") is ErrorCode.NONE


def test_a_loading_coordinator_ignores_deleted_topics() -> None:
    coordinator = Coordinator(GroupSettings())
    assert coordinator.handle(ForgetTopics(topics=("flights",)), now_ms=0).records == ()


def test_a_deleted_group_has_no_timers(driver: Any) -> None:
    driver.in_state("Empty").given("join g - new=m9", "delete g")
    assert driver.shell.coordinator.next_deadline_ms() is None
