"""The lines that Apache Kafka 4.3.0 was seen to log for each cause, read and judged."""

from datetime import UTC

import pytest

from ottla.history.sources.broker_log import broker_log_reader
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.judging import judge_group
from ottla.history.verdicts.verdict import AVOIDED, REFUSED, Confidence, Verdict

CLASSIC = "INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=7] "
UUID = "51b6c1d2-0000-4000-8000-0123456789ab"
A, B, C = (f"{name}-{UUID[:-1]}{at}" for at, name in enumerate(("w1", "w2", "w3")))
PREPARING = "Preparing to rebalance group g in state PreparingRebalance with old generation"
NO = "client reason: not provided"


def formed(generation: int, count: int) -> str:
    return (
        f"Stabilized group g generation {generation} with {count} members.\n"
        f"Assignment received from leader {A} for group g for generation {generation}. "
        f"The group has {count} members, 0 of which are static."
    )


def joins(member: str, old: int) -> str:
    return (
        f"Pending dynamic member with id {member} joins group g in Stable state. Adding to the group now.\n"
        f"{PREPARING} {old} (reason: Adding new member {member} with group instance id null; {NO})."
    )


def leaves(member: str, old: int, reason: str) -> str:
    return (
        f"[Group g] Member {member} has left group through explicit `LeaveGroup` request; client reason: {reason}\n"
        f"{PREPARING} {old} (reason: explicit `LeaveGroup` request for ({member}) members.)."
    )


START = f"{joins(A, 0)}\n{joins(B, 0)}\n{formed(1, 2)}"


def judged(*steps: str, seconds: int = 20) -> list[Verdict]:
    """The verdicts on these steps, `seconds` apart; the lines of a step are 10 ms apart."""
    lines = []
    for number, step in enumerate(steps):
        at_ms = 1_000 * seconds * number
        for line in step.splitlines():
            at_ms += 10
            minutes, rest = divmod(at_ms, 60_000)
            lines.append(f"[2026-11-22 14:{minutes:02}:{rest // 1000:02},{rest % 1000:03}] {CLASSIC}{line}")
    return judge_group("g", broker_log_reader(clock="server.log", zone=UTC).read(lines))


def rejoins(reason: str) -> str:
    return f"{PREPARING} 1 (reason: Leader {A} re-joining group during Stable; client reason: {reason}).\n{formed(2, 2)}"


@pytest.mark.parametrize(
    ("step", "cause", "others"),
    [
        (f"{joins(C, 1)}\n{formed(2, 3)}", Cause.JOIN_NEW, set()),
        (f"{leaves(B, 1, 'the consumer is being closed')}\n{formed(2, 1)}", Cause.LEAVE_CLOSE, set()),
        (f"{leaves(B, 1, 'not provided')}\n{formed(2, 1)}", Cause.LEAVE_CLOSE, {Cause.POLL_TIMEOUT}),
        (f"{leaves(B, 1, 'consumer poll timeout has expired.')}\n{formed(2, 1)}", Cause.POLL_TIMEOUT, set()),
        (f"{leaves(B, 1, 'member was removed by an admin')}\n{formed(2, 1)}", Cause.ADMIN, set()),
        (f"{leaves(B, 1, 'drain')}\n{formed(2, 1)}", Cause.ADMIN, set()),
        (
            f"Member {B} in group g has failed, removing it from the group.\n"
            f"{PREPARING} 1 (reason: removing member {B} on heartbeat expiration.).\n{formed(2, 1)}",
            Cause.EXPIRE_HEARTBEAT,
            set(),
        ),
        (f"{joins(C, 1)}\nGroup g removed dynamic members who haven't joined: [{B}]\n{formed(2, 2)}", Cause.JOIN_TIMEOUT, {Cause.JOIN_NEW}),
        (f"{PREPARING} 1 (reason: Removing [{B}] on pending sync request expiration).\n{formed(2, 1)}", Cause.SYNC_TIMEOUT, set()),
        (rejoins("cached metadata has changed"), Cause.TOPIC_CHANGE, set()),
        (rejoins("subscription has changed"), Cause.SUBSCRIPTION, set()),
        (rejoins("rebalance enforced by user"), Cause.ENFORCED, set()),
        (rejoins("not provided"), None, {Cause.TOPIC_CHANGE, Cause.SUBSCRIPTION, Cause.LEADER_REJOIN_SPURIOUS, Cause.COOP_FOLLOWUP}),
        (
            f"{PREPARING} 1 (reason: Freshly-loaded group g (size 3) is over capacity 2. "
            f"Rebalancing in order to give a chance for consumers to commit offsets).\n{formed(2, 2)}",
            Cause.CAPACITY,
            set(),
        ),
        (
            f"{PREPARING} 1 (reason: Error UNKNOWN_SERVER_ERROR when storing group assignmentduring SyncGroup (member: {A}).)."
            f"\n{formed(2, 2)}",
            Cause.STORE_ERROR,
            set(),
        ),
        (
            f"{PREPARING} 1 (reason: Downgrade group g from consumer to classic for member leaving.).\n{formed(2, 1)}",
            Cause.MIGRATION,
            set(),
        ),
    ],
)
def test_the_lines_of_each_cause(step: str, cause: Cause | None, others: set[Cause]) -> None:
    first, second = judged(START, step)
    assert first.cause is Cause.COLD_START
    assert cause is None or second.cause is cause
    assert others <= set(second.candidates)


def test_a_restart_is_two_rebalances_of_one_cause() -> None:
    again = f"w2-{UUID[:-1]}9"
    rest = f"{leaves(B, 1, 'the consumer is being closed')}\n{formed(2, 1)}", f"{joins(again, 2)}\n{formed(3, 2)}"
    assert [verdict.cause for verdict in judged(START, *rest)][1:] == [Cause.RESTART_DYNAMIC, Cause.RESTART_DYNAMIC]


def test_a_cooperative_second_half_belongs_to_the_first() -> None:
    second_half = (
        f"{PREPARING} 2 (reason: Leader {A} re-joining group during Stable; client reason: need to revoke partitions and re-join)."
    )
    (_, verdict) = judged(START, f"{joins(C, 1)}\n{formed(2, 3)}\n{second_half}\n{formed(3, 3)}")
    assert (verdict.cause, verdict.generations) == (Cause.JOIN_NEW, (2, 3))


def test_a_static_restart_is_avoided() -> None:
    replaced = (
        f"Static member with groupInstanceId=i and unknown member id joins group g in Stable state. "
        f"Replacing previously mapped member {B} with this groupInstanceId.\n"
        "Static member which joins during Stable stage and doesn't affect the selected protocol will not trigger a rebalance."
    )
    (_, verdict) = judged(START, replaced)
    assert (verdict.kind, verdict.cause) == (AVOIDED, Cause.STATIC_REJOIN)
    assert Cause.STATIC_FENCED in verdict.candidates


def test_ottla_says_whom_it_refuses_since_it_shares_no_assignor() -> None:
    refused = "Refused to let w9 join group g: it has sticky of type consumer, which not all members have."
    verdict = judged(START, f"{refused}\n{refused}")[-1]
    assert (verdict.kind, verdict.cause, verdict.confidence) == (REFUSED, Cause.FAILED_JOIN, Confidence.HIGH)
    assert verdict.who is not None
    assert verdict.who.name == "w9"
