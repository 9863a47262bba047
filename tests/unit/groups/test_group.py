"""Groups of any type, their settings, and evidence in reasons."""

from typing import Any

import pytest

from ottla.config import BrokerConfig
from ottla.coordinator.effects import Reply, TimerSet
from ottla.coordinator.timers import Timer
from ottla.groups.classic.group import JOIN, ClassicGroup
from ottla.groups.classic.member import SESSION
from ottla.groups.classic.states import GroupState
from ottla.groups.commands import GroupEffects, HeartbeatResult
from ottla.groups.group import UNKNOWN_MS, CommandContext, CoordinatorState
from ottla.groups.reason_evidence import REASON_LETTERS_MAX, MemberCause, evidence_in, evidence_text, with_evidence
from ottla.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.compression import Codec

E = ErrorCode

EXPIRED = "consumer poll timeout has expired."


@pytest.mark.parametrize(
    ("state", "is_empty", "delete_group", "delete_offsets"),
    [
        ("Empty", True, E.NONE, E.NONE),
        ("PreparingRebalance", False, E.NON_EMPTY_GROUP, E.NONE),
        ("Stable", False, E.NON_EMPTY_GROUP, E.NONE),
    ],
)
def test_what_a_state_allows(driver: Any, state: str, is_empty: bool, delete_group: ErrorCode, delete_offsets: ErrorCode) -> None:
    group = driver.in_state(state).group()
    assert (group.group_type, group.state_name, group.is_empty, group.is_dead) == ("classic", state, is_empty, False)
    assert (group.delete_group_error, group.delete_offsets_error) == (delete_group, delete_offsets)


def test_offsets_of_members_that_are_not_consumers_cannot_be_deleted() -> None:
    group = ClassicGroup("g", now_ms=0)
    group.protocol_type = "connect"
    group.transition(GroupState.PREPARING_REBALANCE, 0)
    assert group.delete_offsets_error is E.NON_EMPTY_GROUP


def test_a_dead_group_is_as_good_as_unknown() -> None:
    group = ClassicGroup("g", now_ms=0)
    group.transition(GroupState.DEAD, 0)
    assert group.is_dead
    assert (group.delete_group_error, group.delete_offsets_error) == (E.GROUP_ID_NOT_FOUND, E.GROUP_ID_NOT_FOUND)


def test_retention_counts_from_the_last_member_where_there_was_one(driver: Any) -> None:
    driver.now_ms = 3_000
    group = driver.in_state("Empty").group()
    assert group.empty_since_ms == 3_000
    group.state_since_ms = UNKNOWN_MS
    assert group.empty_since_ms is None
    assert ClassicGroup("simple", now_ms=5).empty_since_ms is None


def test_retention_counts_from_each_commit_while_the_group_has_members(driver: Any) -> None:
    assert driver.in_state("Stable").group().empty_since_ms is None


# A command context collects effects and changes soft state alone.


def test_a_command_without_effects_is_empty() -> None:
    assert CommandContext(CoordinatorState(GroupSettings()), 5, 5).effects() == GroupEffects()


def test_collected_effects_are_returned() -> None:
    context, timer = CommandContext(CoordinatorState(GroupSettings()), 5, 5), Timer(JOIN, "g")
    context.reply(1, HeartbeatResult(error=ErrorCode.NONE))
    context.log("line")
    context.arm(timer, 10)
    effects = context.effects()
    assert effects.replies == (Reply(to=1, result=HeartbeatResult(error=ErrorCode.NONE)),)
    assert effects.log_lines == ("line",)
    assert effects.timers == (TimerSet(key="join g", at_ms=15),)


def test_a_timer_that_is_cancelled_by_the_same_command_is_not_reported() -> None:
    context, timer = CommandContext(CoordinatorState(GroupSettings()), 5, 5), Timer(JOIN, "g")
    context.arm(timer, 10)
    context.cancel(timer)
    assert context.effects().timers == ()
    assert context.state.timers.next_deadline_ms() is None


# The state of a coordinator: counters, and the removal of a group.


def test_removing_a_group_cancels_its_timers() -> None:
    state = CoordinatorState(GroupSettings())
    group = state.groups["g"] = ClassicGroup("g", now_ms=0)
    group.pending["m1"] = Timer(SESSION, "g", "m1")
    for timer in (group.join_timer, group.sync_timer, group.pending["m1"]):
        state.timers.arm(timer, 10)
    state.remove_group(group)
    assert state.groups == {}
    assert state.timers.next_deadline_ms() is None


def test_a_removed_group_keeps_its_share_of_the_total_commits() -> None:
    state = CoordinatorState(GroupSettings())
    group = state.groups["g"] = ClassicGroup("g", now_ms=0)
    state.count_commits("g", 3)
    state.remove_group(group)
    assert (state.commit_counts, state.offsets_committed) == ({}, 3)


def test_defaults_are_kafkas() -> None:
    settings = GroupSettings()
    assert settings.group_min_session_timeout_ms == 6_000
    assert settings.group_max_session_timeout_ms == 1_800_000
    assert settings.group_max_size == 2**31 - 1
    assert settings.offset_metadata_bytes_max == 4_096
    assert NEW_MEMBER_JOIN_TIMEOUT_MS == 300_000
    assert settings.offsets_retention_ms == 604_800_000
    assert settings.offsets_retention_check_interval_ms == 600_000


def test_an_empty_configuration_has_the_defaults() -> None:
    assert GroupSettings.from_config(BrokerConfig({})) == GroupSettings()


def test_every_setting_has_its_name_in_a_configuration() -> None:
    given = {
        "group.min.session.timeout.ms": "1",
        "group.max.session.timeout.ms": "2",
        "group.initial.rebalance.delay.ms": "3",
        "group.max.size": "4",
        "offset.metadata.max.bytes": "5",
        "offsets.retention.minutes": "6",
        "offsets.retention.check.interval.ms": "7",
        "offsets.topic.compression.codec": "4",
    }
    assert GroupSettings.from_config(BrokerConfig(given)) == GroupSettings(
        group_min_session_timeout_ms=1,
        group_max_session_timeout_ms=2,
        group_initial_rebalance_delay_ms=3,
        group_max_size=4,
        offset_metadata_bytes_max=5,
        offsets_retention_ms=360_000,
        offsets_retention_check_interval_ms=7,
        offsets_topic_codec=Codec.ZSTD,
    )


def test_the_initial_delay_is_off_by_default() -> None:
    assert GroupSettings().group_initial_rebalance_delay_ms == 0


@pytest.mark.conformance("GroupCoordinatorTest.testOffsetsRetentionMsIntegerOverflow")
def test_the_longest_retention_does_not_overflow() -> None:
    settings = GroupSettings.from_config(BrokerConfig({"offsets.retention.minutes": str(2**31 - 1)}))
    assert settings.offsets_retention_ms == (2**31 - 1) * 60_000


def test_javas_text_comes_first_and_unchanged() -> None:
    reason = with_evidence(EXPIRED, "slow processing: no poll for 6001 ms")
    assert reason == "consumer poll timeout has expired. [slow processing: no poll for 6001 ms]"
    assert evidence_in(reason) is MemberCause.SLOW_PROCESSING
    assert evidence_text(reason) == "slow processing: no poll for 6001 ms"
    assert with_evidence(EXPIRED, "") == EXPIRED


@pytest.mark.parametrize("cause", MemberCause)
def test_every_cause_is_read_back_also_when_the_reason_is_cut_off(cause: MemberCause) -> None:
    reason = with_evidence(EXPIRED, f"{cause}: {'1' * 300}")
    assert len(reason) == REASON_LETTERS_MAX
    assert evidence_in(reason) is cause


@pytest.mark.parametrize("reason", ["", EXPIRED, "an administrator's text [network]", "[weather: rain]", "[network: 1] and more"])
def test_other_brackets_are_no_evidence(reason: str) -> None:
    assert evidence_in(reason) is None
    assert evidence_text(reason) == ""
