"""Effects as lines of a scenario file."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.effects import (
    CommitResult,
    DeleteResult,
    DescribedMember,
    DescribeResult,
    Effects,
    FetchedOffset,
    HeartbeatResult,
    JoinMember,
    JoinResult,
    LeaveResult,
    LeftMember,
    ListedGroup,
    ListResult,
    OffsetDeleteResult,
    OffsetFetchResult,
    Reply,
    Result,
    SyncResult,
    TimerSet,
)
from ottla.core.groups.log.records import GroupMetadataRecord, OffsetRecord, OffsetValue
from ottla.core.model import GroupEvent
from ottla.testing.kit.consumer_protocol import encode_assignment, encode_subscription
from ottla.testing.scenarios.effects import NONE_LINE, render_effects, render_result

E = ErrorCode
METADATA, ASSIGNED = encode_subscription(["flights"]), encode_assignment({"flights": [0, 1]})
FOUND = FetchedOffset(partition=0, offset=5, leader_epoch=-1, metadata="note", error=E.NONE)
MISSING = FetchedOffset(partition=1, offset=-1, leader_epoch=-1, metadata="", error=E.UNSTABLE_OFFSET_COMMIT)

RESULTS: list[tuple[Result, str]] = [
    (JoinResult(error=E.MEMBER_ID_REQUIRED, member_id="m1"), "JoinGroup MEMBER_ID_REQUIRED member=m1"),
    (JoinResult(error=E.INVALID_GROUP_ID, member_id=""), "JoinGroup INVALID_GROUP_ID member=-"),
    (
        JoinResult(
            error=E.NONE,
            member_id="m1",
            generation=2,
            protocol_name="range",
            leader="m1",
            skip_assignment=True,
            members=(JoinMember(member_id="m1", instance_id="i1", metadata=METADATA),),
        ),
        "JoinGroup NONE gen=2 member=m1 leader=m1 protocol=range members=[m1(i1) flights] skip-assignment",
    ),
    (SyncResult(error=E.NONE, protocol_name="range", assignment=ASSIGNED), "SyncGroup NONE protocol=range assignment=flights/0+1"),
    (SyncResult(error=E.NONE, protocol_name="x", assignment=b"raw"), "SyncGroup NONE protocol=x assignment=b'raw'"),
    (SyncResult(error=E.ILLEGAL_GENERATION), "SyncGroup ILLEGAL_GENERATION"),
    (HeartbeatResult(error=E.NONE), "Heartbeat NONE"),
    (
        LeaveResult(error=E.NONE, members=(LeftMember(member_id="", instance_id="i1", error=E.UNKNOWN_MEMBER_ID),)),
        "LeaveGroup NONE -(i1)=UNKNOWN_MEMBER_ID",
    ),
    (CommitResult(errors=(E.NONE, E.ILLEGAL_GENERATION)), "OffsetCommit NONE ILLEGAL_GENERATION"),
    (
        OffsetFetchResult(error=E.NONE, topics=(("t", (FOUND, MISSING)),)),
        "OffsetFetch NONE t/0=5 (note) t/1=-1 UNSTABLE_OFFSET_COMMIT",
    ),
    (OffsetDeleteResult(error=E.NONE, errors=(E.NONE,)), "OffsetDelete NONE NONE"),
    (OffsetDeleteResult(error=E.GROUP_ID_NOT_FOUND), "OffsetDelete GROUP_ID_NOT_FOUND"),
    (
        DescribeResult(
            error=E.NONE,
            group_id="g",
            state="Stable",
            protocol_data="range",
            members=(
                DescribedMember(member_id="m1", instance_id=None, client_id="c", client_host="/h", metadata=METADATA, assignment=ASSIGNED),
            ),
        ),
        "DescribeGroups NONE Stable protocol=range members=[m1 flights flights/0+1]",
    ),
    (DescribeResult(error=E.NOT_COORDINATOR, group_id="g"), "DescribeGroups NOT_COORDINATOR"),
    (
        ListResult(error=E.NONE, groups=(ListedGroup(group_id="g", protocol_type="consumer", state="Empty", group_type="classic"),)),
        "ListGroups NONE g=Empty(consumer)",
    ),
    (DeleteResult(error=E.NON_EMPTY_GROUP), "DeleteGroups NON_EMPTY_GROUP"),
]


@pytest.mark.parametrize(("result", "line"), RESULTS)
def test_answers(result: Result, line: str) -> None:
    assert render_result(result) == line


def test_nothing() -> None:
    assert render_effects(Effects()) == [NONE_LINE]


def test_every_effect_has_its_line() -> None:
    value = OffsetValue(offset=5, leader_epoch=-1, metadata="", commit_timestamp_ms=0, expire_timestamp_ms=99)
    event = GroupEvent(
        at_ms=0,
        group="g",
        kind="trigger",
        generation=1,
        state_from="Stable",
        state_to="PreparingRebalance",
        trigger="LEAVE",
        coalesced=True,
        reason="why",
        member_id="m1",
        instance_id="i1",
        evidence={"last_heartbeat_age_ms": 7},
    )
    effects = Effects(
        records=(
            OffsetRecord(group_id="g", topic="t", partition=0, value=value),
            OffsetRecord(group_id="g", topic="t", partition=1, value=None),
            GroupMetadataRecord(group_id="g", value=None),
        ),
        replies=(Reply(to=3, result=HeartbeatResult(error=E.NONE)),),
        events=(event,),
        timers=(TimerSet(key="session g m1", at_ms=1), TimerSet(key="session g m1", at_ms=2)),
        log_lines=("said",),
    )
    assert render_effects(effects) == [
        "log    said",
        "record offset g t/0 = 5 until 99",
        "record offset g t/1 is deleted",
        "record group g is deleted",
        "reply  #3 Heartbeat NONE",
        'event  trigger LEAVE coalesced Stable->PreparingRebalance gen=1 member=m1(i1) last_heartbeat_age_ms=7 "why"',
        "timer  session g m1 at 2",
    ]
