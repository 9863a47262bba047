"""Every line that Apache Kafka 4.3's classic coordinator was seen to log, in the situation in which it logs it: people's greps work.

A case is a coordinator's state, what happens then, and the lines that must be among those logged, word for word.
"""

from dataclasses import dataclass
from typing import Any

import pytest

from ottla.coordinator.coordinator import AppendFailed, FinishLoading, Resign
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from trials.scenarios.commands import parse_command

PREPARING = "Preparing to rebalance group g in state PreparingRebalance with old generation {} (reason: {})."


@dataclass(frozen=True)
class Case:
    """`after` is a path of the conftest or lines; `does` are lines, `wait` among them."""

    after: str
    does: tuple[str, ...]
    logs: tuple[str, ...]


def preparing(generation: int, reason: str) -> str:
    return PREPARING.format(generation, reason)


LEFT = "[Group g] Member m2 has left group through explicit `LeaveGroup` request; client reason: "
STATIC = ("join g - new=s1 instance=i1", "wait 3000", "sync g s1 gen=1 assignment=s1:flights/0")
CASES = {
    "first start": Case(
        "",
        ("join g - new=m1", "join g m1", "wait 3000", "sync g m1 gen=1 assignment=m1:flights/0"),
        (
            "Dynamic member with unknown member id joins group g in Empty state. "
            "Created a new member id m1 and requesting the member to rejoin with this id.",
            "Pending dynamic member with id m1 joins group g in Empty state. Adding to the group now.",
            preparing(0, "Adding new member m1 with group instance id null; client reason: not provided"),
            "Stabilized group g generation 1 with 1 members.",
            "Assignment received from leader m1 for group g for generation 1. The group has 1 members, 0 of which are static.",
        ),
    ),
    "join": Case(
        "Stable",
        ("join g - new=m3", "join g m3"),
        (
            "Dynamic member with unknown member id joins group g in Stable state. "
            "Created a new member id m3 and requesting the member to rejoin with this id.",
            "Pending dynamic member with id m3 joins group g in Stable state. Adding to the group now.",
            preparing(2, "Adding new member m3 with group instance id null; client reason: not provided"),
        ),
    ),
    "leave": Case(
        "Stable",
        ('leave g m2 reason="the consumer is being closed"', "leave g m1"),
        (
            LEFT + "the consumer is being closed",
            preparing(2, "explicit `LeaveGroup` request for (m2) members."),
            "Group g with generation 3 is now empty.",
        ),
    ),
    "poll interval": Case(
        "Stable",
        ('leave g m2 reason="consumer poll timeout has expired."',),
        (LEFT + "consumer poll timeout has expired.", preparing(2, "explicit `LeaveGroup` request for (m2) members.")),
    ),
    "session expired": Case(
        "Stable",
        ("wait 9999", "heartbeat g m1 gen=2", "wait 1"),
        ("Member m2 in group g has failed, removing it from the group.", preparing(2, "removing member m2 on heartbeat expiration.")),
    ),
    "rejoin too late": Case(
        "Stable",
        ("join g m1", *("wait 9000", "heartbeat g m2 gen=2") * 7),
        ("Group g removed dynamic members who haven't joined: [m2]", "Stabilized group g generation 3 with 1 members."),
    ),
    "no SyncGroup": Case(
        "CompletingRebalance",
        ("sync g m1 gen=2 assignment=m1:flights/0", *("wait 9000", "heartbeat g m1 gen=2", "heartbeat g m2 gen=2") * 7),
        (preparing(2, "Removing [m2] on pending sync request expiration"),),
    ),
    "the leader joins again": Case(
        "Stable",
        ('join g m1 reason="cached metadata has changed"',),
        (preparing(2, "Leader m1 re-joining group during Stable; client reason: cached metadata has changed"),),
    ),
    "another subscription": Case(
        "Stable",
        ('join g m2 protocols=range:flights,trains reason="subscription has changed"',),
        (preparing(2, "Updating metadata for member m2 during Stable; client reason: subscription has changed"),),
    ),
    "another assignor": Case(
        "",
        (
            "join g - new=s1 instance=i1 protocols=range:flights/roundrobin:flights",
            *STATIC[1:],
            "join g - new=s2 instance=i1 protocols=roundrobin:flights/range:flights",
        ),
        (
            preparing(
                1,
                "Group's selectedProtocol will change because static member s2 with instance id i1 joined with change of protocol; "
                "client reason: not provided",
            ),
        ),
    ),
    "static restart": Case(
        "",
        (*STATIC, "join g - new=s2 instance=i1"),
        (
            "Static member with groupInstanceId=i1 and unknown member id joins group g in Stable state. "
            "Replacing previously mapped member s1 with this groupInstanceId.",
            "Static member which joins during Stable stage and doesn't affect the selected protocol will not trigger a rebalance.",
            "Assignment received from leader s1 for group g for generation 1. The group has 1 members, 1 of which are static.",
        ),
    ),
    "removed by an administrator": Case(
        "Stable", ('leave g m2 reason="member was removed by an admin"',), (LEFT + "member was removed by an admin",)
    ),
    "removed by instance id": Case(
        "",
        (*STATIC, "leave g instance=i1 reason=drain"),
        (
            "[Group g] Member s1 has left group through explicit `LeaveGroup` request; client reason: drain",
            preparing(1, "explicit `LeaveGroup` request for () members."),
        ),
    ),
    "an id that never joined": Case(
        "Stable",
        ("join g - new=m3 session=6s", "wait 6000"),
        ("Pending member m3 in group g has been removed after session timeout expiration.",),
    ),
    "a member without a part": Case(
        "CompletingRebalance",
        ("sync g m1 gen=2 assignment=m1:flights/0",),
        (
            "Setting empty assignments for members [m2] of g for generation 2.",
            "Sending empty assignment to member m2 of g for generation 2 with no errors",
        ),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_what_kafka_logs(driver: Any, case: Case) -> None:
    if case.after:
        driver.in_state(case.after)
    logged: list[str] = []
    for line in case.does:
        fired = driver.wait(int(line.removeprefix("wait "))) if line.startswith("wait ") else [driver.do(line)]
        logged += [said for effects in fired for said in effects.log_lines]
    for line in case.logs:
        assert line in logged


def test_an_assignment_that_could_not_be_appended() -> None:
    coordinator, said = GroupCoordinator(GroupSettings()), []
    coordinator.handle(FinishLoading(), now_ms=0)
    for at, line in enumerate(("join g - new=m1", "join g m1"), 1):
        effects = coordinator.handle(parse_command(line, at), now_ms=0)
        for record in effects.records:
            coordinator.replay(record)
    coordinator.fire_timers(now_ms=3_000)
    effects = coordinator.handle(parse_command("sync g m1 gen=1", 3), now_ms=3_000)
    failed = coordinator.handle(AppendFailed(error=ErrorCode.MESSAGE_TOO_LARGE, effects=effects), now_ms=3_000)
    said += failed.log_lines
    assert not any(line.startswith("Sending") for line in said), "nothing is sent of it"
    assert preparing(1, "Error UNKNOWN_SERVER_ERROR when storing group assignmentduring SyncGroup (member: m1).") in said


def test_a_coordinator_that_moves(driver: Any) -> None:
    driver.in_state("Stable")
    unloaded = driver.run(Resign()).log_lines
    assert unloaded == ("[GroupId=g] Unloading group metadata for generation 2.",)
    elsewhere = GroupCoordinator(GroupSettings(group_max_size=1))
    for record in driver.shell.read_log():
        elsewhere.replay(record)
    loaded = elsewhere.handle(FinishLoading(), now_ms=0).log_lines
    assert loaded[:2] == (
        "Loaded classic group g with 2 members.",
        preparing(
            2,
            "Freshly-loaded group g (size 2) is over capacity 1. Rebalancing in order to give a chance for consumers to commit offsets",
        ),
    )
