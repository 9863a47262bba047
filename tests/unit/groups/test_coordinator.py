"""The group coordinator: commands, pending records, replay, timers; listing and deleting groups; summaries and snapshots."""

import dataclasses
from typing import Any

import pytest

from ottla.coordinator.coordinator import AppendFailed, CoordinatorStatus, FinishLoading, Resign
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.commands import ForgetTopics, error_result, refusal
from ottla.groups.coordinator import GroupCoordinator, ListedGroups
from ottla.groups.settings import ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT, GroupSettings
from ottla.groups.snapshots import GroupSummary, MemberAssignment
from ottla.protocol.errors import ErrorCode, PeerError
from trials.scenarios.commands import parse_command


def serving() -> GroupCoordinator:
    coordinator = GroupCoordinator(GroupSettings(), partition=12, node_id=3)
    coordinator.handle(FinishLoading(), now_ms=0)
    return coordinator


def test_its_status_runs_from_loading_to_resigned() -> None:
    coordinator = GroupCoordinator(GroupSettings())
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
    coordinator = GroupCoordinator(GroupSettings())
    assert coordinator.handle(ForgetTopics(topics=("flights",)), now_ms=0).records == ()


def test_a_deleted_group_has_no_timers(driver: Any) -> None:
    driver.in_state("Empty").given("join g - new=m9", "delete g")
    assert driver.shell.coordinator.next_deadline_ms() is None


# Which commands of groups depend on pending records.

NO_READERS = ("heartbeat g m gen=1", "commit g m gen=1 t/0=1", "join g m", "sync g m gen=1", "leave g m")
READERS = ("fetch g", "describe g", "delete g", "list")


def waiting(coordinator: Any, lines: tuple[str, ...]) -> list[str]:
    return [line for line in lines if coordinator.depends_on_pending(parse_command(line, 9))]


def hand_out(coordinator: Any, line: str) -> Any:
    return coordinator.handle(parse_command(line, 8), now_ms=0).records


def test_pending_offsets_delay_commands_that_read_offsets(driver: Any) -> None:
    coordinator = driver.in_state("Stable").shell.coordinator
    assert waiting(coordinator, (*NO_READERS, *READERS)) == []
    records = hand_out(coordinator, "commit g m1 gen=2 t/0=5 t/1=6")
    assert waiting(coordinator, (*NO_READERS, *READERS)) == list(READERS)
    assert coordinator.depends_on_pending(Resign())
    assert coordinator.depends_on_pending(ForgetTopics(topics=("t",)))
    coordinator.replay_all(records)
    assert waiting(coordinator, (*NO_READERS, *READERS)) == []


@pytest.mark.parametrize("line", ["commit g t/0=1", "join g - new=m1"])
def test_a_groups_first_offsets_and_its_record_delay_every_command(driver: Any, line: str) -> None:
    coordinator = driver.shell.coordinator
    hand_out(coordinator, line)
    assert waiting(coordinator, (*NO_READERS, *READERS)) == [*NO_READERS, *READERS]


def test_another_groups_pending_records_delay_only_what_is_about_all_groups(driver: Any) -> None:
    coordinator = driver.shell.coordinator
    hand_out(coordinator, "join g - new=m1")
    others = tuple(line.replace(" g", " h", 1) for line in (*NO_READERS, *READERS))
    assert waiting(coordinator, others) == ["list"]


# Checks before the group: the responses of a coordinator that cannot serve.

E = ErrorCode
SETTINGS = GroupSettings()
LINES = {
    "join g - new=m1": E.COORDINATOR_LOAD_IN_PROGRESS,
    "sync g m1 gen=1": E.REBALANCE_IN_PROGRESS,
    "heartbeat g m1 gen=1": E.NONE,
    "leave g m1": E.COORDINATOR_LOAD_IN_PROGRESS,
    "commit g flights/0=1": E.COORDINATOR_LOAD_IN_PROGRESS,
    "fetch g": E.COORDINATOR_LOAD_IN_PROGRESS,
    "delete-offsets g flights/0": E.COORDINATOR_LOAD_IN_PROGRESS,
    "describe g": E.COORDINATOR_LOAD_IN_PROGRESS,
    "list": E.COORDINATOR_LOAD_IN_PROGRESS,
    "delete g": E.COORDINATOR_LOAD_IN_PROGRESS,
}


def error(result: Any) -> ErrorCode:
    return result.error if hasattr(result, "error") else result.errors[0]


@pytest.mark.parametrize("line", LINES)
def test_while_loading(line: str) -> None:
    command: Any = parse_command(line, 1)
    assert error(refusal(command, CoordinatorStatus.LOADING, SETTINGS)) is LINES[line]


@pytest.mark.parametrize("line", LINES)
def test_after_resigning(line: str) -> None:
    command: Any = parse_command(line, 1)
    assert error(refusal(command, CoordinatorStatus.RESIGNED, SETTINGS)) is E.NOT_COORDINATOR


@pytest.mark.parametrize("line", LINES)
def test_while_it_serves_the_group_decides(line: str) -> None:
    command: Any = parse_command(line, 1)
    assert refusal(command, CoordinatorStatus.ACTIVE, SETTINGS) is None


@pytest.mark.parametrize(
    "line", ["join '' - new=m1", "sync '' m1 gen=1", "heartbeat '' m1 gen=1", "leave '' m1", "delete-offsets '' flights/0"]
)
@pytest.mark.parametrize("status", CoordinatorStatus)
def test_the_group_id_is_checked_first(line: str, status: CoordinatorStatus) -> None:
    command: Any = parse_command(line, 1)
    assert error(refusal(command, status, SETTINGS)) is E.INVALID_GROUP_ID


@pytest.mark.parametrize("line", ["commit '' flights/0=1", "fetch ''", "describe ''", "delete ''"])
def test_some_requests_may_name_the_empty_group(driver: Any, line: str) -> None:
    command: Any = parse_command(line, 1)
    assert refusal(command, CoordinatorStatus.ACTIVE, SETTINGS) is None
    assert driver.error(line) is not E.INVALID_GROUP_ID


def test_the_session_timeout_is_checked_before_loading() -> None:
    command: Any = parse_command("join g - new=m1 session=5999", 1)
    assert error(refusal(command, CoordinatorStatus.LOADING, SETTINGS)) is E.INVALID_SESSION_TIMEOUT


def test_a_commit_is_refused_for_every_partition() -> None:
    command: Any = parse_command("commit g flights/0=1 flights/1=1", 1)
    result: Any = error_result(command, E.NOT_COORDINATOR)
    assert result.errors == (E.NOT_COORDINATOR, E.NOT_COORDINATOR)


# ListGroups and DeleteGroups.


@pytest.mark.parametrize(
    ("line", "groups"),
    [
        ("list", ["g", "simple"]),
        ("list states=' STABLE '", ["g"]),
        ("list states=Empty", ["simple"]),
        ("list states=Dead", []),
        ("list states=stable,empty types=Classic", ["g", "simple"]),
        ("list types=consumer", []),
        ("list types=nonsense", []),
    ],
)
def test_filters(driver: Any, line: str, groups: list[str]) -> None:
    driver.in_state("Stable").given("commit simple flights/0=1")
    assert [each.group_id for each in driver.answer(line).groups] == groups


def test_a_listed_group_has_type_state_and_protocol_type(driver: Any) -> None:
    listed = driver.in_state("Stable").answer("list").groups[0]
    assert (listed.protocol_type, listed.state, listed.group_type) == ("consumer", "Stable", "classic")


def test_only_empty_groups_are_deleted(driver: Any) -> None:
    assert driver.in_state("Stable").error("delete g") is E.NON_EMPTY_GROUP
    assert driver.error("delete unknown") is E.GROUP_ID_NOT_FOUND


def test_tombstones_remove_offsets_and_then_the_group(driver: Any) -> None:
    effects = driver.in_state("Empty").given("commit g flights/0=1 weather/1=1").do("delete g")
    assert [type(record).__name__ for record in effects.records] == ["OffsetRecord", "OffsetRecord", "GroupMetadataRecord"]
    assert all(record.value is None for record in effects.records)
    assert [event.kind for event in effects.events] == ["deleted"]
    assert driver.shell.stored.group_metadata == {}
    assert driver.shell.stored.offsets == {}
    assert driver.answer("list").groups == ()


def test_a_deletion_whose_append_fails_changes_nothing(driver: Any) -> None:
    driver.in_state("Empty")
    driver.shell.fail_next_append = E.NOT_ENOUGH_REPLICAS
    effects = driver.do("delete g")
    assert effects.replies[0].result.error is E.COORDINATOR_NOT_AVAILABLE
    assert effects.events == ()
    assert driver.error("describe g") is E.NONE


def test_groups_are_listed_by_state() -> None:
    groups = [ClassicGroup(name, now_ms=0) for name in ("a", "b")]
    assert [each.group_id for each in ListedGroups(groups, frozenset())] == ["a", "b"]
    assert [(each.state, each.group_type) for each in ListedGroups(groups, frozenset({"empty"}))] == [("Empty", "classic")] * 2
    assert len(ListedGroups(groups, frozenset({"stable"}))) == 0


def test_a_listed_group_is_read_when_its_item_is_created() -> None:
    looked = 0

    class Group(ClassicGroup):
        def __getattribute__(self, name: str) -> object:
            nonlocal looked
            looked += name == "group_id"
            return super().__getattribute__(name)

    lines = iter(ListedGroups([Group(name, now_ms=0) for name in "abc"], frozenset()))
    before = looked
    next(lines)
    assert looked == before + 1


# Summaries of groups.


def test_a_summary_counts(driver: Any) -> None:
    driver.in_state("Stable").given("join g - new=s1 instance=i1", "join g - new=p1")
    coordinator = driver.shell.coordinator
    assert list(coordinator.state.groups) == ["g"]
    assert coordinator.summary("g") == GroupSummary("g", "PreparingRebalance", 2, "consumer", "range", 3, 1, 1, 0)
    assert coordinator.summary("h") is None


def test_committed_offsets_by_topic(driver: Any) -> None:
    driver.in_state("Stable").given("commit g m1 gen=2 flights/0=7 flights/1=9")
    ((topic, partitions, values),) = driver.shell.coordinator.committed_offsets("g")
    assert (topic, partitions, [value.offset for value in values]) == ("flights", [0, 1], [7, 9])
    assert not driver.shell.coordinator.committed_offsets("h")


@pytest.mark.conformance("OffsetMetadataManagerTest.testOffsetCommitsSensor")
def test_commits_are_counted(driver: Any) -> None:
    driver.in_state("Stable").given("commit g m1 gen=2 flights/0=7 flights/1=9", "commit g m1 gen=1 flights/0=8", "commit h flights/0=1")
    coordinator = driver.shell.coordinator
    counts = [each.offset_commits for group_id in "gh" if (each := coordinator.summary(group_id)) is not None]
    assert (counts, coordinator.state.offsets_committed) == ([2, 1], 3), "a commit that is refused does not count"
    driver.given("delete h")
    assert coordinator.summary("h") is None
    assert coordinator.state.offsets_committed == 3


def test_assignments_are_read_while_the_group_is_stable(driver: Any) -> None:
    driver.in_state("Stable")
    coordinator = driver.shell.coordinator
    first, second = coordinator.assignments("g") or ()
    host = driver.group().members["m1"].client_host
    assert first == MemberAssignment("m1", driver.group().members["m1"].client_id, host, (("flights", 0),))
    assert (second.member_id, second.partitions) == ("m2", (("flights", 1),))
    driver.given("join g m1")
    assert coordinator.assignments("g") is None
    assert coordinator.assignments("h") is None


# Snapshots: frozen copies of the groups.


def test_a_snapshot_shows_parked_requests(driver: Any) -> None:
    driver.in_state("CompletingRebalance").given("sync g m2 gen=2", "commit other flights/3=7")
    group, simple = driver.shell.coordinator.snapshot().groups
    assert (group.group_id, group.state, group.generation, group.leader) == ("g", "CompletingRebalance", 2, "m1")
    assert group.metadata is not None
    assert group.metadata.generation == 1
    assert [member.parked_in for member in group.members] == [None, "SyncGroup"]
    assert group.pending_sync_ids == ("m1",)
    assert group.sync_deadline_ms == 60_000
    assert group.join_deadline_ms is None
    assert simple.offsets["flights"][3].offset == 7
    assert simple.metadata is None


def test_a_snapshot_does_not_change_with_the_group(driver: Any) -> None:
    driver.in_state("Stable")
    before = driver.shell.coordinator.snapshot()
    driver.given("commit g m1 gen=2 flights/0=1", "leave g m2")
    assert before.groups[0].offsets == {}
    assert [member.member_id for member in before.groups[0].members] == ["m1", "m2"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.groups[0].state = "Empty"


def test_assignments_are_readable(driver: Any) -> None:
    driver.in_state("Stable")
    snapshot = driver.shell.coordinator.snapshot()
    assert [dict(member.assigned) for member in snapshot.groups[0].members] == [{"flights": (0,)}, {"flights": (1,)}]
    assert (snapshot.partition, snapshot.node_id, snapshot.status) == (0, 1, "active")


def test_settings_of_one_consumer_group_hold_at_its_next_heartbeat() -> None:
    values = {SESSION_TIMEOUT: 7_000, HEARTBEAT_INTERVAL: 900, ASSIGNMENT_INTERVAL: 0}

    class Configs:
        def group_number(self, group_id: str, name: str) -> int:
            return values[name] if group_id == "g" else GroupSettings().group_number(group_id, name)

    coordinator = GroupCoordinator(GroupSettings(), configs=Configs())
    coordinator.handle(FinishLoading(), now_ms=0)

    def answer(line: str, now_ms: int) -> Any:
        effects = coordinator.handle(parse_command(line, 1), now_ms=now_ms)
        coordinator.replay_all(effects.records)
        return effects.replies[0].result

    assert answer("consumer g m topics=flights", 0).heartbeat_interval_ms == 900
    assert answer("consumer h m topics=flights", 0).heartbeat_interval_ms == 5_000
    values |= {SESSION_TIMEOUT: 8_000, HEARTBEAT_INTERVAL: 1_000}
    assert coordinator.state.timers.next_deadline_ms() == 7_000
    assert answer("consumer g m epoch=2", 10).heartbeat_interval_ms == 1_000
    assert coordinator.state.timers.next_deadline_ms() == 8_010
